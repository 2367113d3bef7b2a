//! LoRA adapters: a GGUF file, or a folder as PEFT saves it.

use super::model_file::ModelFile;
use crate::error::{Error, ErrorKind};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use strata_convert::{Lora, LoraBase, LoraFolderError};
use strata_model::{Adapter, AdapterTensor, Model};
use strata_weights::GgmlType;

/// Where an adapter is, and how much of it is wanted.
#[derive(Clone, Debug)]
pub struct AdapterFile {
    /// Its file or folder.
    pub path: PathBuf,
    /// Its strength; 1 is all of it.
    pub scale: f32,
}

impl AdapterFile {
    /// Reads `PATH` or `PATH=0.5`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let Some((path, scale)) = text.rsplit_once('=') else {
            return Ok(Self {
                path: text.into(),
                scale: 1.0,
            });
        };
        match scale.parse::<f32>() {
            Ok(scale) if scale.is_finite() => Ok(Self {
                path: path.into(),
                scale,
            }),
            _ => Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("--lora {text}: {scale:?} is not a scale"),
            )),
        }
    }

    /// Loads the adapter, for a model.
    pub fn load(&self, model: &Model) -> Result<Adapter, Error> {
        let bad = |error: &dyn Display| {
            let sentence = format_args!("{}: {error}", self.path.display());
            Error::new(ErrorKind::InvalidModel, sentence)
        };
        if !Lora::is_folder(&self.path) {
            let file = ModelFile::open(&self.path)?;
            return Adapter::load(&file.parse()?, model).map_err(|error| bad(&error));
        }
        let config = model.config();
        let attention = config.attention().next();
        let base = LoraBase {
            arch: config.spec.name,
            heads: attention.map_or(0, |a| a.heads),
            kv_heads: attention.map_or(0, |a| a.kv_heads),
        };
        let lora = read_folder(&self.path, base)?;
        let tensors = lora.tensors.iter().map(|tensor| AdapterTensor {
            name: &tensor.name,
            ty: GgmlType::F32,
            dims: &tensor.dims,
            data: &tensor.data,
        });
        let tensors: Vec<AdapterTensor<'_>> = tensors.collect();
        Adapter::new(lora.alpha, &tensors, model).map_err(|error| bad(&error))
    }
}

/// Reads an adapter as PEFT saves it, for a model.
pub fn read_folder(path: &Path, base: LoraBase<'_>) -> Result<Lora, Error> {
    Lora::read_folder(path, base).map_err(|error| match error {
        LoraFolderError::Io { path, source } => Error::io(path.display(), &source),
        error => Error::new(ErrorKind::InvalidModel, error),
    })
}
