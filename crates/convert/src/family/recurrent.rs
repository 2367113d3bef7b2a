//! Families with state spaces: Mamba and Mamba 2, alone or with attention.

use super::Literal::{Bool, Text};
use super::llama::{
    ATTENTION, FFN, GRANITE_SCALES, LLAMA, OUTER, PAIRED_ATTENTION, PRE_NORMS, RMS, SILU,
};
use super::mixtures::{COUNTS, GRANITE_EXPERTS, ROUTING};
use super::{
    Absent, Change, Demand, Family, FfnWidth, HeadSize, Kind, KvHeads, Order, Pair, Rotary, Rule,
    Share, States, When, Window, decay, demand, exact, ordered, pair, same, whole,
};

const OUTER_STATES: &[Rule] = &[
    same("embeddings", "token_embd"),
    same("norm_f", "output_norm"),
    same("lm_head", "output"),
    same("layers.#.norm", "blk.#.attn_norm"),
];

/// The tensors of a state space by what stands before their names.
macro_rules! state_space {
    ($mixer:literal, $order:expr) => {
        &[
            same(concat!($mixer, ".in_proj"), "blk.#.ssm_in"),
            same(concat!($mixer, ".x_proj"), "blk.#.ssm_x"),
            same(concat!($mixer, ".dt_proj"), "blk.#.ssm_dt"),
            same(concat!($mixer, ".out_proj"), "blk.#.ssm_out"),
            ordered(
                concat!($mixer, ".conv1d"),
                "blk.#.ssm_conv1d",
                Order::Squeezed,
            ),
            ordered(concat!($mixer, ".norm"), "blk.#.ssm_norm", Order::Groups),
            exact(concat!($mixer, ".dt_bias"), "blk.#.ssm_dt.bias"),
            decay(concat!($mixer, ".A_log"), "blk.#.ssm_a", $order),
            whole(concat!($mixer, ".D"), "blk.#.ssm_d", $order),
        ]
    };
}

pub(super) const NO_ATTENTION: &[Pair] = &[
    pair(
        &[],
        "context_length",
        Kind::U32,
        Absent::Default(1_048_576.0),
    ),
    pair(&[], "attention.head_count", Kind::U32, Absent::Default(0.0)),
    pair(&[], "feed_forward_length", Kind::U32, Absent::Default(0.0)),
    pair(
        &["layer_norm_epsilon"],
        "attention.layer_norm_rms_epsilon",
        Kind::F32,
        Absent::Default(1e-5),
    ),
];
const PROJECTIONS_WITHOUT_BIAS: Demand = demand("use_bias", &[Bool(false)]);

pub(super) const MAMBA: Family = Family {
    classes: &["MambaForCausalLM"],
    arch: "mamba",
    rules: &[OUTER_STATES, state_space!("layers.#.mixer", Order::Same)],
    pairs: &[NO_ATTENTION],
    demands: &[SILU, PROJECTIONS_WITHOUT_BIAS],
    kv_heads: KvHeads::Never,
    ffn: FfnWidth::Paired,
    states: States::Mamba,
    rotary: Rotary::None,
    window: Window::Never,
    ..LLAMA
};

pub(super) const FALCON_MAMBA: Family = Family {
    classes: &["FalconMambaForCausalLM"],
    pairs: &[
        NO_ATTENTION,
        &[pair(
            &[],
            "ssm.dt_b_c_rms",
            Kind::Bool,
            Absent::Default(1.0),
        )],
    ],
    ..MAMBA
};

pub(super) const MAMBA2: Family = Family {
    classes: &["Mamba2ForCausalLM"],
    arch: "mamba2",
    rules: &[OUTER_STATES, state_space!("layers.#.mixer", Order::Column)],
    states: States::Mamba2,
    ..MAMBA
};

const JAMBA_EXPERTS: &[Rule] = &[
    same("layers.#.feed_forward.gate_proj", "blk.#.ffn_gate"),
    same("layers.#.feed_forward.up_proj", "blk.#.ffn_up"),
    same("layers.#.feed_forward.down_proj", "blk.#.ffn_down"),
    same("layers.#.feed_forward.router", "blk.#.ffn_gate_inp"),
    ordered(
        "layers.#.feed_forward.experts.@.gate_proj",
        "blk.#.ffn_gate_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.feed_forward.experts.@.up_proj",
        "blk.#.ffn_up_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.feed_forward.experts.@.down_proj",
        "blk.#.ffn_down_exps",
        Order::Stacked,
    ),
];
/// The names that Jamba and Falcon-H1 have in common.
const PRE_FF: &[Rule] = &[
    same("embed_tokens", "token_embd"),
    same("final_layernorm", "output_norm"),
    same("lm_head", "output"),
    same("layers.#.input_layernorm", "blk.#.attn_norm"),
];

