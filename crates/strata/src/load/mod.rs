//! The steps behind [`Model::open`](crate::Model::open), for tools that need one of them alone: a file found and mapped,
//! checked against its architecture, planned, loaded.

mod adapter_file;
mod checked_model;
mod facts;
mod grammar;
mod machine;
mod memory_plan;
mod model_file;
mod preset;
mod profile;
mod stored;

pub use adapter_file::{AdapterFile, read_folder};
pub use checked_model::{CheckedModel, LoadedModel, TokenizerUse, WeightChoice};
pub use facts::{Lists, facts, sha256};
pub use grammar::GrammarCompiler;
pub use machine::Machine;
pub use memory_plan::{Limit, MemoryPlan, Needs, program_bytes};
pub use model_file::{BUILT_IN, ModelFile, bad_folder, bad_model};
pub use preset::{Preset, TemplateText, json};
pub use profile::profile;
pub use stored::{WHAT_IS_HERE, store_error, stored};
