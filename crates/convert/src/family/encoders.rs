//! Encoders whose norms come before their branches, and Jina's third.

use super::Literal::{Bool, Text};
use super::bert::BERT;
use super::llama::{ATTENTION, FFN, GATED, GEMMA3, LLAMA, OUTER, PRE_NORMS, RMS, SILU};
use super::{
    Absent, Family, FfnWidth, Kind, KvHeads, Pair, Reading, Rotary, Rule, Window, demand, pair,
    same,
};

/// GGUF's number of the mean.
const MEAN: Reading = Reading::Whole {
    padding: 0,
    pooling: 1,
};

pub(super) const EUROBERT: Family = Family {
    classes: &["EuroBertModel", "EuroBertForMaskedLM"],
    arch: "eurobert",
    rules: &[OUTER, PRE_NORMS, ATTENTION, GATED],
    pairs: &[&[FFN, RMS]],
    demands: &[SILU],
    window: Window::Never,
    reading: MEAN,
    ..LLAMA
};

pub(super) const MODERN_BERT: Family = Family {
    classes: &["ModernBertModel", "ModernBertForMaskedLM"],
    arch: "modern-bert",
    rules: &[&[
        same("embeddings.tok_embeddings", "token_embd"),
        same("embeddings.norm", "token_embd_norm"),
        same("layers.#.attn_norm", "blk.#.attn_norm"),
        same("layers.#.attn.Wqkv", "blk.#.attn_qkv"),
        same("layers.#.attn.Wo", "blk.#.attn_output"),
        same("layers.#.mlp_norm", "blk.#.ffn_norm"),
        same("layers.#.mlp.Wi", "blk.#.ffn_up"),
        same("layers.#.mlp.Wo", "blk.#.ffn_down"),
        same("final_norm", "output_norm"),
    ]],
    pairs: &[&[
        FFN,
        pair(
            &["norm_eps"],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-5),
        ),
        pair(
            &["local_attention"],
            "attention.sliding_window",
            Kind::U32,
            Absent::Default(128.0),
        ),
        pair(
            &["global_attn_every_n_layers"],
            "attention.sliding_window_pattern",
            Kind::U32,
            Absent::Default(3.0),
        ),
    ]],
    demands: &[
        demand("hidden_activation", &[Text("gelu")]),
        demand("norm_bias", &[Bool(false)]),
    ],
    kv_heads: KvHeads::AsQueries,
    rotary: Rotary::Share(1.0),
    ..EUROBERT
};

const DENSE: &[Rule] = &[
    same("2_Dense.linear", "dense_2"),
    same("3_Dense.linear", "dense_3"),
];
const DENSE_SIZES: &[Pair] = &[
    pair(
        &["dense_2_feat_in"],
        "dense_2_feat_in",
        Kind::U32,
        Absent::Skip,
    ),
    pair(
        &["dense_2_feat_out"],
        "dense_2_feat_out",
        Kind::U32,
        Absent::Skip,
    ),
    pair(
        &["dense_3_feat_in"],
        "dense_3_feat_in",
        Kind::U32,
        Absent::Skip,
    ),
    pair(
        &["dense_3_feat_out"],
        "dense_3_feat_out",
        Kind::U32,
        Absent::Skip,
    ),
];

pub(super) const GEMMA_EMBEDDING: Family = Family {
    classes: &["Gemma3TextModel"],
    arch: "gemma-embedding",
    rules: &[
        GEMMA3.rules[0],
        GEMMA3.rules[1],
        GEMMA3.rules[2],
        GEMMA3.rules[3],
        GEMMA3.rules[4],
        DENSE,
    ],
    pairs: &[&[FFN, RMS], DENSE_SIZES],
    demands: &[
        demand("hidden_activation", &[Text("gelu_pytorch_tanh")]),
        demand("use_bidirectional_attention", &[Bool(true)]),
    ],
    window: Window::Layers,
    reading: MEAN,
    ..GEMMA3
};

/// Without the adapters that it is published with.
pub(super) const JINA_BERT_V3: Family = Family {
    classes: &["JinaEmbeddingsV3Model", "JinaEmbeddingsV3ForMaskedLM"],
    arch: "jina-bert-v3",
    rules: &[&[
        same("embeddings.word_embeddings", "token_embd"),
        same("embeddings.token_type_embeddings", "token_types"),
        same("emb_ln", "token_embd_norm"),
        same("encoder.layers.#.mixer.Wqkv", "blk.#.attn_qkv"),
        same("encoder.layers.#.mixer.out_proj", "blk.#.attn_output"),
        same("encoder.layers.#.norm1", "blk.#.attn_output_norm"),
        same("encoder.layers.#.mlp.fc1", "blk.#.ffn_up"),
        same("encoder.layers.#.mlp.fc2", "blk.#.ffn_down"),
        same("encoder.layers.#.norm2", "blk.#.layer_output_norm"),
    ]],
    ffn: FfnWidth::Stated,
    rotary: Rotary::Share(1.0),
    ..BERT
};