pub(super) const JAMBA: Family = Family {
    classes: &["JambaForCausalLM"],
    arch: "jamba",
    rules: &[
        PRE_FF,
        &[
            same("layers.#.pre_ff_layernorm", "blk.#.ffn_norm"),
            same("layers.#.mamba.dt_layernorm", "blk.#.ssm_dt_norm"),
            same("layers.#.mamba.b_layernorm", "blk.#.ssm_b_norm"),
            same("layers.#.mamba.c_layernorm", "blk.#.ssm_c_norm"),
        ],
        state_space!("layers.#.mamba", Order::Same),
        ATTENTION,
        JAMBA_EXPERTS,
    ],
    pairs: &[&[FFN, RMS], COUNTS],
    demands: &[SILU, demand("mamba_proj_bias", &[Bool(false)])],
    kv_heads: KvHeads::AttentionLayers,
    ffn: FfnWidth::Stated,
    window: Window::Never,
    states: States::Mamba,
    ..LLAMA
};

const GRANITE_HYBRID_DEMANDS: &[Demand] = &[
    SILU,
    demand("mamba_proj_bias", &[Bool(false)]),
    demand("position_embedding_type", &[Text("rope"), Text("nope")]),
];

/// Granite 4 with experts.
pub(super) const GRANITE_HYBRID: Family = Family {
    classes: &["GraniteMoeHybridForCausalLM"],
    arch: "granitehybrid",
    rules: &[
        OUTER,
        PRE_NORMS,
        PAIRED_ATTENTION,
        state_space!("layers.#.mamba", Order::Column),
        GRANITE_EXPERTS,
    ],
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
    demands: GRANITE_HYBRID_DEMANDS,
    kv_heads: KvHeads::AttentionLayers,
    rotary: Rotary::UnlessNope,
    window: Window::Never,
    states: States::Mamba2,
    ..LLAMA
};

/// Granite 4 with dense networks, which checkpoints call shared experts.
pub(super) const GRANITE_HYBRID_DENSE: Family = Family {
    when: When::NoExperts,
    rules: &[
        OUTER,
        PRE_NORMS,
        PAIRED_ATTENTION,
        state_space!("layers.#.mamba", Order::Column),
        &[
            ordered(
                "layers.#.shared_mlp.input_linear",
                "blk.#.ffn_gate",
                Order::Rows(Share::FirstHalf),
            ),
            ordered(
                "layers.#.shared_mlp.input_linear",
                "blk.#.ffn_up",
                Order::Rows(Share::SecondHalf),
            ),
            same("layers.#.shared_mlp.output_linear", "blk.#.ffn_down"),
        ],
    ],
    pairs: &[
        &[
            RMS,
            pair(
                &["shared_intermediate_size"],
                "feed_forward_length",
                Kind::U32,
                Absent::Error,
            ),
        ],
        GRANITE_SCALES,
    ],
    ffn: FfnWidth::Paired,
    ..GRANITE_HYBRID
};

/// A tensor whose weights take in multipliers.
const fn times(
    from: &'static str,
    to: &'static str,
    keys: &'static [(&'static str, Option<usize>)],
) -> Rule {
    Rule {
        change: Change::Times(keys),
        ..same(from, to)
    }
}

pub(super) const FALCON_H1: Family = Family {
    classes: &["FalconH1ForCausalLM"],
    arch: "falcon-h1",
    rules: &[&[
        times(
            "embed_tokens",
            "token_embd",
            &[("embedding_multiplier", None)],
        ),
        times("lm_head", "output", &[("lm_head_multiplier", None)]),
        times(
            "layers.#.self_attn.q_proj",
            "blk.#.attn_q",
            &[("attention_in_multiplier", None)],
        ),
        times(
            "layers.#.self_attn.k_proj",
            "blk.#.attn_k",
            &[("attention_in_multiplier", None), ("key_multiplier", None)],
        ),
        times(
            "layers.#.self_attn.v_proj",
            "blk.#.attn_v",
            &[("attention_in_multiplier", None)],
        ),
        times(
            "layers.#.self_attn.o_proj",
            "blk.#.attn_output",
            &[("attention_out_multiplier", None)],
        ),
        times(
            "layers.#.feed_forward.gate_proj",
            "blk.#.ffn_gate",
            &[("mlp_multipliers", Some(0))],
        ),
        same("layers.#.feed_forward.up_proj", "blk.#.ffn_up"),
        times(
            "layers.#.feed_forward.down_proj",
            "blk.#.ffn_down",
            &[("mlp_multipliers", Some(1))],
        ),
        times(
            "layers.#.mamba.out_proj",
            "blk.#.ssm_out",
            &[("ssm_out_multiplier", None)],
        ),
        Rule {
            change: Change::StateMultipliers,
            ..same("layers.#.mamba.in_proj", "blk.#.ssm_in")
        },
        // llama.cpp reads it without a suffix here.
        exact("layers.#.pre_ff_layernorm.weight", "blk.#.ffn_norm"),
        same("final_layernorm", "output_norm"),
        same("layers.#.input_layernorm", "blk.#.attn_norm"),
        ordered("layers.#.mamba.conv1d", "blk.#.ssm_conv1d", Order::Squeezed),
        exact("layers.#.mamba.dt_bias", "blk.#.ssm_dt.bias"),
        decay("layers.#.mamba.A_log", "blk.#.ssm_a", Order::Column),
        whole("layers.#.mamba.D", "blk.#.ssm_d", Order::Column),
    ]],
    pairs: &[&[FFN, RMS]],
    demands: &[
        SILU,
        demand("mamba_rms_norm", &[Bool(false)]),
        demand("mamba_proj_bias", &[Bool(false)]),
        demand("attention_bias", &[Bool(false)]),
        demand("mlp_bias", &[Bool(false)]),
        demand("projectors_bias", &[Bool(false)]),
        // One matrix cannot take in the multipliers of both.
        demand("tie_word_embeddings", &[Bool(false)]),
    ],
    window: Window::Never,
    states: States::Mamba2,
    ..LLAMA
};

