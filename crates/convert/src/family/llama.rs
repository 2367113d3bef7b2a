//! Llama and the families that vary it.

use super::Literal::{Bool, EmptyList, Number, Text};
use super::{
    Absent, Change, Demand, Extras, Family, FfnWidth, HeadSize, Heads, Kind, KvHeads, Latent,
    Order, Pair, Reading, Rotary, Rule, States, When, Window, demand, ordered, pair, same, shifted,
};

pub(super) const OUTER: &[Rule] = &[
    same("embed_tokens", "token_embd"),
    same("norm", "output_norm"),
    same("lm_head", "output"),
];
pub(super) const PRE_NORMS: &[Rule] = &[
    same("layers.#.input_layernorm", "blk.#.attn_norm"),
    same("layers.#.post_attention_layernorm", "blk.#.ffn_norm"),
];
pub(super) const ATTENTION: &[Rule] = &[
    same("layers.#.self_attn.q_proj", "blk.#.attn_q"),
    same("layers.#.self_attn.k_proj", "blk.#.attn_k"),
    same("layers.#.self_attn.v_proj", "blk.#.attn_v"),
    same("layers.#.self_attn.o_proj", "blk.#.attn_output"),
];
pub(super) const PAIRED_ATTENTION: &[Rule] = &[
    ordered(
        "layers.#.self_attn.q_proj",
        "blk.#.attn_q",
        Order::Pairs(Heads::Query),
    ),
    ordered(
        "layers.#.self_attn.k_proj",
        "blk.#.attn_k",
        Order::Pairs(Heads::KeyValue),
    ),
    same("layers.#.self_attn.v_proj", "blk.#.attn_v"),
    same("layers.#.self_attn.o_proj", "blk.#.attn_output"),
];
pub(super) const QK_NORMS: &[Rule] = &[
    same("layers.#.self_attn.q_norm", "blk.#.attn_q_norm"),
    same("layers.#.self_attn.k_norm", "blk.#.attn_k_norm"),
];
pub(super) const GATED: &[Rule] = &[
    same("layers.#.mlp.gate_proj", "blk.#.ffn_gate"),
    same("layers.#.mlp.up_proj", "blk.#.ffn_up"),
    same("layers.#.mlp.down_proj", "blk.#.ffn_down"),
];
pub(super) const MIXTRAL: &[Rule] = &[
    same("layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp"),
    ordered(
        "layers.#.block_sparse_moe.experts.@.w1",
        "blk.#.ffn_gate_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.block_sparse_moe.experts.@.w3",
        "blk.#.ffn_up_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.block_sparse_moe.experts.@.w2",
        "blk.#.ffn_down_exps",
        Order::Stacked,
    ),
];
pub(super) const EXPERTS: &[Rule] = &[
    same("layers.#.mlp.gate", "blk.#.ffn_gate_inp"),
    ordered(
        "layers.#.mlp.experts.@.gate_proj",
        "blk.#.ffn_gate_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.mlp.experts.@.up_proj",
        "blk.#.ffn_up_exps",
        Order::Stacked,
    ),
    ordered(
        "layers.#.mlp.experts.@.down_proj",
        "blk.#.ffn_down_exps",
        Order::Stacked,
    ),
];
pub(super) const SHARED_EXPERT: &[Rule] = &[
    ordered(
        "layers.#.mlp.shared_expert_gate",
        "blk.#.ffn_gate_inp_shexp",
        Order::Flat,
    ),
    same(
        "layers.#.mlp.shared_expert.gate_proj",
        "blk.#.ffn_gate_shexp",
    ),
    same("layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"),
    same(
        "layers.#.mlp.shared_expert.down_proj",
        "blk.#.ffn_down_shexp",
    ),
];

pub(super) const FFN: Pair = pair(
    &["intermediate_size"],
    "feed_forward_length",
    Kind::U32,
    Absent::Error,
);
pub(super) const RMS: Pair = pair(
    &["rms_norm_eps"],
    "attention.layer_norm_rms_epsilon",
    Kind::F32,
    Absent::Default(1e-6),
);
pub(super) const LAYER_NORM: Pair = pair(
    &["norm_epsilon", "layer_norm_eps"],
    "attention.layer_norm_epsilon",
    Kind::F32,
    Absent::Default(1e-5),
);
const EXPERT_COUNTS: &[Pair] = &[
    pair(
        &["num_local_experts", "num_experts"],
        "expert_count",
        Kind::U32,
        Absent::Skip,
    ),
    pair(
        &["num_experts_per_tok"],
        "expert_used_count",
        Kind::U32,
        Absent::Skip,
    ),
];
const EXPERT_SIZES: &[Pair] = &[
    pair(
        &["moe_intermediate_size"],
        "expert_feed_forward_length",
        Kind::U32,
        Absent::Error,
    ),
    pair(
        &["norm_topk_prob"],
        "expert_weights_norm",
        Kind::Bool,
        Absent::Skip,
    ),
];

