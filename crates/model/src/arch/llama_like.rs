//! Llama under other names, and families that change one or two things about it.

use crate::spec::{
    Activation, ArchSpec, AttnGate, Experts, Ffn, FfnLength, Fusion, Nope, Norm, NormNames,
    Position, Presence, QkNorm, QkNormOrder, Residual, Scale, Temperature, Window, WindowRope,
};

/// Llama without windows and experts.
pub(super) const DENSE: ArchSpec = ArchSpec {
    qkv: Fusion::AsFound,
    window: Window::Never,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};

/// The same, where dimensions i and i + half turn together.
pub(super) const HALF_SPLIT: ArchSpec = ArchSpec {
    position: Position::RopeHalfSplit,
    ..DENSE
};

pub(super) const INTERNLM2: ArchSpec = ArchSpec {
    name: "internlm2",
    ..DENSE
};

/// Spark X2.5: a gate of one number for each head of attention, windows by the file's pattern.
pub(super) const SPARK2_5: ArchSpec = ArchSpec {
    name: "spark2_5",
    attn_gate: AttnGate::Heads,
    activation: Activation::GeluTanh,
    window: Window::Always,
    window_rope: WindowRope::Based,
    ..HALF_SPLIT
};

pub(super) const XVERSE: ArchSpec = ArchSpec {
    name: "xverse",
    ..DENSE
};

/// Baichuan: the 13B has ALiBi.
pub(super) const BAICHUAN: ArchSpec = ArchSpec {
    name: "baichuan",
    position: Position::AlibiAtLayers(40),
    ..DENSE
};

/// Refact: ALiBi.
pub(super) const REFACT: ArchSpec = ArchSpec {
    name: "refact",
    position: Position::Alibi,
    ..DENSE
};

/// MiniCPM: Granite's scales, which old files leave out.
pub(super) const MINICPM: ArchSpec = ArchSpec {
    name: "minicpm",
    embedding_scale: Scale::MultiplyOr(12.0),
    residual_scale: Scale::MultiplyOrOverSqrtLayers(1.4),
    logit_scale: Scale::DivideOrOverWidth(256.0),
    ..DENSE
};

/// Mistral Small 3, Ministral 3, Devstral in newer conversions.
pub(super) const MISTRAL3: ArchSpec = ArchSpec {
    name: "mistral3",
    qkv: Fusion::AsFound,
    temperature: Temperature::Metadata,
    ..ArchSpec::LLAMA
};

/// Arcee: a plain network with ReLU².
pub(super) const ARCEE: ArchSpec = ArchSpec {
    name: "arcee",
    ffn: Ffn::Plain,
    activation: Activation::ReluSquared,
    ..DENSE
};

pub(super) const ERNIE4_5: ArchSpec = ArchSpec {
    name: "ernie4_5",
    ..DENSE
};

/// PaddleOCR's text model: ERNIE 4.5, whose three position axes are one in text.
pub(super) const PADDLEOCR: ArchSpec = ArchSpec {
    name: "paddleocr",
    ..HALF_SPLIT
};

/// SmolLM3: every fourth layer is not rotated.
pub(super) const SMOLLM3: ArchSpec = ArchSpec {
    name: "smollm3",
    nope: Nope::Every(4),
    ..DENSE
};

/// Maincoder: head norms after rotation.
pub(super) const MAINCODER: ArchSpec = ArchSpec {
    name: "maincoder",
    qk_norm: QkNorm::PerHead,
    qk_norm_order: QkNormOrder::AfterRope,
    ..DENSE
};

/// OLMo: layer norms without weights; some sizes clamp queries, keys and values.
pub(super) const OLMO: ArchSpec = ArchSpec {
    name: "olmo",
    norm: Norm::LayerPlain,
    ..DENSE
};

/// ChatGLM and GLM-4-9B: gate and up in one tensor, half of each head rotated.
pub(super) const CHATGLM: ArchSpec = ArchSpec {
    name: "chatglm",
    ffn: Ffn::Gated(Fusion::Fused),
    ..DENSE
};

