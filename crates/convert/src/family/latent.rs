//! Families whose keys and values are made from a short vector (multi-head latent attention).

use super::Literal::{Bool, Number, Text};
use super::delta_net::FUSED_EXPERTS;
use super::llama::{EXPERTS, FFN, GATED, LLAMA, OUTER, PRE_NORMS, RMS, SILU};
use super::mixtures::{CHOICE_BIAS, COUNTS, ROUTING, SHARED, SIGMOID};
use super::{
    Absent, Family, Kind, Latent, Order, Rotary, Rule, Window, demand, ordered, pair, same,
};

pub(super) const QUERIES: &[Rule] = &[
    same("layers.#.self_attn.q_proj", "blk.#.attn_q"),
    same("layers.#.self_attn.q_a_proj", "blk.#.attn_q_a"),
    same("layers.#.self_attn.q_a_layernorm", "blk.#.attn_q_a_norm"),
    same("layers.#.self_attn.q_b_proj", "blk.#.attn_q_b"),
    same(
        "layers.#.self_attn.kv_a_proj_with_mqa",
        "blk.#.attn_kv_a_mqa",
    ),
    same("layers.#.self_attn.kv_a_layernorm", "blk.#.attn_kv_a_norm"),
    same("layers.#.self_attn.o_proj", "blk.#.attn_output"),
];
pub(super) const APART: &[Rule] = &[
    ordered(
        "layers.#.self_attn.kv_b_proj",
        "blk.#.attn_k_b",
        Order::LatentKeys,
    ),
    ordered(
        "layers.#.self_attn.kv_b_proj",
        "blk.#.attn_v_b",
        Order::LatentValues,
    ),
];

pub(super) const DEEPSEEK_V3: Family = Family {
    classes: &["DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM"],
    arch: "deepseek2",
    rules: &[
        OUTER,
        PRE_NORMS,
        QUERIES,
        APART,
        GATED,
        EXPERTS,
        SHARED,
        CHOICE_BIAS,
    ],
    pairs: &[&[FFN, RMS], COUNTS, ROUTING, SIGMOID],
    demands: &[
        SILU,
        demand("rope_interleave", &[Bool(true)]),
        demand("attention_bias", &[Bool(false)]),
        demand("topk_method", &[Text("noaux_tc")]),
        demand("moe_layer_freq", &[Number(1.0)]),
    ],
    latent: Latent::Compressed,
    rotary: Rotary::Share(1.0),
    window: Window::Never,
    ..LLAMA
};

pub(super) const DEEPSEEK_V2: Family = Family {
    classes: &["DeepseekV2ForCausalLM"],
    pairs: &[
        &[FFN, RMS],
        COUNTS,
        ROUTING,
        &[pair(
            &[],
            "expert_gating_func",
            Kind::U32,
            Absent::Default(1.0),
        )],
    ],
    demands: &[
        SILU,
        demand("attention_bias", &[Bool(false)]),
        demand("topk_method", &[Text("greedy")]),
        demand("scoring_func", &[Text("softmax")]),
        demand("moe_layer_freq", &[Number(1.0)]),
    ],
    ..DEEPSEEK_V3
};

/// A softmax, experts in one tensor as `transformers` saves them.
pub(super) const MISTRAL4: Family = Family {
    classes: &["Mistral4ForCausalLM"],
    arch: "mistral4",
    rules: &[
        OUTER,
        PRE_NORMS,
        QUERIES,
        APART,
        GATED,
        EXPERTS,
        FUSED_EXPERTS,
        SHARED,
    ],
    ..DEEPSEEK_V2
};

pub(super) const MINICPM3: Family = Family {
    classes: &["MiniCPM3ForCausalLM"],
    arch: "minicpm3",
    rules: &[
        OUTER,
        PRE_NORMS,
        QUERIES,
        &[same("layers.#.self_attn.kv_b_proj", "blk.#.attn_kv_b")],
        GATED,
    ],
    pairs: &[&[FFN, RMS]],
    // GGUF has no keys for them here.
    demands: &[
        SILU,
        demand("scale_emb", &[Number(12.0)]),
        demand("scale_depth", &[Number(1.4)]),
        demand("dim_model_base", &[Number(256.0)]),
    ],
    latent: Latent::Expanded,
    ..DEEPSEEK_V3
};
