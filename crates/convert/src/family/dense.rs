//! Dense families that change little about Llama or GPT-2.

use super::Literal::{Bool, Number, Text};
use super::gpt::{self, GPT2};
use super::llama::{
    ATTENTION, COMMAND_R, FFN, GATED, GRANITE, LAYER_NORM, LLAMA, OLMO2, OUTER, PAIRED_ATTENTION,
    PRE_NORMS, QK_NORMS, QWEN2, QWEN3, QWEN3_MOE, RMS, SILU,
};
use super::{
    Absent, Demand, Family, Kind, KvHeads, Order, Pair, Rotary, Rule, Share, Window, demand, exact,
    ordered, pair, same, shifted, whole,
};

const PLAIN: &[Rule] = &[
    same("layers.#.mlp.up_proj", "blk.#.ffn_up"),
    same("layers.#.mlp.down_proj", "blk.#.ffn_down"),
];
const FUSED_GATED: &[Rule] = &[
    same("layers.#.mlp.gate_up_proj", "blk.#.ffn_up"),
    same("layers.#.mlp.down_proj", "blk.#.ffn_down"),
];
pub(super) const HUNYUAN_NORMS: &[Rule] = &[
    same("layers.#.self_attn.query_layernorm", "blk.#.attn_q_norm"),
    same("layers.#.self_attn.key_layernorm", "blk.#.attn_k_norm"),
];
const RELU_SQUARED: Demand = demand("hidden_act", &[Text("relu2")]);
const CLAMP: Pair = pair(
    &["clip_qkv"],
    "attention.clamp_kqv",
    Kind::F32,
    Absent::Skip,
);

pub(super) const ARCEE: Family = Family {
    classes: &["ArceeForCausalLM"],
    arch: "arcee",
    rules: &[OUTER, PRE_NORMS, PAIRED_ATTENTION, PLAIN],
    pairs: &[&[FFN, RMS]],
    demands: &[RELU_SQUARED],
    window: Window::Never,
    ..LLAMA
};

pub(super) const SMOLLM3: Family = Family {
    classes: &["SmolLM3ForCausalLM"],
    arch: "smollm3",
    rules: &[OUTER, PRE_NORMS, PAIRED_ATTENTION, GATED],
    pairs: &[&[FFN, RMS]],
    demands: &[
        SILU,
        demand("no_rope_layer_interval", &[Number(4.0)]),
        demand("use_sliding_window", &[Bool(false)]),
    ],
    window: Window::Never,
    ..LLAMA
};

pub(super) const MISTRAL3: Family = Family {
    classes: &[
        "Ministral3ForCausalLM",
        "Mistral3ForConditionalGeneration",
        "MinistralForCausalLM",
    ],
    arch: "mistral3",
    rules: &[OUTER, PRE_NORMS, PAIRED_ATTENTION, GATED],
    pairs: &[&[FFN, RMS]],
    ..LLAMA
};

pub(super) const OLMO: Family = Family {
    classes: &["OlmoForCausalLM"],
    arch: "olmo",
    rules: &[OUTER, PAIRED_ATTENTION, GATED],
    pairs: &[&[
        FFN,
        CLAMP,
        pair(
            &[],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-5),
        ),
    ]],
    window: Window::Never,
    ..LLAMA
};

pub(super) const ERNIE4_5: Family = Family {
    classes: &["Ernie4_5ForCausalLM"],
    arch: "ernie4_5",
    rules: &[OUTER, PRE_NORMS, ATTENTION, GATED],
    pairs: &[&[FFN, RMS]],
    window: Window::Never,
    ..LLAMA
};

pub(super) const SEED_OSS: Family = Family {
    classes: &["SeedOssForCausalLM"],
    arch: "seed_oss",
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
        GATED,
    ],
    ..ERNIE4_5
};

pub(super) const HUNYUAN_DENSE: Family = Family {
    classes: &["HunYuanDenseV1ForCausalLM"],
    arch: "hunyuan-dense",
    rules: &[OUTER, PRE_NORMS, ATTENTION, HUNYUAN_NORMS, GATED],
    ..ERNIE4_5
};

pub(super) const CHATGLM: Family = Family {
    classes: &["GlmForCausalLM"],
    arch: "chatglm",
    rules: &[OUTER, PRE_NORMS, ATTENTION, FUSED_GATED],
    rotary: Rotary::Share(0.5),
    ..ERNIE4_5
};