/// GLM-4-0414: norms after the branches too.
pub(super) const GLM4: ArchSpec = ArchSpec {
    name: "glm4",
    post_attn_norm: Presence::Always,
    post_ffn_norm: Presence::Always,
    ..CHATGLM
};

pub(super) const EXAONE: ArchSpec = ArchSpec {
    name: "exaone",
    ..HALF_SPLIT
};

/// EXAONE 4: norms after the branches alone; the 32B rotates only layers with windows.
pub(super) const EXAONE4: ArchSpec = ArchSpec {
    name: "exaone4",
    attn_norm: Presence::Never,
    post_attn_norm: Presence::Always,
    ffn_norm: Presence::Never,
    post_ffn_norm: Presence::Always,
    qk_norm: QkNorm::PerHead,
    window: Window::AllButEvery(4),
    nope: Nope::FullLayers,
    ..HALF_SPLIT
};

/// Qwen, the first: Qwen2 with fused projections.
pub(super) const QWEN: ArchSpec = ArchSpec {
    name: "qwen",
    qkv: Fusion::Fused,
    qkv_bias: Presence::Always,
    ffn_length: FfnLength::GateAndUp,
    ..HALF_SPLIT
};

/// Seed-OSS: what others call the norm after attention comes before the feed-forward network.
pub(super) const SEED_OSS: ArchSpec = ArchSpec {
    name: "seed_oss",
    norm_names: NormNames {
        ffn: "post_attention_norm",
        ..ArchSpec::LLAMA.norm_names
    },
    ..HALF_SPLIT
};

/// Orion: layer norms.
pub(super) const ORION: ArchSpec = ArchSpec {
    name: "orion",
    norm: Norm::LayerBias,
    ..HALF_SPLIT
};

/// openPangu Embedded.
pub(super) const PANGU_EMBEDDED: ArchSpec = ArchSpec {
    name: "pangu-embedded",
    output_bias: Presence::IfPresent,
    ..HALF_SPLIT
};

/// BitNet b1.58: norms before the last matrix of each branch.
pub(super) const BITNET: ArchSpec = ArchSpec {
    name: "bitnet",
    attn_sub_norm: Presence::Always,
    ffn_sub_norm: Presence::Always,
    ..HALF_SPLIT
};

/// Apertus: a plain network with xIELU, whose numbers differ by layer.
pub(super) const APERTUS: ArchSpec = ArchSpec {
    name: "apertus",
    qk_norm: QkNorm::PerHead,
    ffn: Ffn::Plain,
    activation: Activation::Xielu {
        positive: 0.0,
        negative: 0.0,
        slope: 0.0,
    },
    ..HALF_SPLIT
};

/// Hunyuan: head norms after rotation.
pub(super) const HUNYUAN_DENSE: ArchSpec = ArchSpec {
    name: "hunyuan-dense",
    qk_norm: QkNorm::PerHead,
    qk_norm_order: QkNormOrder::AfterRope,
    ..HALF_SPLIT
};

/// Hunyuan VL's text model.
pub(super) const HUNYUAN_VL: ArchSpec = ArchSpec {
    name: "hunyuan_vl",
    ..HUNYUAN_DENSE
};

/// PLaMo: both branches see one norm.
pub(super) const PLAMO: ArchSpec = ArchSpec {
    name: "plamo",
    ffn_norm: Presence::Never,
    residual: Residual::Parallel,
    ..HALF_SPLIT
};

/// PLaMo 3: Gemma's norms, fused projections, seven layers with windows to one without.
pub(super) const PLAMO3: ArchSpec = ArchSpec {
    name: "plamo3",
    post_attn_norm: Presence::Always,
    post_ffn_norm: Presence::Always,
    qk_norm: QkNorm::PerHead,
    qkv: Fusion::Fused,
    ffn: Ffn::Gated(Fusion::Fused),
    window: Window::AllButEvery(8),
    window_rope: WindowRope::Unscaled {
        base: Some(10_000.0),
    },
    ..HALF_SPLIT
};

/// OpenELM: heads and widths differ by layer.
pub(super) const OPENELM: ArchSpec = ArchSpec {
    name: "openelm",
    qk_norm: QkNorm::PerHead,
    qkv: Fusion::Fused,
    ..HALF_SPLIT
};
