//! GPT-2, GPT-NeoX and Falcon: fused projections under older names.

use super::Literal::{Bool, Text};
use super::{
    Absent, Extras, Family, FfnWidth, HeadSize, Kind, KvHeads, Latent, Order, Pair, Reading,
    Rotary, Rule, States, When, Window, demand, ordered, pair, same,
};

pub(super) const LAYER_NORM: Pair = pair(
    &["layer_norm_epsilon", "layer_norm_eps"],
    "attention.layer_norm_epsilon",
    Kind::F32,
    Absent::Default(1e-5),
);
/// Left out, it is four times the width; the metadata's writer knows.
const FFN: Pair = pair(
    &["n_inner", "intermediate_size", "ffn_hidden_size"],
    "feed_forward_length",
    Kind::U32,
    Absent::Skip,
);

pub(super) const GPT2: Family = Family {
    classes: &["GPT2LMHeadModel"],
    when: When::Always,
    arch: "gpt2",
    rules: &[&[
        same("wte", "token_embd"),
        same("wpe", "position_embd"),
        same("ln_f", "output_norm"),
        same("lm_head", "output"),
        same("h.#.ln_1", "blk.#.attn_norm"),
        same("h.#.ln_2", "blk.#.ffn_norm"),
        ordered("h.#.attn.c_attn", "blk.#.attn_qkv", Order::Transposed),
        ordered("h.#.attn.c_proj", "blk.#.attn_output", Order::Transposed),
        ordered("h.#.mlp.c_fc", "blk.#.ffn_up", Order::Transposed),
        ordered("h.#.mlp.c_proj", "blk.#.ffn_down", Order::Transposed),
    ]],
    pairs: &[&[LAYER_NORM, FFN]],
    demands: &[
        demand(
            "activation_function",
            &[Text("gelu_new"), Text("gelu_pytorch_tanh")],
        ),
        demand("scale_attn_weights", &[Bool(true)]),
        demand("scale_attn_by_inverse_layer_idx", &[Bool(false)]),
        demand("add_cross_attention", &[Bool(false)]),
    ],
    kv_heads: KvHeads::AsQueries,
    ffn: FfnWidth::Stated,
    head_size: HeadSize::WhereOdd,
    states: States::Never,
    latent: Latent::Never,
    extras: Extras::Never,
    rotary: Rotary::None,
    window: Window::Never,
    reading: Reading::Forward,
    texts: &[],
};

pub(super) const GPT_NEOX: Family = Family {
    classes: &["GPTNeoXForCausalLM"],
    arch: "gptneox",
    rules: &[&[
        same("embed_in", "token_embd"),
        same("final_layer_norm", "output_norm"),
        same("embed_out", "output"),
        same("layers.#.input_layernorm", "blk.#.attn_norm"),
        same("layers.#.post_attention_layernorm", "blk.#.ffn_norm"),
        ordered(
            "layers.#.attention.query_key_value",
            "blk.#.attn_qkv",
            Order::HeadsOfQkv,
        ),
        same("layers.#.attention.dense", "blk.#.attn_output"),
        same("layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"),
        same("layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"),
    ]],
    pairs: &[
        &[LAYER_NORM, FFN],
        &[pair(
            &["use_parallel_residual"],
            "use_parallel_residual",
            Kind::Bool,
            Absent::Default(1.0),
        )],
    ],
    demands: &[
        demand("hidden_act", &[Text("gelu")]),
        demand("attention_bias", &[Bool(true)]),
    ],
    rotary: Rotary::Share(0.25),
    ..GPT2
};

const FALCON_RULES: &[Rule] = &[
    same("word_embeddings", "token_embd"),
    same("ln_f", "output_norm"),
    same("lm_head", "output"),
    same("h.#.input_layernorm", "blk.#.attn_norm"),
    // The 40B has two norms; GGUF calls attention's the second.
    same("h.#.ln_mlp", "blk.#.attn_norm"),
    same("h.#.ln_attn", "blk.#.attn_norm_2"),
    ordered(
        "h.#.self_attention.query_key_value",
        "blk.#.attn_qkv",
        Order::GroupsOfQkv,
    ),
    same("h.#.self_attention.dense", "blk.#.attn_output"),
    same("h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"),
    same("h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"),
];

pub(super) const FALCON: Family = Family {
    classes: &["FalconForCausalLM", "RWForCausalLM"],
    arch: "falcon",
    rules: &[FALCON_RULES],
    pairs: &[&[LAYER_NORM, FFN]],
    demands: &[
        demand("activation", &[Text("gelu")]),
        demand("alibi", &[Bool(false)]),
        demand("bias", &[Bool(false)]),
        demand("parallel_attn", &[Bool(true)]),
    ],
    kv_heads: KvHeads::Falcon,
    rotary: Rotary::Share(1.0),
    texts: &[("tensor_data_layout", "jploski")],
    ..GPT2
};
