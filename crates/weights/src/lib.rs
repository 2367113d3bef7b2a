//! Weight files as checked directories of named tensors.
//!
//! A file is bytes that somebody else wrote. A parser here looks at every length, count, product and
//! offset before it uses it, borrows from the bytes instead of copying them, and answers a bad file
//! with a typed error that names the place. It never panics and never allocates what the file merely claims.
//!
//! ```
//! use strata_weights::gguf::{Builder, Gguf};
//! use strata_weights::GgmlType;
//!
//! let mut builder = Builder::new();
//! builder.set("general.architecture", "llama")?;
//! builder.tensor("output_norm.weight", GgmlType::F32, &[4])?;
//! let layout = builder.finish()?;
//! let mut file = layout.header.clone();
//! file.resize(layout.total_len as usize, 0);
//!
//! let gguf = Gguf::parse(&file)?;
//! assert_eq!(gguf.metadata().str("general.architecture")?, Some("llama"));
//! assert_eq!(gguf.tensors()[0].data.len(), 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod checkpoint_tensor;
mod crc32;
mod dtype;
pub mod ggml_speech;
pub mod gguf;
pub mod safetensors;
mod shard_index;
pub mod torch;

pub use checkpoint_tensor::{CheckpointTensor, ReadError, Rows};
pub use crc32::crc32;
pub use dtype::Dtype;
pub use gguf::{
    Array, Dims, Gguf, GgufError, GgufSet, Metadata, SplitError, SplitName, Tensor, Value,
    ValueType,
};
pub use shard_index::{IndexError, shard_files};
pub use strata_quant::GgmlType;
