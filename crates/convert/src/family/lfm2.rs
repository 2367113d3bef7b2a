//! LFM2: short convolutions in most layers, attention in the others.

use super::Literal::{Bool, Text};
use super::llama::LLAMA;
use super::{
    Absent, Family, FfnWidth, Kind, KvHeads, Order, Pair, Rule, Window, demand, ordered, pair, same,
};

pub(super) const RULES: &[Rule] = &[
    same("embed_tokens", "token_embd"),
    // The last norm, which GGUF calls so.
    same("embedding_norm", "token_embd_norm"),
    same("lm_head", "output"),
    same("layers.#.operator_norm", "blk.#.attn_norm"),
    same("layers.#.ffn_norm", "blk.#.ffn_norm"),
    same("layers.#.conv.in_proj", "blk.#.shortconv.in_proj"),
    ordered(
        "layers.#.conv.conv",
        "blk.#.shortconv.conv",
        Order::Squeezed,
    ),
    same("layers.#.conv.out_proj", "blk.#.shortconv.out_proj"),
    same("layers.#.self_attn.q_proj", "blk.#.attn_q"),
    same("layers.#.self_attn.k_proj", "blk.#.attn_k"),
    same("layers.#.self_attn.v_proj", "blk.#.attn_v"),
    same("layers.#.self_attn.out_proj", "blk.#.attn_output"),
    same("layers.#.self_attn.q_layernorm", "blk.#.attn_q_norm"),
    same("layers.#.self_attn.k_layernorm", "blk.#.attn_k_norm"),
    same("layers.#.feed_forward.w1", "blk.#.ffn_gate"),
    same("layers.#.feed_forward.w3", "blk.#.ffn_up"),
    same("layers.#.feed_forward.w2", "blk.#.ffn_down"),
];

pub(super) const PAIRS: &[Pair] = &[
    pair(
        &["norm_eps", "block_norm_eps"],
        "attention.layer_norm_rms_epsilon",
        Kind::F32,
        Absent::Default(1e-5),
    ),
    pair(
        &["conv_L_cache"],
        "shortconv.l_cache",
        Kind::U32,
        Absent::Default(3.0),
    ),
];

pub(super) const LFM2: Family = Family {
    classes: &["Lfm2ForCausalLM", "LFM2ForCausalLM"],
    arch: "lfm2",
    rules: &[RULES],
    pairs: &[PAIRS],
    demands: &[
        demand("conv_bias", &[Bool(false)]),
        demand("hidden_act", &[Text("silu")]),
    ],
    kv_heads: KvHeads::AttentionLayers,
    ffn: FfnWidth::Adjusted,
    window: Window::Never,
    ..LLAMA
};
