//! Families with mixtures of experts.

use super::llama_like::{DENSE, HALF_SPLIT, HUNYUAN_DENSE};
use super::{granite, lfm2, qwen3moe};
use crate::spec::{
    Activation, ArchSpec, AttnGate, AttnScale, DenseBeside, ExpertGate, Experts, Fusion, Nextn,
    Nope, Norm, NormNames, Presence, QkNorm, QkNormOrder, RouterInput, Routing, Scale, Temperature,
    TemperatureScale, Variant, Weighed, Window, WindowRope, YarnRange,
};

/// DeepSeek's: a softmax over all, some experts that see every token.
const DEEPSEEK_ROUTING: Routing = Routing {
    renormalize: false,
    shared: Presence::IfPresent,
    ..Routing::MIXTRAL
};

/// DeepSeek V3's: sigmoids, a bias for the choice.
const SIGMOID_ROUTING: Routing = Routing {
    gate: ExpertGate::Sigmoid,
    ..DEEPSEEK_ROUTING
};

/// OLMoE: weights as the softmax gives them, norms of queries and keys as whole vectors.
pub(super) const OLMOE: ArchSpec = ArchSpec {
    name: "olmoe",
    qk_norm: QkNorm::Whole,
    experts: Experts::Always(DEEPSEEK_ROUTING),
    ..HALF_SPLIT
};

/// Granite with experts, one of which may see every token.
pub(super) const GRANITEMOE: ArchSpec = ArchSpec {
    name: "granitemoe",
    experts: Experts::Always(Routing {
        shared: Presence::IfPresent,
        ..Routing::MIXTRAL
    }),
    ..granite::SPEC
};

/// DeepSeek-MoE, the first.
pub(super) const DEEPSEEK: ArchSpec = ArchSpec {
    name: "deepseek",
    experts: Experts::Always(DEEPSEEK_ROUTING),
    ..DENSE
};

/// Ling, the first.
pub(super) const BAILINGMOE: ArchSpec = ArchSpec {
    name: "bailingmoe",
    ..DEEPSEEK
};

/// Ling 2: sigmoids, groups of experts, head norms.
pub(super) const BAILINGMOE2: ArchSpec = ArchSpec {
    name: "bailingmoe2",
    ..DOTS1
};

/// Hy3.
pub(super) const HY_V3: ArchSpec = ArchSpec {
    name: "hy_v3",
    ..DOTS1
};

/// DeepSeek-OCR's text model: halves rotated.
pub(super) const DEEPSEEK2_OCR: ArchSpec = ArchSpec {
    name: "deepseek2-ocr",
    experts: DEEPSEEK.experts,
    ..HALF_SPLIT
};

/// Granite with windows, sinks, and layers that are not rotated.
pub(super) const GRANITE_SWA: ArchSpec = ArchSpec {
    name: "granite_swa",
    attn_sinks: Presence::Always,
    nope: Nope::Pattern,
    experts: Experts::IfCounted(Routing {
        shared: Presence::IfPresent,
        ..Routing::MIXTRAL
    }),
    ..granite::SPEC
};

/// Phi-3.5-MoE: layer norms, biases in attention.
pub(super) const PHIMOE: ArchSpec = ArchSpec {
    name: "phimoe",
    norm: Norm::LayerBias,
    window: Window::Always,
    experts: Experts::Always(Routing {
        gate: ExpertGate::SparseMixer,
        renormalize: false,
        ..Routing::MIXTRAL
    }),
    output_bias: Presence::IfPresent,
    ..HALF_SPLIT
};

pub(super) const ERNIE4_5_MOE: ArchSpec = ArchSpec {
    name: "ernie4_5-moe",
    experts: Experts::Always(Routing {
        renormalize: true,
        ..DEEPSEEK_ROUTING
    }),
    ..DENSE
};

pub(super) const HUNYUAN_MOE: ArchSpec = ArchSpec {
    name: "hunyuan-moe",
    experts: Experts::Always(Routing {
        shared: Presence::Always,
        ..Routing::MIXTRAL
    }),
    ..HUNYUAN_DENSE
};

/// dots.llm1: head norms.
pub(super) const DOTS1: ArchSpec = ArchSpec {
    name: "dots1",
    qk_norm: QkNorm::PerHead,
    experts: Experts::Always(SIGMOID_ROUTING),
    ..HALF_SPLIT
};

/// GLM-4.5 to 4.7: what others call the norm after attention comes before the feed-forward network.
pub(super) const GLM4MOE: ArchSpec = ArchSpec {
    name: "glm4moe",
    qk_norm: QkNorm::PerHeadIfPresent,
    norm_names: NormNames {
        ffn: "post_attention_norm",
        ..ArchSpec::LLAMA.norm_names
    },
    experts: Experts::Always(SIGMOID_ROUTING),
    nextn: Nextn::Normed,
    ..HALF_SPLIT
};

/// MiniMax-M2: norms of queries and keys as whole vectors.
pub(super) const MINIMAX_M2: ArchSpec = ArchSpec {
    name: "minimax-m2",
    qk_norm: QkNorm::Whole,
    experts: Experts::Always(Routing {
        gate: ExpertGate::Sigmoid,
        ..Routing::MIXTRAL
    }),
    ..HALF_SPLIT
};

/// K-EXAONE: three layers of four have windows, and only those are rotated.
pub(super) const EXAONE_MOE: ArchSpec = ArchSpec {
    name: "exaone-moe",
    window: Window::AllButEvery(4),
    nope: Nope::FullLayers,
    ..DOTS1
};

