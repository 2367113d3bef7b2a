//! Families with mixtures of experts.

use super::dense::HUNYUAN_NORMS;
use super::llama::{
    ATTENTION, COMMAND_R, EXPERTS, FFN, GATED, GRANITE, GRANITE_SCALES, LLAMA, MIXTRAL, OUTER,
    PAIRED_ATTENTION, PRE_NORMS, QK_NORMS, RMS, SILU,
};
use super::nextn::NEXTN;
use super::{
    Absent, ExpertGate, Extras, Family, FfnWidth, HeadSize, Kind, Order, Pair, Rotary, Rule, Share,
    Window, demand, exact, ordered, pair, same,
};
use crate::family::Literal::{Bool, EmptyList, Number, Text};

pub(super) const SHARED: &[Rule] = &[
    same(
        "layers.#.mlp.shared_experts.gate_proj",
        "blk.#.ffn_gate_shexp",
    ),
    same("layers.#.mlp.shared_experts.up_proj", "blk.#.ffn_up_shexp"),
    same(
        "layers.#.mlp.shared_experts.down_proj",
        "blk.#.ffn_down_shexp",
    ),
];
const SHARED_MLP: &[Rule] = &[
    same("layers.#.mlp.shared_mlp.gate_proj", "blk.#.ffn_gate_shexp"),
    same("layers.#.mlp.shared_mlp.up_proj", "blk.#.ffn_up_shexp"),
    same("layers.#.mlp.shared_mlp.down_proj", "blk.#.ffn_down_shexp"),
];
const ROUTER_GATE: &[Rule] = &[same("layers.#.mlp.router.gate", "blk.#.ffn_gate_inp")];
/// The bias of the choice, under the names that it has.
pub(super) const CHOICE_BIAS: &[Rule] = &[
    exact(
        "layers.#.mlp.gate.e_score_correction_bias",
        "blk.#.exp_probs_b.bias",
    ),
    exact(
        "layers.#.mlp.e_score_correction_bias",
        "blk.#.exp_probs_b.bias",
    ),
    exact(
        "layers.#.mlp.moe_statics.e_score_correction_bias",
        "blk.#.exp_probs_b.bias",
    ),
    exact(
        "layers.#.block_sparse_moe.e_score_correction_bias",
        "blk.#.exp_probs_b.bias",
    ),
    exact("layers.#.mlp.expert_bias", "blk.#.exp_probs_b.bias"),
    exact(
        "layers.#.feed_forward.expert_bias",
        "blk.#.exp_probs_b.bias",
    ),
];

pub(super) const COUNTS: &[Pair] = &[
    pair(
        &[
            "n_routed_experts",
            "num_local_experts",
            "num_experts",
            "moe_num_experts",
        ],
        "expert_count",
        Kind::U32,
        Absent::Error,
    ),
    pair(
        &[
            "num_experts_per_tok",
            "num_experts_per_token",
            "moe_k",
            "moe_topk",
        ],
        "expert_used_count",
        Kind::U32,
        Absent::Error,
    ),
    pair(
        &["moe_intermediate_size", "intermediate_size"],
        "expert_feed_forward_length",
        Kind::U32,
        Absent::Error,
    ),
];
pub(super) const ROUTING: &[Pair] = &[
    pair(
        &["norm_topk_prob", "route_norm", "moe_renormalize"],
        "expert_weights_norm",
        Kind::Bool,
        Absent::Default(1.0),
    ),
    pair(
        &[
            "routed_scaling_factor",
            "route_scale",
            "router_scaling_factor",
        ],
        "expert_weights_scale",
        Kind::F32,
        Absent::Default(1.0),
    ),
    pair(
        &["n_group"],
        "expert_group_count",
        Kind::U32,
        Absent::Default(1.0),
    ),
    pair(
        &["topk_group"],
        "expert_group_used_count",
        Kind::U32,
        Absent::Default(1.0),
    ),
    pair(
        &[
            "first_k_dense_replace",
            "num_dense_layers",
            "moe_layer_start_index",
        ],
        "leading_dense_block_count",
        Kind::U32,
        Absent::Default(0.0),
    ),
    pair(
        &[
            "n_shared_experts",
            "num_shared_experts",
            "moe_num_shared_experts",
        ],
        "expert_shared_count",
        Kind::U32,
        Absent::Skip,
    ),
];
/// GGUF's number for sigmoids.
pub(super) const SIGMOID: &[Pair] = &[pair(
    &[],
    "expert_gating_func",
    Kind::U32,
    Absent::Default(2.0),
)];

