//! The architectures. Nothing but this table knows their names.

mod command_r;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod gptneox;
mod granite;
mod llama;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod stablelm;
mod starcoder2;

use crate::spec::ArchSpec;

/// Every architecture that can be run.
pub const ALL: &[ArchSpec] = &[
    llama::SPEC,
    qwen2::SPEC,
    qwen2moe::SPEC,
    qwen3::SPEC,
    qwen3moe::SPEC,
    gemma::SPEC,
    gemma2::SPEC,
    gemma3::SPEC,
    phi3::SPEC,
    gpt2::SPEC,
    gptneox::SPEC,
    falcon::SPEC,
    starcoder2::SPEC,
    stablelm::SPEC,
    olmo2::SPEC,
    granite::SPEC,
    command_r::SPEC,
];

/// The architecture of a name.
pub fn find(name: &str) -> Option<&'static ArchSpec> {
    ALL.iter().find(|spec| spec.name == name)
}
