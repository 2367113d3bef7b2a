//! The architectures. Nothing but this table knows their names.

mod bert;
mod command_r;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod gptneox;
mod granite;
mod jina_bert_v2;
mod lfm2;
mod llama;
mod nomic_bert;
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
    lfm2::SPEC,
    bert::SPEC,
    nomic_bert::SPEC,
    jina_bert_v2::SPEC,
];

/// The architecture of a name.
pub fn find(name: &str) -> Option<&'static ArchSpec> {
    ALL.iter().find(|spec| spec.name == name)
}
