//! What can be wrong with a PyTorch file, and where.

use super::pickle::MAX_STEPS;
use super::zip::MAX_ENTRIES;
use crate::gguf::Name;

/// Why a PyTorch file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TorchError {
    /// Its archive is bad.
    #[error(transparent)]
    Zip(#[from] ZipError),
    /// Its pickle is bad, or asks for what is not done.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// A file from before PyTorch 1.6.
    #[error(
        "the file is in PyTorch's format from before 1.6; load it and save it again with a later one"
    )]
    Legacy,
    /// There is no `data.pkl`.
    #[error("the archive has no data.pkl: it is not a PyTorch checkpoint")]
    NoPickle,
    /// Which of them counts cannot be told.
    #[error("the archive has more than one data.pkl")]
    TwoPickles,
    /// A program rather than a checkpoint.
    #[error("the archive holds a TorchScript program, not a checkpoint")]
    Program,
    /// Elements are stored the other way round.
    #[error("the archive's numbers are big-endian, which is not supported")]
    BigEndian,
    /// The pickle holds something else.
    #[error("the pickle holds no map of tensors")]
    NoTensors,
    /// A tensor is bad.
    #[error("the tensor {tensor} {fault}")]
    Tensor {
        /// Its name.
        tensor: Name,
        /// What is wrong.
        fault: TensorFault,
    },
    /// A name twice.
    #[error("the tensor {tensor} is there twice")]
    DuplicateTensor {
        /// The name.
        tensor: Name,
    },
}

/// What is wrong with a tensor; completes "the tensor …".
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum TensorFault {
    #[error("has more dimensions than are supported, or other ones than strides")]
    DimCount,
    #[error("has a negative dimension, stride or offset")]
    Negative,
    #[error("reaches past the {elements} elements of its storage")]
    OutsideStorage { elements: u64 },
    #[error("has more elements than its storage")]
    Repeated,
    #[error("has a size that overflows 64 bits")]
    Overflow,
}

/// Why a zip archive was refused. Offsets are bytes from the file's start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum ZipError {
    #[error("not a PyTorch file: it has no zip directory")]
    NoDirectory,
    #[error("the zip directory at byte {offset} is damaged or cut short")]
    Directory { offset: u64 },
    #[error("the zip directory claims {count} entries; at most {MAX_ENTRIES} are supported")]
    EntryCount { count: u64 },
    #[error("the archive is one of several volumes, which is not supported")]
    Volumes,
    #[error("the zip entry {entry} is encrypted or compressed in a way that is not supported")]
    Method { entry: Name },
    #[error("the zip entry {entry} has a name that leads out of the archive")]
    Path { entry: Name },
    #[error("the zip entry {entry} is there twice")]
    Duplicate { entry: Name },
    #[error("the zip entry {entry} lies outside the file or is described in two ways")]
    Extent { entry: Name },
    #[error("the zip entries {entry} and {other} overlap")]
    Overlap { entry: Name, other: Name },
    #[error("the zip entry {entry} claims {len} bytes out of {compressed}, which is too many")]
    Ratio {
        entry: Name,
        len: u64,
        compressed: u64,
    },
    #[error("the zip entry {entry} is damaged: its checksum is wrong")]
    Checksum { entry: Name },
    #[error("the compressed zip entry {entry} is damaged")]
    Inflate { entry: Name },
}

/// Why a pickle was refused. Nothing in it was run. Offsets are bytes from the pickle's start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum PickleError {
    #[error("the pickle ends too early, at byte {offset}")]
    Truncated { offset: u64 },
    #[error(
        "the pickle has the instruction 0x{opcode:02x} at byte {offset}, which no checkpoint needs"
    )]
    Opcode { offset: u64, opcode: u8 },
    #[error(
        "the pickle asks for {module}.{name} at byte {offset}, which is not allowed; nothing was run"
    )]
    Global {
        offset: u64,
        module: Name,
        name: Name,
    },
    #[error("the pickle calls something with the wrong arguments at byte {offset}")]
    Call { offset: u64 },
    #[error(
        "the pickle takes more from its stack at byte {offset} than is there, or another kind of value"
    )]
    Stack { offset: u64 },
    #[error("the pickle refers to an object that it has not made, at byte {offset}")]
    Memo { offset: u64 },
    #[error("the pickle has a text that is not valid UTF-8 at byte {offset}")]
    NotUtf8 { offset: u64 },
    #[error("the pickle has an integer of more than 64 bits at byte {offset}")]
    Integer { offset: u64 },
    #[error("the pickle is more than {MAX_STEPS} instructions long")]
    TooLong,
    #[error("the pickle names the storage {key}, which the archive does not hold in that size")]
    Storage { key: Name },
}