pub(super) const SILU: Demand = demand("hidden_act", &[Text("silu"), Text("swish")]);
const TANH_GELU: Demand = demand(
    "hidden_act",
    &[Text("gelu_pytorch_tanh"), Text("gelu_new"), Text("gelu")],
);
const TANH_GELU_ACTIVATION: Demand = demand("hidden_activation", &[Text("gelu_pytorch_tanh")]);
const EVERY_LAYER_HAS_EXPERTS: &[Demand] = &[
    SILU,
    demand("decoder_sparse_step", &[Number(1.0)]),
    demand("mlp_only_layers", &[EmptyList]),
];

pub(super) const LLAMA: Family = Family {
    classes: &[
        "LlamaForCausalLM",
        "LLaMAForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
    ],
    when: When::Always,
    arch: "llama",
    rules: &[OUTER, PRE_NORMS, PAIRED_ATTENTION, GATED, MIXTRAL],
    pairs: &[&[FFN, RMS], EXPERT_COUNTS],
    demands: &[SILU],
    kv_heads: KvHeads::Stated,
    head_size: HeadSize::WhereOdd,
    ffn: FfnWidth::Stated,
    states: States::Never,
    latent: Latent::Never,
    extras: Extras::Never,
    rotary: Rotary::Share(1.0),
    window: Window::Stated,
    reading: Reading::Forward,
    texts: &[],
};

pub(super) const QWEN2: Family = Family {
    classes: &["Qwen2ForCausalLM"],
    arch: "qwen2",
    rules: &[OUTER, PRE_NORMS, ATTENTION, GATED],
    pairs: &[&[FFN, RMS]],
    window: Window::Used,
    ..LLAMA
};

pub(super) const QWEN2_MOE: Family = Family {
    classes: &["Qwen2MoeForCausalLM"],
    arch: "qwen2moe",
    rules: &[OUTER, PRE_NORMS, ATTENTION, EXPERTS, SHARED_EXPERT],
    pairs: &[
        &[FFN, RMS],
        EXPERT_COUNTS,
        EXPERT_SIZES,
        &[pair(
            &["shared_expert_intermediate_size"],
            "expert_shared_feed_forward_length",
            Kind::U32,
            Absent::Error,
        )],
    ],
    demands: EVERY_LAYER_HAS_EXPERTS,
    ..QWEN2
};

pub(super) const QWEN3: Family = Family {
    classes: &["Qwen3ForCausalLM"],
    arch: "qwen3",
    rules: &[OUTER, PRE_NORMS, ATTENTION, QK_NORMS, GATED],
    ..QWEN2
};

pub(super) const QWEN3_MOE: Family = Family {
    classes: &["Qwen3MoeForCausalLM"],
    arch: "qwen3moe",
    rules: &[OUTER, PRE_NORMS, ATTENTION, QK_NORMS, EXPERTS],
    pairs: &[&[FFN, RMS], EXPERT_COUNTS, EXPERT_SIZES],
    demands: EVERY_LAYER_HAS_EXPERTS,
    ..QWEN2
};

const GEMMA_OUTER: &[Rule] = &[
    same("embed_tokens", "token_embd"),
    shifted("norm", "output_norm"),
    same("lm_head", "output"),
];
const GEMMA2_NORMS: &[Rule] = &[
    shifted("layers.#.input_layernorm", "blk.#.attn_norm"),
    shifted(
        "layers.#.post_attention_layernorm",
        "blk.#.post_attention_norm",
    ),
    shifted("layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"),
    shifted("layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"),
];
const SOFT_CAPS: &[Pair] = &[
    pair(
        &["attn_logit_softcapping"],
        "attn_logit_softcapping",
        Kind::F32,
        Absent::Skip,
    ),
    pair(
        &["final_logit_softcapping"],
        "final_logit_softcapping",
        Kind::F32,
        Absent::Skip,
    ),
];

pub(super) const GEMMA: Family = Family {
    classes: &["GemmaForCausalLM"],
    arch: "gemma",
    rules: &[
        GEMMA_OUTER,
        &[
            shifted("layers.#.input_layernorm", "blk.#.attn_norm"),
            shifted("layers.#.post_attention_layernorm", "blk.#.ffn_norm"),
        ],
        ATTENTION,
        GATED,
    ],
    pairs: &[&[FFN, RMS]],
    demands: &[TANH_GELU, TANH_GELU_ACTIVATION],
    head_size: HeadSize::Always,
    window: Window::Never,
    ..LLAMA
};

pub(super) const GEMMA2: Family = Family {
    classes: &["Gemma2ForCausalLM"],
    arch: "gemma2",
    rules: &[GEMMA_OUTER, GEMMA2_NORMS, ATTENTION, GATED],
    pairs: &[&[FFN, RMS], SOFT_CAPS],
    window: Window::Stated,
    ..GEMMA
};

