//! The architectures. Nothing but this table knows their names.

mod bert;
mod cohere2;
mod command_r;
mod encoders;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gpt2;
mod gpt_like;
mod gptneox;
mod granite;
mod jina_bert_v2;
mod latent;
mod lfm2;
mod llama;
mod llama_like;
mod mixtures;
mod nomic_bert;
mod olmo2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen3moe;
mod rwkv;
mod stablelm;
mod starcoder2;
mod state_spaces;
mod t5;
mod unsupported;
mod vision_text;

use crate::spec::ArchSpec;
pub use unsupported::{UNSUPPORTED, missing};

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
    gemma3n::GEMMA3N,
    gemma3n::GEMMA4,
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
    cohere2::SPEC,
    cohere2::MOE,
    llama_like::INTERNLM2,
    llama_like::SPARK2_5,
    llama_like::XVERSE,
    llama_like::BAICHUAN,
    llama_like::REFACT,
    llama_like::MINICPM,
    llama_like::MISTRAL3,
    llama_like::ARCEE,
    llama_like::ERNIE4_5,
    llama_like::PADDLEOCR,
    llama_like::SMOLLM3,
    llama_like::MAINCODER,
    llama_like::OLMO,
    llama_like::CHATGLM,
    llama_like::GLM4,
    llama_like::EXAONE,
    llama_like::EXAONE4,
    llama_like::QWEN,
    llama_like::SEED_OSS,
    llama_like::ORION,
    llama_like::PANGU_EMBEDDED,
    llama_like::BITNET,
    llama_like::APERTUS,
    llama_like::HUNYUAN_DENSE,
    llama_like::HUNYUAN_VL,
    llama_like::PLAMO,
    llama_like::PLAMO3,
    llama_like::OPENELM,
    gpt_like::STARCODER,
    gpt_like::OPT,
    gpt_like::CODESHELL,
    gpt_like::BLOOM,
    gpt_like::MPT,
    gpt_like::PHI2,
    gpt_like::GPTJ,
    gpt_like::JAIS,
    gpt_like::JAIS2,
    gpt_like::NEMOTRON,
    mixtures::OLMOE,
    mixtures::GRANITEMOE,
    mixtures::DEEPSEEK,
    mixtures::BAILINGMOE,
    mixtures::BAILINGMOE2,
    mixtures::HY_V3,
    mixtures::DEEPSEEK2_OCR,
    mixtures::GRANITE_SWA,
    mixtures::PHIMOE,
    mixtures::ERNIE4_5_MOE,
    mixtures::HUNYUAN_MOE,
    mixtures::DOTS1,
    mixtures::GLM4MOE,
    mixtures::MINIMAX_M2,
    mixtures::EXAONE_MOE,
    mixtures::AFMOE,
    mixtures::MELLUM,
    mixtures::LAGUNA,
    mixtures::SMALLTHINKER,
    mixtures::LFM2MOE,
    mixtures::DBRX,
    mixtures::ARCTIC,
    mixtures::GROK,
    mixtures::LLAMA4,
    mixtures::GPT_OSS,
    state_spaces::MAMBA,
    state_spaces::MAMBA2,
    state_spaces::JAMBA,
    state_spaces::GRANITEHYBRID,
    state_spaces::FALCON_H1,
    state_spaces::NEMOTRON_H,
    state_spaces::NEMOTRON_H_MOE,
    state_spaces::QWEN3NEXT,
    state_spaces::QWEN35,
    state_spaces::QWEN35MOE,
    state_spaces::RECURRENT_GEMMA,
    state_spaces::MINIMAX_01,
    latent::DEEPSEEK2,
    latent::KIMI_LINEAR,
    latent::MISTRAL4,
    latent::MINICPM3,
    latent::PLM,
    rwkv::RWKV4,
    rwkv::RWKV6,
    rwkv::RWKV7,
    rwkv::RWKV6QWEN2,
    rwkv::ARWKV7,
    encoders::LLAMA_EMBED,
    encoders::EUROBERT,
    encoders::NEO_BERT,
    encoders::MODERN_BERT,
    encoders::GEMMA_EMBEDDING,
    encoders::JINA_BERT_V3,
    encoders::NOMIC_BERT_MOE,
    vision_text::QWEN2VL,
    vision_text::QWEN3VL,
    vision_text::QWEN3VLMOE,
    t5::T5,
    t5::T5ENCODER,
];

/// Those that should run and that nothing was compared with, so they are refused unless asked for by name; and how they run.
pub const UNTESTED: &[(&ArchSpec, &str)] = &[
    (
        &latent::DEEPSEEK32,
        "as `deepseek2`, with every key, up to as many positions as its indexer would choose",
    ),
    (
        &latent::GLM_DSA,
        "as `deepseek2`, with every key, up to as many positions as its indexer would choose",
    ),
];

/// The architecture of a name, among those that nothing was compared with.
pub fn untested(name: &str) -> Option<&'static ArchSpec> {
    let mut all = UNTESTED.iter().map(|(spec, _)| *spec);
    all.find(|spec| spec.name == name)
}

/// The architecture of a name.
pub fn find(name: &str) -> Option<&'static ArchSpec> {
    ALL.iter().find(|spec| spec.name == name)
}
