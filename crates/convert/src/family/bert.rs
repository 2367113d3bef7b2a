//! BERT, RoBERTa and XLM-RoBERTa: texts read as a whole, for embeddings or a score.

use super::Literal::Text;
use super::{
    Absent, Family, HeadSize, Kind, KvHeads, Order, Reading, Rotary, Rule, Window, demand, ordered,
    pair, same,
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
    head_size: HeadSize::WhereOdd,
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
