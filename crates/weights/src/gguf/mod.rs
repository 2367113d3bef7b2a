//! GGUF versions 2 and 3, little-endian: reader, split sets and writer.
//!
//! The format is described in `docs/gguf.md` of the ggml repository. A file is a header (magic, version,
//! counts), metadata pairs, tensor descriptions, padding up to the alignment, and the tensors' data.

mod cursor;
mod error;
mod metadata;
mod name;
mod reader;
mod split;
mod tensor;
mod value;
mod writer;

pub use error::{GgufError, GgufSection, ShapeError};
pub use metadata::Metadata;
pub use name::Name;
pub use reader::Gguf;
pub use split::{GgufSet, SplitError, SplitName};
pub use tensor::{Dims, Tensor, byte_len};
pub use value::{Array, Strs, Value, ValueType, Values};
pub use writer::{Builder, Element, Extent, Layout, WriteError};

/// The four bytes that begin a file.
pub const MAGIC: [u8; 4] = *b"GGUF";
/// The alignment of a file that does not state one.
pub const DEFAULT_ALIGNMENT: u64 = 32;
/// The largest alignment accepted; files in the wild use 32, and 4096 for direct I/O.
pub const MAX_ALIGNMENT: u64 = 1 << 20;
/// The most bytes in a metadata key, as the format's description says.
pub const MAX_KEY_LEN: u64 = 65_535;
/// The most bytes in a tensor's name. llama.cpp stops at 63; converters of other families write longer ones.
pub const MAX_TENSOR_NAME_LEN: u64 = 255;
/// The most metadata pairs in a file (in the wild: under a hundred). Bounds the directory's memory.
pub const MAX_KEYS: u64 = 1 << 16;
/// The most tensors in a file (in the wild: a few thousand). Bounds the directory's memory.
pub const MAX_TENSORS: u64 = 1 << 17;

/// The metadata key that states the alignment.
pub const ALIGNMENT_KEY: &str = "general.alignment";

/// Whether a file may be laid out with this alignment: a power of two (llama.cpp) that is a multiple of
/// 8 (the format's description) and not absurd.
fn alignment_is_valid(alignment: u64) -> bool {
    alignment.is_power_of_two() && (8..=MAX_ALIGNMENT).contains(&alignment)
}
