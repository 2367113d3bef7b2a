//! Hugging Face checkpoints as GGUF: what `config.json` says as metadata, and its tensors under GGUF's names; and GGUF
//! files with their matrices in other types.
//!
//! [`Plan::new`] looks at a checkpoint and says what the file will hold; [`Plan::write`] makes one tensor at a time, a
//! few megabytes of rows in memory at once. A family of models is an entry of the table in [`family`], not code.
//! Names, row orders and types are those that llama.cpp's converter writes, so the files run there too. [`Lora`] reads
//! PEFT's adapters by the same rules.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod config;
mod ctc;
mod ears;
mod error;
mod eyes;
pub mod family;
#[cfg(feature = "std")]
mod folder;
#[cfg(feature = "std")]
mod folder_error;
mod fp4;
mod gemma;
#[cfg(feature = "std")]
mod ggml_speech;
mod importance;
mod lora;
#[cfg(feature = "std")]
mod lora_folder;
mod metadata;
mod minicpmv;
mod mix;
mod mixed_layers;
mod names;
mod nextn;
#[cfg(feature = "std")]
mod outline;
mod plan;
mod projector;
mod recipe;
mod requantize;
mod rope;
mod row_order;
mod speech;
mod states;
mod tensor_plan;
mod text_models;
mod ways;
mod write;

pub use config::HfConfig;
pub use error::ConvertError;
#[cfg(feature = "std")]
pub use folder::{Direct, Folder};
#[cfg(feature = "std")]
pub use folder_error::FolderError;
pub use importance::{ColumnSums, Importance, ImportanceError, ImportanceSums};
pub use lora::{Lora, LoraBase, LoraError, LoraTensor};
#[cfg(feature = "std")]
pub use lora_folder::LoraFolderError;
pub use mix::{Layer, Mix, ModelFacts, Role};
#[cfg(feature = "std")]
pub use outline::Outline;
pub use plan::{Options, Plan, PlannedTensor};
pub use recipe::{Recipe, TypeRule};
pub use requantize::{Requantized, Requantizing};
pub use write::WriteFailure;
