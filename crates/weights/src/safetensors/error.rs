//! What can be wrong with a safetensors file, and where.

use alloc::boxed::Box;

use super::{MAX_HEADER, MAX_TENSORS};
use crate::checkpoint_tensor::MAX_DIMS;
use crate::gguf::Name;

/// Why a safetensors file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum SafetensorsError {
    #[error("not a safetensors file: it has {len} bytes, and a header takes more")]
    TooShort { len: usize },
    #[error("not a safetensors file: it claims a header of {claimed} bytes in a file of {len}")]
    HeaderLength { claimed: u64, len: usize },
    #[error("the header has {len} bytes; at most {MAX_HEADER} are read")]
    HeaderTooLong { len: usize },
    #[error("the header is not the JSON that was expected: {reason}")]
    Json { reason: Box<str> },
    #[error("there are more than {MAX_TENSORS} tensors")]
    TooManyTensors,
    #[error("the tensor {tensor} is there twice")]
    DuplicateTensor { tensor: Name },
    #[error("the tensor {tensor} has the unknown type {dtype}")]
    UnknownType { tensor: Name, dtype: Name },
    #[error("the tensor {tensor} has more than {MAX_DIMS} dimensions")]
    DimCount { tensor: Name },
    #[error("the tensor {tensor} has a size that overflows 64 bits")]
    Overflow { tensor: Name },
    #[error("the tensor {tensor} takes {expected} bytes, but its data goes from {start} to {end}")]
    Length {
        tensor: Name,
        start: u64,
        end: u64,
        expected: u64,
    },
    #[error("the tensor {tensor} begins at byte {start} of the data; {expected} was expected")]
    Gap {
        tensor: Name,
        start: u64,
        expected: u64,
    },
    #[error("the tensors take {tensors} bytes, and the file has {found} of data")]
    DataLength { tensors: u64, found: u64 },
}
