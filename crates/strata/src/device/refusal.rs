//! Why a model is not on a GPU, in words.

use super::gpu::Gpu;
use super::placement::Misplaced;
use crate::error::{Error, ErrorKind};
use std::path::Path;
use strata_gpu::DeviceError;
use strata_model::NotOnDevice;

pub(super) enum Problem {
    Device(DeviceError),
    /// And what would fit, as options of the command line.
    Misplaced(Misplaced, Vec<String>),
    Other(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<DeviceError> for Problem {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<NotOnDevice> for Problem {
    fn from(error: NotOnDevice) -> Self {
        Self::Device(error.into())
    }
}

impl Problem {
    pub(super) fn refusal(self, path: &Path, gpus: &[Gpu]) -> Error {
        let names: Vec<String> = gpus.iter().map(Gpu::to_string).collect();
        let (path, names) = (path.display(), names.join(" and "));
        match self {
            Self::Other(error) => error,
            Self::Device(error) => {
                let sentence = format!("{path} cannot run on {names}: {error}");
                let error = Error::new(kind(&error), sentence);
                match error.kind() {
                    ErrorKind::OutOfMemory => error.with_hint(
                        "use fewer --gpu-layers, a smaller --ctx, --kv q8_0, or --device cpu",
                    ),
                    ErrorKind::Internal => error,
                    _ => error.with_hint("use --device cpu"),
                }
            }
            Self::Misplaced(error, remedies) => {
                let sentence = format!("{path} does not fit on {names}: {error}");
                match error {
                    Misplaced::Full { .. } => {
                        let error = Error::new(ErrorKind::OutOfMemory, sentence);
                        error.with_hint(what_would_fit(&remedies))
                    }
                    Misplaced::Cut { .. } => Error::new(ErrorKind::InvalidArgument, sentence)
                        .with_hint("use other --gpu-layers"),
                    Misplaced::TooFew { .. } => Error::new(ErrorKind::InvalidArgument, sentence)
                        .with_hint("name fewer GPUs"),
                }
            }
        }
    }
}

fn kind(error: &DeviceError) -> ErrorKind {
    match error {
        DeviceError::Full { .. } | DeviceError::OutOfMemory { .. } | DeviceError::Processors => {
            ErrorKind::OutOfMemory
        }
        DeviceError::Driver { .. } => ErrorKind::Internal,
        _ => ErrorKind::InvalidArgument,
    }
}

fn what_would_fit(remedies: &[String]) -> String {
    match remedies {
        [] => "use --device cpu".into(),
        remedies => format!("what would fit: {}", remedies.join("; or ")),
    }
}
