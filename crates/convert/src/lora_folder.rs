//! A folder with an adapter, as PEFT saves it.

use std::borrow::ToOwned;
use std::path::{Path, PathBuf};

use strata_host::MappedFile;
use strata_weights::safetensors::{self, SafetensorsError};
use strata_weights::torch::{self, TorchError};

use crate::lora::{Lora, LoraBase, LoraError};

/// What an adapter's folder holds beside its weights.
const CONFIG: &str = "adapter_config.json";
const SAFETENSORS: &str = "adapter_model.safetensors";
const TORCH: &str = "adapter_model.bin";

/// Why an adapter's folder was refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum LoraFolderError {
    #[error("{}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {source}", path.display())]
    Safetensors {
        path: PathBuf,
        source: SafetensorsError,
    },
    #[error("{}: {source}", path.display())]
    Torch { path: PathBuf, source: TorchError },
    #[error("{}: {source}", path.display())]
    Lora { path: PathBuf, source: LoraError },
}

impl Lora {
    /// Whether a path is a folder with an adapter.
    pub fn is_folder(path: &Path) -> bool {
        path.join(CONFIG).is_file()
    }

    /// Reads a folder's adapter, for a model.
    pub fn read_folder(folder: &Path, base: LoraBase<'_>) -> Result<Self, LoraFolderError> {
        let map = |path: &Path| {
            MappedFile::open(path).map_err(|source| LoraFolderError::Io {
                path: path.to_owned(),
                source,
            })
        };
        let config = map(&folder.join(CONFIG))?;
        let path = folder.join(SAFETENSORS);
        let torch_path = folder.join(TORCH);
        let file;
        let tensors = if !path.is_file() && torch_path.is_file() {
            file = map(&torch_path)?;
            torch::parse(file.bytes()).map_err(|source| LoraFolderError::Torch {
                path: torch_path,
                source,
            })?
        } else {
            file = map(&path)?;
            safetensors::parse(file.bytes())
                .map_err(|source| LoraFolderError::Safetensors { path, source })?
        };
        Self::read(config.bytes(), &tensors, base).map_err(|source| LoraFolderError::Lora {
            path: folder.to_owned(),
            source,
        })
    }
}