pub(super) const GEMMA3: Family = Family {
    classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
    arch: "gemma3",
    rules: &[
        GEMMA_OUTER,
        GEMMA2_NORMS,
        ATTENTION,
        &[
            shifted("layers.#.self_attn.q_norm", "blk.#.attn_q_norm"),
            shifted("layers.#.self_attn.k_norm", "blk.#.attn_k_norm"),
        ],
        GATED,
    ],
    demands: &[
        TANH_GELU,
        TANH_GELU_ACTIVATION,
        demand("sliding_window_pattern", &[Number(6.0)]),
        demand("_sliding_window_pattern", &[Number(6.0)]),
        demand("use_bidirectional_attention", &[Bool(false)]),
    ],
    ..GEMMA2
};

pub(super) const PHI3: Family = Family {
    classes: &["Phi3ForCausalLM"],
    arch: "phi3",
    rules: &[
        OUTER,
        PRE_NORMS,
        &[
            same("layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"),
            same("layers.#.self_attn.o_proj", "blk.#.attn_output"),
            same("layers.#.mlp.gate_up_proj", "blk.#.ffn_up"),
            same("layers.#.mlp.down_proj", "blk.#.ffn_down"),
        ],
    ],
    pairs: &[
        &[FFN, RMS],
        &[
            pair(
                &["original_max_position_embeddings"],
                "rope.scaling.original_context_length",
                Kind::U32,
                Absent::Skip,
            ),
            // llama.cpp wants the key; 0 is "none".
            pair(
                &["sliding_window"],
                "attention.sliding_window",
                Kind::U32,
                Absent::Default(0.0),
            ),
        ],
    ],
    window: Window::Never,
    ..LLAMA
};

pub(super) const STARCODER2: Family = Family {
    classes: &["Starcoder2ForCausalLM"],
    arch: "starcoder2",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        &[
            same("layers.#.mlp.c_fc", "blk.#.ffn_up"),
            same("layers.#.mlp.c_proj", "blk.#.ffn_down"),
        ],
    ],
    pairs: &[&[FFN, LAYER_NORM]],
    demands: &[
        demand("hidden_act", &[Text("gelu_pytorch_tanh"), Text("gelu_new")]),
        demand("use_bias", &[Bool(true)]),
    ],
    ..LLAMA
};

pub(super) const STABLELM: Family = Family {
    classes: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
    arch: "stablelm",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        GATED,
        &[
            ordered(
                "layers.#.self_attn.q_layernorm.norms.@",
                "blk.#.attn_q_norm",
                Order::Stacked,
            ),
            ordered(
                "layers.#.self_attn.k_layernorm.norms.@",
                "blk.#.attn_k_norm",
                Order::Stacked,
            ),
        ],
    ],
    pairs: &[
        &[FFN, LAYER_NORM],
        &[pair(
            &["use_parallel_residual"],
            "use_parallel_residual",
            Kind::Bool,
            Absent::Default(0.0),
        )],
    ],
    rotary: Rotary::Share(0.25),
    window: Window::Never,
    ..LLAMA
};

pub(super) const OLMO2: Family = Family {
    classes: &["Olmo2ForCausalLM"],
    arch: "olmo2",
    rules: &[
        OUTER,
        &[
            same(
                "layers.#.post_attention_layernorm",
                "blk.#.post_attention_norm",
            ),
            same("layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"),
        ],
        ATTENTION,
        QK_NORMS,
        GATED,
    ],
    pairs: &[&[FFN, RMS]],
    window: Window::Never,
    ..LLAMA
};

pub(super) const OLMO3: Family = Family {
    classes: &["Olmo3ForCausalLM"],
    window: Window::Layers,
    ..OLMO2
};

pub(super) const GRANITE_SCALES: &[Pair] = &[
    pair(
        &["attention_multiplier"],
        "attention.scale",
        Kind::F32,
        Absent::Default(1.0),
    ),
    pair(
        &["embedding_multiplier"],
        "embedding_scale",
        Kind::F32,
        Absent::Default(1.0),
    ),
    pair(
        &["residual_multiplier"],
        "residual_scale",
        Kind::F32,
        Absent::Default(1.0),
    ),
    pair(
        &["logits_scaling"],
        "logit_scale",
        Kind::F32,
        Absent::Default(1.0),
    ),
];

pub(super) const GRANITE: Family = Family {
    classes: &["GraniteForCausalLM"],
    arch: "granite",
    rules: &[OUTER, PRE_NORMS, PAIRED_ATTENTION, GATED],
    pairs: &[&[FFN, RMS], GRANITE_SCALES],
    window: Window::Never,
    ..LLAMA
};

pub(super) const COMMAND_R: Family = Family {
    classes: &["CohereForCausalLM"],
    arch: "command-r",
    rules: &[
        OUTER,
        &[Rule {
            change: Change::Nothing,
            ..same("layers.#.input_layernorm", "blk.#.attn_norm")
        }],
        ATTENTION,
        QK_NORMS,
        GATED,
    ],
    pairs: &[
        &[FFN, LAYER_NORM],
        &[pair(
            &["logit_scale"],
            "logit_scale",
            Kind::F32,
            Absent::Default(0.0625),
        )],
    ],
    texts: &[("rope.scaling.type", "none")],
    window: Window::Never,
    ..LLAMA
};