/// Trinity: the same with gated attention and norms after the branches.
pub(super) const AFMOE: ArchSpec = ArchSpec {
    name: "afmoe",
    post_attn_norm: Presence::Always,
    post_ffn_norm: Presence::Always,
    attn_gate: AttnGate::Own,
    embedding_scale: Scale::SqrtWidth,
    ..EXAONE_MOE
};

/// Mellum 2: Qwen3 with experts, and windows whose RoPE is not scaled.
pub(super) const MELLUM: ArchSpec = ArchSpec {
    name: "mellum",
    window: Window::AllButEvery(4),
    window_rope: WindowRope::Unscaled { base: None },
    ..qwen3moe::SPEC
};

/// Laguna: Qwen3's attention behind softplus gates, sigmoid routing.
pub(super) const LAGUNA: ArchSpec = ArchSpec {
    variant: Some(Variant::WideGates(&LAGUNA_WIDE)),
    attn_gate: AttnGate::SoftplusHeads,
    ..LAGUNA_WIDE
};

const LAGUNA_WIDE: ArchSpec = ArchSpec {
    name: "laguna",
    qk_norm: QkNorm::PerHead,
    attn_gate: AttnGate::Softplus,
    window: Window::AllButFirstOf(4),
    window_rope: WindowRope::Unscaled { base: None },
    experts: Experts::Always(Routing {
        renormalize: true,
        ..SIGMOID_ROUTING
    }),
    ..HALF_SPLIT
};

/// SmallThinker: routers see the layer's input; full layers, which are not rotated, come first.
pub(super) const SMALLTHINKER: ArchSpec = ArchSpec {
    name: "smallthinker",
    window: Window::AllButFirstOf(4),
    window_rope: WindowRope::Based,
    nope: Nope::FullLayers,
    activation: Activation::Relu,
    experts: Experts::Always(Routing {
        sees: RouterInput::Layer,
        ..Routing::MIXTRAL
    }),
    ..HALF_SPLIT
};

/// LFM2 with experts in all layers but the first.
pub(super) const LFM2MOE: ArchSpec = ArchSpec {
    name: "lfm2moe",
    experts: Experts::Always(Routing {
        renormalize: true,
        ..SIGMOID_ROUTING
    }),
    ..lfm2::SPEC
};

/// DBRX: the norm of attention's output comes before the experts.
pub(super) const DBRX: ArchSpec = ArchSpec {
    name: "dbrx",
    norm: Norm::Layer,
    norm_names: NormNames {
        ffn: "attn_output_norm",
        ..ArchSpec::LLAMA.norm_names
    },
    qkv: Fusion::Fused,
    experts: Experts::Always(Routing::MIXTRAL),
    ..HALF_SPLIT
};

/// Arctic: a dense branch, and experts that see the layer's input.
pub(super) const ARCTIC: ArchSpec = ArchSpec {
    name: "arctic",
    experts: Experts::Always(Routing {
        dense: DenseBeside::OwnBranch,
        ..Routing::MIXTRAL
    }),
    ..DENSE
};

/// Grok 1 and 2: caps on scores, norms after the branches; Grok 2 has a dense network beside its experts.
pub(super) const GROK: ArchSpec = ArchSpec {
    name: "grok",
    post_attn_norm: Presence::Always,
    post_ffn_norm: Presence::Always,
    norm_names: NormNames {
        post_attn: "attn_output_norm",
        post_ffn: ["layer_output_norm", "post_ffw_norm"],
        ..ArchSpec::LLAMA.norm_names
    },
    attn_scale: AttnScale::OutputScaleOr(0.088_388_35),
    attn_soft_cap: Some(30.0),
    activation: Activation::GeluTanh,
    experts: Experts::Always(Routing {
        dense: DenseBeside::Averaged,
        soft_cap: Some(30.0),
        ..Routing::MIXTRAL
    }),
    embedding_scale: Scale::MultiplyOr(78.383_67),
    logit_scale: Scale::MultiplyOr(0.577_350_26),
    ..HALF_SPLIT
};

/// Llama 4: chunks in three layers of four, the fourth not rotated but tempered; experts see what their weight scaled.
pub(super) const LLAMA4: ArchSpec = ArchSpec {
    name: "llama4",
    qk_norm: QkNorm::PlainUnlessExperts(128),
    qk_norm_order: QkNormOrder::AfterRope,
    window: Window::ChunksAllButEvery(4, 8192),
    nope: Nope::Every(4),
    temperature: Temperature::NopeLayers(TemperatureScale {
        scale: 0.1,
        length: 8192.0,
        offset: 1.0,
    }),
    experts: Experts::Always(Routing {
        weighed: Weighed::Input,
        shared: Presence::Always,
        ..SIGMOID_ROUTING
    }),
    ..DENSE
};

/// gpt-oss: sinks, biased experts, every other layer with a window.
pub(super) const GPT_OSS: ArchSpec = ArchSpec {
    name: "gpt-oss",
    norm_names: NormNames {
        ffn: "post_attention_norm",
        ..ArchSpec::LLAMA.norm_names
    },
    attn_sinks: Presence::Always,
    window: Window::AllButEvery(2),
    yarn_range: YarnRange::Exact,
    activation: Activation::GeluQuickClamped,
    experts: Experts::Always(Routing {
        gate: ExpertGate::SoftmaxOfChosen,
        renormalize: false,
        ..Routing::MIXTRAL
    }),
    ..HALF_SPLIT
};
