//! What can go wrong with a device.

use strata_model::{BatchError, NotOnDevice};

/// Why a device cannot be used, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum DeviceError {
    #[error("no {of} driver was found on this machine")]
    NoDriver { of: &'static str },
    #[error("the {of} driver is too old: it has no {missing}")]
    OldDriver { of: &'static str, missing: String },
    #[error("there is no GPU {index}: the driver has {count}")]
    NoDevice { index: usize, count: usize },
    #[error("{name} has compute capability {major}.{minor}; 7.5 or later is needed")]
    OldDevice {
        name: String,
        major: i32,
        minor: i32,
    },
    #[error("{name} has no {missing}, which kernels need")]
    Lacking { name: String, missing: String },
    #[error("there are no kernels for matrices of the type {ty}")]
    Type { ty: String },
    #[error("the GPU has not enough memory, {doing}")]
    OutOfMemory { doing: &'static str },
    #[error("the model needs {needed} bytes of the GPU's memory, of which {free} are free")]
    Full { needed: u64, free: u64 },
    #[error("the layers of the processors have no memory")]
    Processors,
    #[error("the GPU failed, {doing}: {reason}")]
    Driver { doing: &'static str, reason: String },
    #[error("{name} does not give the bits of the processors: {wrong} of {all} differ")]
    OtherBits {
        name: String,
        wrong: usize,
        all: usize,
    },
    #[error("a row of {width} values is too wide for the GPU")]
    Wide { width: usize },
    #[error(transparent)]
    Unsupported(#[from] NotOnDevice),
}

impl DeviceError {
    /// Whether nothing can be computed after it: what is in the device's memory is unknown, or gone. Memory that was not
    /// to be had leaves everything as it was.
    pub fn is_loss(&self) -> bool {
        !matches!(self, Self::OutOfMemory { .. })
    }
}

impl From<DeviceError> for BatchError {
    fn from(error: DeviceError) -> Self {
        let reason = error.to_string();
        if error.is_loss() {
            Self::Lost { reason }
        } else {
            Self::Device { reason }
        }
    }
}
