//! T5, mT5 and UMT5: a source is read as a whole, and an answer written.

use super::Literal::Text;
use super::gpt::GPT2;
use super::{
    Absent, Demand, Family, FfnWidth, HeadSize, Kind, Order, Pair, Reading, Rule, demand, ordered,
    pair, same,
};

const ENCODER: &[Rule] = &[
    same("shared", "token_embd"),
    ordered("encoder.embed_tokens", "token_embd", Order::Copy),
    same("encoder.final_layer_norm", "enc.output_norm"),
    same("encoder.block.#.layer.0.layer_norm", "enc.blk.#.attn_norm"),
    same(
        "encoder.block.#.layer.0.SelfAttention.q",
        "enc.blk.#.attn_q",
    ),
    same(
        "encoder.block.#.layer.0.SelfAttention.k",
        "enc.blk.#.attn_k",
    ),
    same(
        "encoder.block.#.layer.0.SelfAttention.v",
        "enc.blk.#.attn_v",
    ),
    same(
        "encoder.block.#.layer.0.SelfAttention.o",
        "enc.blk.#.attn_o",
    ),
    same(
        "encoder.block.#.layer.0.SelfAttention.relative_attention_bias",
        "enc.blk.#.attn_rel_b",
    ),
    same("encoder.block.#.layer.1.layer_norm", "enc.blk.#.ffn_norm"),
    same(
        "encoder.block.#.layer.1.DenseReluDense.wi",
        "enc.blk.#.ffn_up",
    ),
    same(
        "encoder.block.#.layer.1.DenseReluDense.wi_0",
        "enc.blk.#.ffn_gate",
    ),
    same(
        "encoder.block.#.layer.1.DenseReluDense.wi_1",
        "enc.blk.#.ffn_up",
    ),
    same(
        "encoder.block.#.layer.1.DenseReluDense.wo",
        "enc.blk.#.ffn_down",
    ),
];

const DECODER: &[Rule] = &[
    ordered("decoder.embed_tokens", "token_embd", Order::Copy),
    same("decoder.final_layer_norm", "dec.output_norm"),
    same("lm_head", "output"),
    same("decoder.block.#.layer.0.layer_norm", "dec.blk.#.attn_norm"),
    same(
        "decoder.block.#.layer.0.SelfAttention.q",
        "dec.blk.#.attn_q",
    ),
    same(
        "decoder.block.#.layer.0.SelfAttention.k",
        "dec.blk.#.attn_k",
    ),
    same(
        "decoder.block.#.layer.0.SelfAttention.v",
        "dec.blk.#.attn_v",
    ),
    same(
        "decoder.block.#.layer.0.SelfAttention.o",
        "dec.blk.#.attn_o",
    ),
    same(
        "decoder.block.#.layer.0.SelfAttention.relative_attention_bias",
        "dec.blk.#.attn_rel_b",
    ),
    same(
        "decoder.block.#.layer.1.layer_norm",
        "dec.blk.#.cross_attn_norm",
    ),
    same(
        "decoder.block.#.layer.1.EncDecAttention.q",
        "dec.blk.#.cross_attn_q",
    ),
    same(
        "decoder.block.#.layer.1.EncDecAttention.k",
        "dec.blk.#.cross_attn_k",
    ),
    same(
        "decoder.block.#.layer.1.EncDecAttention.v",
        "dec.blk.#.cross_attn_v",
    ),
    same(
        "decoder.block.#.layer.1.EncDecAttention.o",
        "dec.blk.#.cross_attn_o",
    ),
    same(
        "decoder.block.#.layer.1.EncDecAttention.relative_attention_bias",
        "dec.blk.#.cross_attn_rel_b",
    ),
    same("decoder.block.#.layer.2.layer_norm", "dec.blk.#.ffn_norm"),
    same(
        "decoder.block.#.layer.2.DenseReluDense.wi",
        "dec.blk.#.ffn_up",
    ),
    same(
        "decoder.block.#.layer.2.DenseReluDense.wi_0",
        "dec.blk.#.ffn_gate",
    ),
    same(
        "decoder.block.#.layer.2.DenseReluDense.wi_1",
        "dec.blk.#.ffn_up",
    ),
    same(
        "decoder.block.#.layer.2.DenseReluDense.wo",
        "dec.blk.#.ffn_down",
    ),
];

const SIZES: &[Pair] = &[
    pair(
        &["n_positions"],
        "context_length",
        Kind::U32,
        Absent::Default(512.0),
    ),
    pair(&["num_layers"], "block_count", Kind::U32, Absent::Error),
    pair(
        &["num_heads"],
        "attention.head_count",
        Kind::U32,
        Absent::Error,
    ),
    pair(&["d_ff"], "feed_forward_length", Kind::U32, Absent::Error),
    pair(
        &["layer_norm_epsilon"],
        "attention.layer_norm_rms_epsilon",
        Kind::F32,
        Absent::Default(1e-6),
    ),
    pair(
        &["relative_attention_num_buckets"],
        "attention.relative_buckets_count",
        Kind::U32,
        Absent::Default(32.0),
    ),
    pair(
        &["relative_attention_max_distance"],
        "attention.relative_max_distance",
        Kind::U32,
        Absent::Skip,
    ),
];

const DECODER_SIZES: &[Pair] = &[
    pair(
        &["num_decoder_layers"],
        "decoder_block_count",
        Kind::U32,
        Absent::Skip,
    ),
    pair(
        &["decoder_start_token_id", "pad_token_id"],
        "decoder_start_token_id",
        Kind::U32,
        Absent::Default(0.0),
    ),
];

const ACTIVATIONS: Demand = demand("feed_forward_proj", &[Text("relu"), Text("gated-gelu")]);

pub(super) const T5: Family = Family {
    classes: &[
        "T5ForConditionalGeneration",
        "T5WithLMHeadModel",
        "MT5ForConditionalGeneration",
        "UMT5ForConditionalGeneration",
    ],
    arch: "t5",
    rules: &[ENCODER, DECODER],
    pairs: &[SIZES, DECODER_SIZES],
    demands: &[ACTIVATIONS],
    ffn: FfnWidth::Paired,
    head_size: HeadSize::Always,
    reading: Reading::Source,
    ..GPT2
};

/// GGUF's number of the mean.
const MEAN: u32 = 1;

pub(super) const T5ENCODER: Family = Family {
    classes: &["T5EncoderModel", "MT5EncoderModel", "UMT5EncoderModel"],
    arch: "t5encoder",
    rules: &[ENCODER],
    pairs: &[SIZES],
    reading: Reading::Whole {
        padding: 0,
        pooling: MEAN,
    },
    ..T5
};
