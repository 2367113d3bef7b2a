//! BERT, RoBERTa, XLM-RoBERTa, Nomic BERT and Jina BERT: texts read as a whole, for embeddings or a score.

use super::Literal::{Bool, Number, Text};
use super::{
    Absent, Extras, Family, FfnWidth, HeadSize, Kind, KvHeads, Latent, Order, Reading, Rotary,
    Rule, Share, States, When, Window, demand, ordered, pair, same,
};

const BODY: &[Rule] = &[
    same("embeddings.word_embeddings", "token_embd"),
    same("embeddings.token_type_embeddings", "token_types"),
    ordered(
        "embeddings.position_embeddings",
        "position_embd",
        Order::Positions,
    ),
    same("embeddings.LayerNorm", "token_embd_norm"),
    same("encoder.layer.#.attention.self.query", "blk.#.attn_q"),
    same("encoder.layer.#.attention.self.key", "blk.#.attn_k"),
    same("encoder.layer.#.attention.self.value", "blk.#.attn_v"),
    same(
        "encoder.layer.#.attention.output.dense",
        "blk.#.attn_output",
    ),
    same(
        "encoder.layer.#.attention.output.LayerNorm",
        "blk.#.attn_output_norm",
    ),
    same("encoder.layer.#.intermediate.dense", "blk.#.ffn_up"),
    same("encoder.layer.#.output.dense", "blk.#.ffn_down"),
    same(
        "encoder.layer.#.output.LayerNorm",
        "blk.#.layer_output_norm",
    ),
];

/// GGUF's numbers of poolings.
const MEAN: u32 = 1;
const RANK: u32 = 4;

pub(super) const BERT: Family = Family {
    classes: &["BertModel", "BertForMaskedLM"],
    when: When::Always,
    arch: "bert",
    rules: &[BODY],
    pairs: &[&[
        pair(
            &["intermediate_size"],
            "feed_forward_length",
            Kind::U32,
            Absent::Error,
        ),
        pair(
            &["layer_norm_eps"],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-12),
        ),
    ]],
    demands: &[
        demand("hidden_act", &[Text("gelu")]),
        demand("position_embedding_type", &[Text("absolute")]),
    ],
    kv_heads: KvHeads::AsQueries,
    ffn: FfnWidth::Stated,
    head_size: HeadSize::WhereOdd,
    states: States::Never,
    latent: Latent::Never,
    extras: Extras::Never,
    rotary: Rotary::None,
    window: Window::Never,
    reading: Reading::Whole {
        padding: 0,
        pooling: MEAN,
    },
    texts: &[],
};

pub(super) const BERT_RANK: Family = Family {
    classes: &["BertForSequenceClassification"],
    rules: &[
        BODY,
        &[
            same("pooler.dense", "cls"),
            same("classifier", "cls.output"),
        ],
    ],
    reading: Reading::Whole {
        padding: 0,
        pooling: RANK,
    },
    ..BERT
};

pub(super) const ROBERTA: Family = Family {
    classes: &[
        "RobertaModel",
        "XLMRobertaModel",
        "RobertaForMaskedLM",
        "XLMRobertaForMaskedLM",
    ],
    reading: Reading::Whole {
        padding: 2,
        pooling: MEAN,
    },
    ..BERT
};

pub(super) const ROBERTA_RANK: Family = Family {
    classes: &[
        "RobertaForSequenceClassification",
        "XLMRobertaForSequenceClassification",
    ],
    rules: &[
        BODY,
        &[
            same("classifier.dense", "cls"),
            same("classifier.out_proj", "cls.output"),
        ],
    ],
    reading: Reading::Whole {
        padding: 2,
        pooling: RANK,
    },
    ..BERT
};

pub(super) const NOMIC_BERT: Family = Family {
    classes: &["NomicBertModel", "NomicBertForPreTraining"],
    arch: "nomic-bert",
    rules: &[&[
        same("embeddings.word_embeddings", "token_embd"),
        same("embeddings.token_type_embeddings", "token_types"),
        same("emb_ln", "token_embd_norm"),
        same("encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv"),
        same("encoder.layers.#.attn.out_proj", "blk.#.attn_output"),
        same("encoder.layers.#.norm1", "blk.#.attn_output_norm"),
        same("encoder.layers.#.mlp.fc11", "blk.#.ffn_up"),
        same("encoder.layers.#.mlp.fc12", "blk.#.ffn_gate"),
        same("encoder.layers.#.mlp.fc2", "blk.#.ffn_down"),
        same("encoder.layers.#.norm2", "blk.#.layer_output_norm"),
    ]],
    pairs: &[&[
        pair(
            &["intermediate_size", "n_inner"],
            "feed_forward_length",
            Kind::U32,
            Absent::Skip,
        ),
        pair(
            &["layer_norm_eps", "layer_norm_epsilon"],
            "attention.layer_norm_epsilon",
            Kind::F32,
            Absent::Default(1e-12),
        ),
    ]],
    demands: &[
        demand("hidden_act", &[Text("silu")]),
        demand("activation_function", &[Text("swiglu")]),
        demand("prenorm", &[Bool(false)]),
        demand("causal", &[Bool(false)]),
        demand("parallel_block", &[Bool(false)]),
        demand("use_rms_norm", &[Bool(false)]),
        demand("rotary_emb_interleaved", &[Bool(false)]),
        demand("rotary_emb_fraction", &[Number(1.0)]),
        demand("rotary_scaling_factor", &[]),
        demand("moe_every_n_layers", &[Number(0.0)]),
    ],
    rotary: Rotary::Share(1.0),
    ..BERT
};

pub(super) const JINA_BERT_V2: Family = Family {
    classes: &["JinaBertModel", "JinaBertForMaskedLM"],
    arch: "jina-bert-v2",
    rules: &[
        BODY,
        &[
            ordered(
                "encoder.layer.#.mlp.gated_layers",
                "blk.#.ffn_gate",
                Order::Rows(Share::FirstHalf),
            ),
            ordered(
                "encoder.layer.#.mlp.gated_layers",
                "blk.#.ffn_up",
                Order::Rows(Share::SecondHalf),
            ),
            same("encoder.layer.#.mlp.wo", "blk.#.ffn_down"),
            same("encoder.layer.#.mlp.layernorm", "blk.#.layer_output_norm"),
            // The model for code has other names, and the halves the other way round.
            ordered(
                "encoder.layer.#.mlp.up_gated_layer",
                "blk.#.ffn_up",
                Order::Rows(Share::FirstHalf),
            ),
            ordered(
                "encoder.layer.#.mlp.up_gated_layer",
                "blk.#.ffn_gate",
                Order::Rows(Share::SecondHalf),
            ),
            same("encoder.layer.#.mlp.down_layer", "blk.#.ffn_down"),
            same(
                "encoder.layer.#.attention.self.layer_norm_q",
                "blk.#.attn_q_norm",
            ),
            same(
                "encoder.layer.#.attention.self.layer_norm_k",
                "blk.#.attn_k_norm",
            ),
            same("encoder.layer.#.layer_norm_1", "blk.#.attn_norm_2"),
            same("encoder.layer.#.layer_norm_2", "blk.#.layer_output_norm"),
        ],
    ],
    demands: &[
        demand("hidden_act", &[Text("gelu")]),
        demand("position_embedding_type", &[Text("alibi")]),
        demand("feed_forward_type", &[Text("geglu")]),
    ],
    ..BERT
};