pub(super) const OLMOE: Family = Family {
    classes: &["OlmoeForCausalLM"],
    arch: "olmoe",
    rules: &[OUTER, PRE_NORMS, ATTENTION, QK_NORMS, EXPERTS],
    pairs: &[
        &[FFN, RMS],
        COUNTS,
        &[
            pair(
                &["norm_topk_prob"],
                "expert_weights_norm",
                Kind::Bool,
                Absent::Default(0.0),
            ),
            pair(
                &["clip_qkv"],
                "attention.clamp_kqv",
                Kind::F32,
                Absent::Skip,
            ),
        ],
    ],
    window: Window::Never,
    ..LLAMA
};

pub(super) const GRANITE_EXPERTS: &[Rule] = &[
    same(
        "layers.#.block_sparse_moe.router.layer",
        "blk.#.ffn_gate_inp",
    ),
    ordered(
        "layers.#.block_sparse_moe.input_linear",
        "blk.#.ffn_gate_exps",
        Order::Rows(Share::FirstHalf),
    ),
    ordered(
        "layers.#.block_sparse_moe.input_linear",
        "blk.#.ffn_up_exps",
        Order::Rows(Share::SecondHalf),
    ),
    same(
        "layers.#.block_sparse_moe.output_linear",
        "blk.#.ffn_down_exps",
    ),
    ordered(
        "layers.#.shared_mlp.input_linear",
        "blk.#.ffn_gate_shexp",
        Order::Rows(Share::FirstHalf),
    ),
    ordered(
        "layers.#.shared_mlp.input_linear",
        "blk.#.ffn_up_shexp",
        Order::Rows(Share::SecondHalf),
    ),
    same("layers.#.shared_mlp.output_linear", "blk.#.ffn_down_shexp"),
];

pub(super) const GRANITE_MOE: Family = Family {
    classes: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
    arch: "granitemoe",
    rules: &[OUTER, PRE_NORMS, PAIRED_ATTENTION, GRANITE_EXPERTS],
    pairs: &[
        &[FFN, RMS],
        GRANITE_SCALES,
        COUNTS,
        &[pair(
            &["shared_intermediate_size"],
            "expert_shared_feed_forward_length",
            Kind::U32,
            Absent::Skip,
        )],
    ],
    ..GRANITE
};

pub(super) const ERNIE4_5_MOE: Family = Family {
    classes: &["Ernie4_5_MoeForCausalLM"],
    arch: "ernie4_5-moe",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        GATED,
        EXPERTS,
        SHARED,
        CHOICE_BIAS,
    ],
    pairs: &[
        &[FFN, RMS],
        COUNTS,
        ROUTING,
        &[pair(
            &["moe_layer_interval"],
            "interleave_moe_layer_step",
            Kind::U32,
            Absent::Default(1.0),
        )],
    ],
    demands: &[SILU, demand("moe_layer_interval", &[Number(1.0)])],
    window: Window::Never,
    ..LLAMA
};

pub(super) const HUNYUAN_MOE: Family = Family {
    classes: &["HunYuanMoEV1ForCausalLM"],
    arch: "hunyuan-moe",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        HUNYUAN_NORMS,
        &[same("layers.#.mlp.gate.wg", "blk.#.ffn_gate_inp")],
        EXPERTS,
        SHARED_MLP,
    ],
    pairs: &[&[FFN, RMS], COUNTS],
    demands: &[SILU],
    window: Window::Never,
    ..LLAMA
};

pub(super) const DOTS1: Family = Family {
    classes: &["Dots1ForCausalLM"],
    arch: "dots1",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        QK_NORMS,
        GATED,
        EXPERTS,
        SHARED,
        CHOICE_BIAS,
    ],
    pairs: &[&[FFN, RMS], COUNTS, ROUTING, SIGMOID],
    window: Window::Never,
    ..LLAMA
};