const NEMOTRON_H_RULES: &[Rule] = &[
    same("layers.#.mixer.q_proj", "blk.#.attn_q"),
    same("layers.#.mixer.k_proj", "blk.#.attn_k"),
    same("layers.#.mixer.v_proj", "blk.#.attn_v"),
    same("layers.#.mixer.o_proj", "blk.#.attn_output"),
    same("layers.#.mixer.up_proj", "blk.#.ffn_up"),
    same("layers.#.mixer.down_proj", "blk.#.ffn_down"),
];
const NEMOTRON_H_NORMS: &[Pair] = &[
    pair(
        &["layer_norm_epsilon", "rms_norm_eps"],
        "attention.layer_norm_rms_epsilon",
        Kind::F32,
        Absent::Default(1e-5),
    ),
    pair(
        &["layer_norm_epsilon", "rms_norm_eps"],
        "attention.layer_norm_epsilon",
        Kind::F32,
        Absent::Default(1e-5),
    ),
    // Nemotron's configs only list what layers are.
    pair(
        &["num_hidden_layers"],
        "block_count",
        Kind::U32,
        Absent::Layers,
    ),
];

pub(super) const NEMOTRON_H: Family = Family {
    classes: &["NemotronHForCausalLM"],
    arch: "nemotron_h",
    rules: &[
        OUTER_STATES,
        state_space!("layers.#.mixer", Order::Column),
        NEMOTRON_H_RULES,
    ],
    pairs: &[NEMOTRON_H_NORMS],
    demands: &[
        demand("mlp_hidden_act", &[Text("relu2")]),
        demand("mamba_proj_bias", &[Bool(false)]),
    ],
    kv_heads: KvHeads::AttentionLayers,
    head_size: HeadSize::Always,
    ffn: FfnWidth::NetworkLayers,
    rotary: Rotary::None,
    window: Window::Never,
    states: States::Mamba2,
    ..LLAMA
};

pub(super) const NEMOTRON_H_MOE: Family = Family {
    when: When::ExpertLayers,
    arch: "nemotron_h_moe",
    rules: &[
        OUTER_STATES,
        state_space!("layers.#.mixer", Order::Column),
        NEMOTRON_H_RULES,
        &[
            same("layers.#.mixer.gate", "blk.#.ffn_gate_inp"),
            exact(
                "layers.#.mixer.gate.e_score_correction_bias",
                "blk.#.exp_probs_b.bias",
            ),
            ordered(
                "layers.#.mixer.experts.@.up_proj",
                "blk.#.ffn_up_exps",
                Order::Stacked,
            ),
            ordered(
                "layers.#.mixer.experts.@.down_proj",
                "blk.#.ffn_down_exps",
                Order::Stacked,
            ),
            same(
                "layers.#.mixer.shared_experts.up_proj",
                "blk.#.ffn_up_shexp",
            ),
            same(
                "layers.#.mixer.shared_experts.down_proj",
                "blk.#.ffn_down_shexp",
            ),
        ],
    ],
    pairs: &[
        NEMOTRON_H_NORMS,
        COUNTS,
        ROUTING,
        &[pair(
            &["moe_shared_expert_intermediate_size"],
            "expert_shared_feed_forward_length",
            Kind::U32,
            Absent::Skip,
        )],
    ],
    demands: &[
        demand("mlp_hidden_act", &[Text("relu2")]),
        demand("mamba_proj_bias", &[Bool(false)]),
        demand("moe_latent_size", &[]),
    ],
    ..NEMOTRON_H
};
