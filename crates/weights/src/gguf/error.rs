//! What can be wrong with a GGUF file, and where.

use core::fmt;

use strata_quant::GgmlType;

use super::name::Name;
use super::value::ValueType;
use super::{MAX_ALIGNMENT, MAX_KEY_LEN, MAX_TENSOR_NAME_LEN};

/// Why a file was refused, or a metadata value could not be given. Offsets are bytes from the file's start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum GgufError {
    #[error("not a GGUF file: it begins with {found:02x?} instead of \"GGUF\"")]
    Magic { found: [u8; 4] },
    #[error("the file is big-endian GGUF, which is not supported; convert it to little-endian")]
    BigEndian { offset: u64 },
    #[error("the file is GGUF version 1, which is not supported; convert it to version 3")]
    Version1 { offset: u64 },
    #[error("the file says GGUF version {version} at byte {offset}; versions 2 and 3 are known")]
    UnknownVersion { offset: u64, version: u32 },

    #[error(
        "the file ends too early: {place} needs {needed} bytes at byte {offset} and {remaining} are left"
    )]
    Truncated {
        offset: u64,
        needed: u64,
        remaining: u64,
        place: GgufSection,
    },
    #[error("{place} at byte {offset} is not valid UTF-8")]
    NotUtf8 { offset: u64, place: GgufSection },

    #[error(
        "the file claims {count} metadata pairs at byte {offset}; at most {limit} can be there"
    )]
    KeyCount { offset: u64, count: u64, limit: u64 },
    #[error("the file claims {count} tensors at byte {offset}; at most {limit} can be there")]
    TensorCount { offset: u64, count: u64, limit: u64 },

    #[error("a metadata key at byte {offset} is {len} bytes long; 1 to {MAX_KEY_LEN} are allowed")]
    KeyLength { offset: u64, len: u64 },
    #[error("the metadata key {key} at byte {offset} is there twice")]
    DuplicateKey { offset: u64, key: Name },
    #[error("the metadata key {key} has the unknown value type {id} at byte {offset}")]
    UnknownValueType { offset: u64, key: Name, id: u32 },
    #[error(
        "the metadata key {key} is an array of arrays at byte {offset}, which is not supported"
    )]
    NestedArray { offset: u64, key: Name },
    #[error(
        "the metadata key {key} claims an array of {len} at byte {offset}; {remaining} bytes are left"
    )]
    ArrayLength {
        offset: u64,
        key: Name,
        len: u64,
        remaining: u64,
    },
    #[error("the metadata key {key} has a bool of {found} at byte {offset}; 0 and 1 are allowed")]
    BadBool { offset: u64, key: Name, found: u8 },
    #[error(
        "general.alignment is {found} at byte {offset}; powers of two from 8 to {MAX_ALIGNMENT} are allowed"
    )]
    Alignment { offset: u64, found: u64 },

    #[error(
        "a tensor's name at byte {offset} is {len} bytes long; 1 to {MAX_TENSOR_NAME_LEN} are allowed"
    )]
    TensorNameLength { offset: u64, len: u64 },
    #[error("the tensor {tensor} at byte {offset} is there twice")]
    DuplicateTensor { offset: u64, tensor: Name },
    #[error("the tensor {tensor} has the unknown type {id} at byte {offset}")]
    UnknownTensorType { offset: u64, tensor: Name, id: u32 },
    #[error("the tensor {tensor}, described at byte {offset}, has {source}")]
    Shape {
        offset: u64,
        tensor: Name,
        source: ShapeError,
    },
    #[error(
        "the tensor {tensor}, described at byte {offset}, has its data at {start}, not a multiple of {alignment}"
    )]
    Unaligned {
        offset: u64,
        tensor: Name,
        start: u64,
        alignment: u64,
    },
    #[error(
        "the tensor {tensor}, described at byte {offset}, has {len} bytes at {start} of a data section of {section}"
    )]
    OutsideFile {
        offset: u64,
        tensor: Name,
        start: u64,
        len: u64,
        section: u64,
    },
    #[error("the tensor {tensor}, described at byte {offset}, overlaps the tensor {other}")]
    Overlap {
        offset: u64,
        tensor: Name,
        other: Name,
    },

    #[error("the metadata key {key} is of type {found}; {expected} was expected")]
    WrongType {
        key: Name,
        expected: ValueType,
        found: ValueType,
    },
    #[error("the metadata key {key} is {value}, which does not fit in {expected}")]
    OutOfRange {
        key: Name,
        value: i128,
        expected: ValueType,
    },
}

/// What is wrong with a tensor's type and dimensions. The messages complete "the tensor … has".
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum ShapeError {
    #[error("{count} dimensions; 1 to 4 are allowed")]
    DimCount { count: u64 },
    #[error("a dimension {axis} of zero")]
    ZeroDim { axis: u8 },
    #[error("rows of {cols}, which is not a multiple of the {} in a block of {}", ty.block_len(), ty.name())]
    PartialBlock { ty: GgmlType, cols: u64 },
    #[error("a size that overflows 64 bits")]
    Overflow,
}

/// The part of a file in which something went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GgufSection {
    /// Magic, version and counts.
    Header,
    /// The key of the metadata pair with this number, from 0.
    Key(u64),
    /// The value of a metadata key.
    Value(Name),
    /// The name of the tensor with this number, from 0.
    TensorName(u64),
    /// The description of a tensor.
    Tensor(Name),
}

impl fmt::Display for GgufSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GgufSection::Header => write!(f, "the header"),
            GgufSection::Key(index) => write!(f, "metadata key {index}"),
            GgufSection::Value(key) => write!(f, "the value of the metadata key {key}"),
            GgufSection::TensorName(index) => write!(f, "the name of tensor {index}"),
            GgufSection::Tensor(name) => write!(f, "the description of the tensor {name}"),
        }
    }
}