pub(super) const GLM4: Family = Family {
    classes: &["Glm4ForCausalLM"],
    arch: "glm4",
    rules: &[
        OUTER,
        PRE_NORMS,
        &[
            same(
                "layers.#.post_self_attn_layernorm",
                "blk.#.post_attention_norm",
            ),
            same("layers.#.post_mlp_layernorm", "blk.#.post_ffw_norm"),
        ],
        ATTENTION,
        FUSED_GATED,
    ],
    ..CHATGLM
};

pub(super) const EXAONE4: Family = Family {
    classes: &["Exaone4ForCausalLM"],
    arch: "exaone4",
    window: Window::Layers,
    ..OLMO2
};

pub(super) const COHERE2: Family = Family {
    classes: &["Cohere2ForCausalLM"],
    arch: "cohere2",
    window: Window::Layers,
    ..COMMAND_R
};

pub(super) const JAIS2: Family = Family {
    classes: &["Jais2ForCausalLM"],
    arch: "jais2",
    rules: &[OUTER, PRE_NORMS, ATTENTION, PLAIN],
    pairs: &[&[FFN, LAYER_NORM]],
    demands: &[RELU_SQUARED],
    window: Window::Never,
    ..LLAMA
};

pub(super) const NEMOTRON: Family = Family {
    classes: &["NemotronForCausalLM"],
    arch: "nemotron",
    rules: &[
        &[
            same("embed_tokens", "token_embd"),
            shifted("norm", "output_norm"),
            same("lm_head", "output"),
            shifted("layers.#.input_layernorm", "blk.#.attn_norm"),
            shifted("layers.#.post_attention_layernorm", "blk.#.ffn_norm"),
        ],
        ATTENTION,
        PLAIN,
    ],
    pairs: &[&[
        FFN,
        pair(
            &["norm_eps"],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-5),
        ),
    ]],
    rotary: Rotary::Share(0.5),
    ..JAIS2
};

pub(super) const PHI2: Family = Family {
    classes: &["PhiForCausalLM"],
    arch: "phi2",
    rules: &[
        &[
            same("embed_tokens", "token_embd"),
            same("final_layernorm", "output_norm"),
            same("lm_head", "output"),
            same("layers.#.input_layernorm", "blk.#.attn_norm"),
            same("layers.#.self_attn.dense", "blk.#.attn_output"),
            same("layers.#.mlp.fc1", "blk.#.ffn_up"),
            same("layers.#.mlp.fc2", "blk.#.ffn_down"),
        ],
        ATTENTION,
    ],
    pairs: &[&[FFN, LAYER_NORM]],
    demands: &[
        demand("hidden_act", &[Text("gelu_new"), Text("gelu_pytorch_tanh")]),
        demand("qk_layernorm", &[Bool(false)]),
    ],
    rotary: Rotary::Share(0.5),
    window: Window::Never,
    ..LLAMA
};

pub(super) const GPTJ: Family = Family {
    classes: &["GPTJForCausalLM"],
    arch: "gptj",
    rules: &[&[
        same("wte", "token_embd"),
        same("ln_f", "output_norm"),
        same("lm_head", "output"),
        same("h.#.ln_1", "blk.#.attn_norm"),
        same("h.#.attn.q_proj", "blk.#.attn_q"),
        same("h.#.attn.k_proj", "blk.#.attn_k"),
        same("h.#.attn.v_proj", "blk.#.attn_v"),
        same("h.#.attn.out_proj", "blk.#.attn_output"),
        same("h.#.mlp.fc_in", "blk.#.ffn_up"),
        same("h.#.mlp.fc_out", "blk.#.ffn_down"),
    ]],
    demands: &[demand("activation_function", &[Text("gelu_new")])],
    rotary: Rotary::Share(1.0),
    ..GPT2
};