pub(super) const GLM4_MOE: Family = Family {
    classes: &["Glm4MoeForCausalLM"],
    arch: "glm4moe",
    rules: &[
        OUTER,
        &[
            same("layers.#.input_layernorm", "blk.#.attn_norm"),
            same(
                "layers.#.post_attention_layernorm",
                "blk.#.post_attention_norm",
            ),
        ],
        ATTENTION,
        QK_NORMS,
        GATED,
        EXPERTS,
        SHARED,
        CHOICE_BIAS,
        NEXTN,
    ],
    rotary: Rotary::Share(0.5),
    ..DOTS1
};

pub(super) const MINIMAX_M2: Family = Family {
    classes: &["MiniMaxM2ForCausalLM"],
    arch: "minimax-m2",
    rules: &[OUTER, PRE_NORMS, ATTENTION, QK_NORMS, MIXTRAL, CHOICE_BIAS],
    pairs: &[&[FFN, RMS], COUNTS, SIGMOID],
    ..DOTS1
};

pub(super) const EXAONE_MOE: Family = Family {
    classes: &["ExaoneMoeForCausalLM"],
    arch: "exaone-moe",
    window: Window::Layers,
    ..DOTS1
};

pub(super) const HY_V3: Family = Family {
    classes: &["HYV3ForCausalLM"],
    arch: "hy_v3",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        QK_NORMS,
        GATED,
        ROUTER_GATE,
        EXPERTS,
        SHARED_MLP,
        // llama.cpp reads it without a suffix here.
        &[exact("layers.#.mlp.expert_bias", "blk.#.exp_probs_b")],
    ],
    ..DOTS1
};

pub(super) const AFMOE: Family = Family {
    classes: &["AfmoeForCausalLM"],
    arch: "afmoe",
    rules: &[
        OUTER,
        &[
            same("layers.#.input_layernorm", "blk.#.attn_norm"),
            same(
                "layers.#.post_attention_layernorm",
                "blk.#.post_attention_norm",
            ),
            same("layers.#.pre_mlp_layernorm", "blk.#.ffn_norm"),
            same("layers.#.post_mlp_layernorm", "blk.#.post_ffw_norm"),
            same("layers.#.self_attn.gate_proj", "blk.#.attn_gate"),
        ],
        ATTENTION,
        QK_NORMS,
        GATED,
        ROUTER_GATE,
        EXPERTS,
        SHARED,
        CHOICE_BIAS,
    ],
    demands: &[SILU, demand("mup_enabled", &[Bool(true)])],
    window: Window::Layers,
    ..DOTS1
};

pub(super) const MELLUM: Family = Family {
    classes: &["MellumForCausalLM"],
    arch: "mellum",
    rules: &[OUTER, PRE_NORMS, ATTENTION, QK_NORMS, EXPERTS],
    pairs: &[&[FFN, RMS], COUNTS],
    demands: &[
        SILU,
        demand("decoder_sparse_step", &[Number(1.0)]),
        demand("mlp_only_layers", &[EmptyList]),
        demand("norm_topk_prob", &[Bool(true)]),
    ],
    window: Window::Layers,
    ..DOTS1
};

/// Query heads and leading dense layers are written by layer.
const BY_LAYER: &[Pair] = &[pair(&[], "attention.head_count", Kind::U32, Absent::Skip)];

pub(super) const COHERE2_MOE: Family = Family {
    classes: &["Cohere2MoeForCausalLM"],
    arch: "cohere2moe",
    rules: &[
        COMMAND_R.rules[0],
        COMMAND_R.rules[1],
        ATTENTION,
        GATED,
        EXPERTS,
        SHARED,
    ],
    pairs: &[
        BY_LAYER,
        COUNTS,
        &[
            pair(
                &["prefix_dense_intermediate_size", "intermediate_size"],
                "feed_forward_length",
                Kind::U32,
                Absent::Error,
            ),
            pair(
                &["layer_norm_eps"],
                "attention.layer_norm_epsilon",
                Kind::F32,
                Absent::Default(1e-5),
            ),
            pair(
                &["rms_norm_eps"],
                "attention.layer_norm_rms_epsilon",
                Kind::F32,
                Absent::Skip,
            ),
            pair(
                &["logit_scale"],
                "logit_scale",
                Kind::F32,
                Absent::Default(0.0625),
            ),
            pair(
                &["norm_topk_prob"],
                "expert_weights_norm",
                Kind::Bool,
                Absent::Default(1.0),
            ),
            pair(
                &["num_shared_experts"],
                "expert_shared_count",
                Kind::U32,
                Absent::Default(0.0),
            ),
        ],
    ],
    demands: &[
        SILU,
        demand("shared_expert_combination_strategy", &[Text("average")]),
        demand("prefix_dense_sliding_window_pattern", &[Number(1.0)]),
    ],
    ffn: FfnWidth::Paired,
    extras: Extras::MixedLayers {
        gate: ExpertGate::SoftmaxOfChosen,
    },
    window: Window::Layers,
    ..COMMAND_R
};

