//! Why a folder cannot be read.

use std::io;
use std::path::PathBuf;

use strata_weights::ggml_speech::GgmlSpeechError;
use strata_weights::safetensors::SafetensorsError;
use strata_weights::torch::TorchError;
use strata_weights::{GgufError, IndexError, SplitError};

use crate::error::ConvertError;

/// Why a folder was refused, or could not be converted.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum FolderError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: there is neither a safetensors nor a PyTorch checkpoint here", path.display())]
    NoCheckpoint { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Safetensors {
        path: PathBuf,
        source: SafetensorsError,
    },
    #[error("{}: {source}", path.display())]
    Torch { path: PathBuf, source: TorchError },
    #[error("{}: {source}", path.display())]
    GgmlSpeech {
        path: PathBuf,
        source: GgmlSpeechError,
    },
    #[error("{}: {source}", path.display())]
    Index { path: PathBuf, source: IndexError },
    #[error(transparent)]
    Convert(#[from] ConvertError),
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error(transparent)]
    Set(#[from] SplitError),
}
