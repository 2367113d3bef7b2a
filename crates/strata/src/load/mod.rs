//! The steps behind [`Model::open`](crate::Model::open), for tools that need one of them alone: a file found and mapped,
//! checked against its architecture, planned, loaded.
//!
//! [`ParsedModel`] is what they have in common with a machine that has no operating system.

#[cfg(feature = "std")]
mod adapter_file;
mod answer_grammar;
#[cfg(feature = "std")]
mod checked_model;
#[cfg(feature = "std")]
mod conversion;
#[cfg(feature = "std")]
mod facts;
#[cfg(feature = "grammar")]
mod grammar;
#[cfg(feature = "std")]
mod machine;
#[cfg(feature = "std")]
mod memory_plan;
#[cfg(feature = "std")]
mod model_file;
mod needs;
#[cfg(feature = "std")]
mod overrides;
#[cfg(feature = "std")]
mod packed_model;
mod parsed_model;
#[cfg(feature = "std")]
mod preset;
#[cfg(feature = "std")]
mod stored;
#[cfg(feature = "std")]
mod template_text;
#[cfg(feature = "std")]
mod tuning;

pub use answer_grammar::LocalGrammars;
#[cfg(feature = "grammar")]
pub use grammar::GrammarCompiler;
pub use needs::Needs;
pub use parsed_model::{ContextChoice, ParseError, ParsedModel, Platform, TokenizerUse};

#[cfg(feature = "std")]
pub(crate) use facts::outline;

#[cfg(feature = "std")]
pub use crate::projector::perceives;
#[cfg(feature = "std")]
pub use {
    adapter_file::{AdapterFile, read_folder},
    checked_model::{CheckedModel, LoadedModel, WeightChoice},
    conversion::check_conversion,
    facts::{Lists, facts, sha256},
    machine::Machine,
    memory_plan::{Limit, MemoryPlan, program_bytes},
    model_file::{BUILT_IN, ModelFile, bad_folder, bad_model, built_in, is_built_in},
    preset::{Preset, json},
    stored::{WHAT_IS_HERE, store_error, stored},
    template_text::TemplateText,
    tuning::Tuning,
};