pub(super) const LAGUNA: Family = Family {
    classes: &["LagunaForCausalLM"],
    arch: "laguna",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        QK_NORMS,
        GATED,
        EXPERTS,
        SHARED,
        CHOICE_BIAS,
        &[
            same("layers.#.self_attn.g_proj", "blk.#.attn_gate"),
            same(
                "layers.#.mlp.shared_expert.gate_proj",
                "blk.#.ffn_gate_shexp",
            ),
            same("layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"),
            same(
                "layers.#.mlp.shared_expert.down_proj",
                "blk.#.ffn_down_shexp",
            ),
            exact(
                "layers.#.mlp.experts.e_score_correction_bias",
                "blk.#.exp_probs_b.bias",
            ),
        ],
    ],
    pairs: &[
        BY_LAYER,
        &[FFN, RMS],
        COUNTS,
        &[
            pair(
                &["moe_routed_scaling_factor"],
                "expert_weights_scale",
                Kind::F32,
                Absent::Default(1.0),
            ),
            pair(
                &["moe_router_logit_softcapping"],
                "router_logit_softcapping",
                Kind::F32,
                Absent::Skip,
            ),
            pair(
                &["shared_expert_intermediate_size"],
                "expert_shared_feed_forward_length",
                Kind::U32,
                Absent::Error,
            ),
            pair(&[], "expert_shared_count", Kind::U32, Absent::Default(1.0)),
            pair(&[], "expert_weights_norm", Kind::Bool, Absent::Default(1.0)),
        ],
    ],
    demands: &[
        SILU,
        demand("moe_apply_router_weight_on_input", &[Bool(false)]),
    ],
    head_size: HeadSize::Always,
    extras: Extras::MixedLayers {
        gate: ExpertGate::Sigmoid,
    },
    window: Window::Layers,
    ..LLAMA
};

pub(super) const PHIMOE: Family = Family {
    classes: &["PhimoeForCausalLM"],
    arch: "phimoe",
    rules: &[OUTER, PRE_NORMS, ATTENTION, MIXTRAL],
    pairs: &[
        &[
            FFN,
            pair(
                &["rms_norm_eps"],
                "attention.layer_norm_epsilon",
                Kind::F32,
                Absent::Default(1e-5),
            ),
        ],
        COUNTS,
    ],
    demands: &[SILU, demand("router_jitter_noise", &[Number(0.01)])],
    window: Window::Stated,
    ..LLAMA
};

const LFM2_EXPERTS: &[Rule] = &[
    same("layers.#.feed_forward.gate", "blk.#.ffn_gate_inp"),
    ordered(
        "layers.#.feed_forward.experts.@.w1",
        "blk.#.ffn_gate_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.feed_forward.experts.@.w3",
        "blk.#.ffn_up_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.feed_forward.experts.@.w2",
        "blk.#.ffn_down_exps",
        Order::Stacked,
    ),
];

pub(super) const LFM2_MOE: Family = Family {
    classes: &["Lfm2MoeForCausalLM"],
    arch: "lfm2moe",
    rules: &[super::lfm2::RULES, LFM2_EXPERTS, CHOICE_BIAS],
    pairs: &[&[FFN], super::lfm2::PAIRS, COUNTS, ROUTING, SIGMOID],
    ffn: FfnWidth::Stated,
    ..super::lfm2::LFM2
};