pub(super) const STARCODER: Family = Family {
    classes: &["GPTBigCodeForCausalLM"],
    arch: "starcoder",
    rules: &[&[
        same("wte", "token_embd"),
        same("wpe", "position_embd"),
        same("ln_f", "output_norm"),
        same("lm_head", "output"),
        same("h.#.ln_1", "blk.#.attn_norm"),
        same("h.#.ln_2", "blk.#.ffn_norm"),
        same("h.#.attn.c_attn", "blk.#.attn_qkv"),
        same("h.#.attn.c_proj", "blk.#.attn_output"),
        same("h.#.mlp.c_fc", "blk.#.ffn_up"),
        same("h.#.mlp.c_proj", "blk.#.ffn_down"),
    ]],
    demands: &[
        demand(
            "activation_function",
            &[Text("gelu_pytorch_tanh"), Text("gelu_new")],
        ),
        demand("multi_query", &[Bool(true)]),
        demand("scale_attn_weights", &[Bool(true)]),
    ],
    kv_heads: KvHeads::Falcon,
    ..GPT2
};

pub(super) const OPT: Family = Family {
    classes: &["OPTForCausalLM"],
    arch: "opt",
    rules: &[&[
        same("decoder.embed_tokens", "token_embd"),
        // The first two positions stand for nothing.
        ordered(
            "decoder.embed_positions",
            "position_embd",
            Order::PositionsFrom(2),
        ),
        same("decoder.final_layer_norm", "output_norm"),
        same("lm_head", "output"),
        same("decoder.layers.#.self_attn_layer_norm", "blk.#.attn_norm"),
        same("decoder.layers.#.final_layer_norm", "blk.#.ffn_norm"),
        same("decoder.layers.#.self_attn.q_proj", "blk.#.attn_q"),
        same("decoder.layers.#.self_attn.k_proj", "blk.#.attn_k"),
        same("decoder.layers.#.self_attn.v_proj", "blk.#.attn_v"),
        same("decoder.layers.#.self_attn.out_proj", "blk.#.attn_output"),
        same("decoder.layers.#.fc1", "blk.#.ffn_up"),
        same("decoder.layers.#.fc2", "blk.#.ffn_down"),
    ]],
    pairs: &[&[
        pair(
            &["ffn_dim"],
            "feed_forward_length",
            Kind::U32,
            Absent::Error,
        ),
        pair(
            &[],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-5),
        ),
    ]],
    demands: &[
        demand("activation_function", &[Text("relu")]),
        demand("do_layer_norm_before", &[Bool(true)]),
        demand("_remove_final_layer_norm", &[Bool(false)]),
        demand("enable_bias", &[Bool(true)]),
        demand("layer_norm_elementwise_affine", &[Bool(true)]),
    ],
    ..GPT2
};

pub(super) const BLOOM: Family = Family {
    classes: &["BloomForCausalLM"],
    arch: "bloom",
    rules: &[&[
        same("word_embeddings", "token_embd"),
        same("word_embeddings_layernorm", "token_embd_norm"),
        same("ln_f", "output_norm"),
        same("lm_head", "output"),
        same("h.#.input_layernorm", "blk.#.attn_norm"),
        same("h.#.post_attention_layernorm", "blk.#.ffn_norm"),
        ordered(
            "h.#.self_attention.query_key_value",
            "blk.#.attn_qkv",
            Order::HeadsOfQkv,
        ),
        same("h.#.self_attention.dense", "blk.#.attn_output"),
        same("h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"),
        same("h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"),
    ]],
    pairs: &[&[gpt::LAYER_NORM]],
    demands: &[demand(
        "apply_residual_connection_post_layernorm",
        &[Bool(false)],
    )],
    ..GPT2
};

pub(super) const MPT: Family = Family {
    classes: &["MptForCausalLM", "MPTForCausalLM"],
    arch: "mpt",
    rules: &[&[
        same("wte", "token_embd"),
        same("wpe", "position_embd"),
        same("norm_f", "output_norm"),
        same("lm_head", "output"),
        same("blocks.#.norm_1", "blk.#.attn_norm"),
        same("blocks.#.norm_2", "blk.#.ffn_norm"),
        same("blocks.#.attn.Wqkv", "blk.#.attn_qkv"),
        same("blocks.#.attn.out_proj", "blk.#.attn_output"),
        same("blocks.#.attn.q_ln", "blk.#.attn_q_norm"),
        same("blocks.#.attn.k_ln", "blk.#.attn_k_norm"),
        same("blocks.#.ffn.up_proj", "blk.#.ffn_up"),
        same("blocks.#.ffn.down_proj", "blk.#.ffn_down"),
    ]],
    pairs: &[&[
        gpt::LAYER_NORM,
        CLAMP,
        pair(
            &["alibi_bias_max"],
            "attention.max_alibi_bias",
            Kind::F32,
            Absent::Default(8.0),
        ),
    ]],
    demands: &[
        demand("alibi", &[Bool(true)]),
        demand("expansion_ratio", &[Number(4.0)]),
        demand("attn_type", &[Text("multihead_attention")]),
        demand("prefix_lm", &[Bool(false)]),
    ],
    ..GPT2
};

pub(super) const APERTUS: Family = Family {
    classes: &["ApertusForCausalLM"],
    arch: "apertus",
    rules: &[
        OUTER,
        ATTENTION,
        QK_NORMS,
        PLAIN,
        &[
            same("layers.#.attention_layernorm", "blk.#.attn_norm"),
            same("layers.#.feedforward_layernorm", "blk.#.ffn_norm"),
            whole(
                "layers.#.mlp.act_fn.alpha_p",
                "xielu.alpha_p",
                Order::Metadata,
            ),
            whole(
                "layers.#.mlp.act_fn.alpha_n",
                "xielu.alpha_n",
                Order::Metadata,
            ),
            whole("layers.#.mlp.act_fn.beta", "xielu.beta", Order::Metadata),
            whole("layers.#.mlp.act_fn.eps", "xielu.eps", Order::Metadata),
        ],
    ],
    pairs: &[&[FFN, RMS]],
    demands: &[
        demand("hidden_act", &[Text("xielu")]),
        demand("qk_norm", &[Bool(true)]),
        demand("post_norm", &[Bool(false)]),
    ],
    window: Window::Never,
    ..LLAMA
};

pub(super) const BITNET: Family = Family {
    classes: &["BitNetForCausalLM", "BitnetForCausalLM"],
    arch: "bitnet",
    rules: &[
        OUTER,
        PRE_NORMS,
        ATTENTION,
        GATED,
        &[
            same("layers.#.self_attn.attn_sub_norm", "blk.#.attn_sub_norm"),
            same("layers.#.mlp.ffn_sub_norm", "blk.#.ffn_sub_norm"),
        ],
    ],
    pairs: &[&[FFN, RMS]],
    // Weights that are packed, or that layers round before they use them.
    demands: &[SILU, demand("quantization_config", &[])],
    window: Window::Never,
    ..LLAMA
};

pub(super) const GRANITE_SWA: Family = Family {
    classes: &["GraniteSWAForCausalLM"],
    arch: "granite_swa",
    rules: &[
        OUTER,
        PRE_NORMS,
        PAIRED_ATTENTION,
        GATED,
        &[exact("layers.#.self_attn.sinks", "blk.#.attn_sinks.weight")],
    ],
    rotary: Rotary::ByLayer,
    window: Window::Layers,
    ..GRANITE
};

/// The text model: what belongs to its eyes is left out.
pub(super) const QWEN2_VL: Family = Family {
    classes: &[
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
    ],
    arch: "qwen2vl",
    ..QWEN2
};

/// The text model with experts, which checkpoints have as (in, out), and `transformers` saves as (out, in).
pub(super) const QWEN3_VL_MOE: Family = Family {
    classes: &["Qwen3VLMoeForConditionalGeneration"],
    arch: "qwen3vlmoe",
    rules: &[
        QWEN3_MOE.rules[0],
        QWEN3_MOE.rules[1],
        QWEN3_MOE.rules[2],
        QWEN3_MOE.rules[3],
        &[
            same("layers.#.mlp.gate", "blk.#.ffn_gate_inp"),
            whole(
                "layers.#.mlp.experts.gate_up_proj",
                "blk.#.ffn_gate_exps.weight",
                Order::FromWidth(Share::FirstHalf),
            ),
            whole(
                "layers.#.mlp.experts.gate_up_proj",
                "blk.#.ffn_up_exps.weight",
                Order::FromWidth(Share::SecondHalf),
            ),
            whole(
                "layers.#.mlp.experts.down_proj",
                "blk.#.ffn_down_exps.weight",
                Order::ToWidth,
            ),
        ],
    ],
    ..QWEN3_MOE
};

/// The text model.
pub(super) const QWEN3_VL: Family = Family {
    classes: &["Qwen3VLForConditionalGeneration"],
    arch: "qwen3vl",
    ..QWEN3
};
