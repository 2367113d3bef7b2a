//! The families that can be converted, as data: what their classes are called, which tensors they have, and which of
//! their config's numbers GGUF wants under which key.

mod bert;
mod delta_net;
mod dense;
mod encoders;
mod fused_experts;
mod gemma;
mod gpt;
mod latent;
mod lfm2;
mod linear;
mod llama;
mod mixtures;
mod nextn;
mod recurrent;
mod rule;
mod t5;

pub(crate) use nextn::JOIN as NEXTN_JOIN;
pub use rule::{Change, Heads, Naming, Order, Rule, Share};
use rule::{decay, exact, ordered, same, shifted, whole};

/// A number's type in GGUF.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned integer.
    U32,
    /// A float.
    F32,
    /// A truth.
    Bool,
}

/// What to do where a config lacks a number.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Absent {
    /// Complain.
    Error,
    /// Leave the key out.
    Skip,
    /// Write this.
    Default(f64),
    /// Write how many layers are listed.
    Layers,
}

/// A number of the config and its key in GGUF, after the architecture's name.
#[derive(Copy, Clone, Debug)]
pub struct Pair {
    /// Its names in `config.json`, the first that is there counting.
    pub from: &'static [&'static str],
    /// Its key in GGUF.
    pub to: &'static str,
    /// Its type there.
    pub kind: Kind,
    /// What its absence means.
    pub absent: Absent,
}

const fn pair(from: &'static [&'static str], to: &'static str, kind: Kind, absent: Absent) -> Pair {
    Pair {
        from,
        to,
        kind,
        absent,
    }
}

/// A value that a config may have.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Literal {
    /// A truth.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(&'static str),
    /// A list with nothing in it.
    EmptyList,
}

/// Something that changes results and that GGUF has no key for, so it must have one of these values, or be absent.
#[derive(Copy, Clone, Debug)]
pub struct Demand {
    /// Its name in `config.json`.
    pub key: &'static str,
    /// What it may be.
    pub allowed: &'static [Literal],
}

const fn demand(key: &'static str, allowed: &'static [Literal]) -> Demand {
    Demand { key, allowed }
}

/// How many heads keys and values have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KvHeads {
    /// As `num_key_value_heads` says, or as many as queries.
    Stated,
    /// As many as queries, and GGUF does not say.
    AsQueries,
    /// One, or `num_kv_heads` in the new decoder architecture.
    Falcon,
    /// As `num_key_value_heads` says in layers of attention, and none in the others.
    AttentionLayers,
    /// There is no attention.
    Never,
}

/// The inner width of the feed-forward network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FfnWidth {
    /// As the config says; four times the model's width where it does not.
    Stated,
    /// Two thirds of what the config says, times a factor, and rounded up to a multiple, unless it says not to.
    Adjusted,
    /// As a pair says.
    Paired,
    /// Half of what the config says.
    Halved,
    /// As the config says in layers that are feed-forward networks, that of experts in those that have them, and 0 in the
    /// others.
    NetworkLayers,
}

/// When a head's size is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HeadSize {
    /// Where the heads together are not as wide as the model.
    WhereOdd,
    /// Always.
    Always,
}

/// What layers have instead of attention, or beside it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum States {
    /// Nothing.
    Never,
    /// A state space whose steps belong to channels.
    Mamba,
    /// One whose steps belong to heads.
    Mamba2,
    /// The gated delta rule.
    DeltaNet,
    /// The same with decays by key.
    KimiDelta,
    /// Lightning attention.
    Lightning,
    /// Linear recurrent units.
    RgLru,
}

/// Whether keys and values are made from a short vector.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Latent {
    /// They are not.
    Never,
    /// They are, and it is what is kept of a token.
    Compressed,
    /// They are, and each head's are kept.
    Expanded,
}

/// Numbers that a config has by layer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Extras {
    /// None.
    Never,
    /// Those of Gemma 3n.
    Gemma3n,
    /// Those of Gemma 4.
    Gemma4,
    /// Dense networks at the beginning, query heads and rotated dimensions.
    MixedLayers {
        /// How experts' scores become weights where the config does not say.
        gate: ExpertGate,
    },
}

/// How experts' scores become weights; GGUF's numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExpertGate {
    /// Each by itself.
    Sigmoid = 2,
    /// A softmax over those that were chosen.
    SoftmaxOfChosen = 3,
}

/// Rotary positions.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Rotary {
    /// None: positions are learned.
    None,
    /// Rotary; this share of a head turns where the config does not say.
    Share(f32),
    /// Rotary, unless `position_embedding_type` says something else.
    UnlessNope,
    /// Rotary in the layers whose `layer_rope_theta` is not 0.
    ByLayer,
}

/// When a sliding window is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// Never: the family has none.
    Never,
    /// Where the config names one.
    Stated,
    /// Where the config also says that it is used.
    Used,
    /// Where the config names one, in the layers that it names; three of four where it does not.
    Layers,
}

/// How a model reads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// From left to right.
    Forward,
    /// A text as a whole, for its embedding.
    Whole {
        /// Rows of the positions' table that stand for padding.
        padding: u32,
        /// How states become one, where nothing is said; GGUF's number.
        pooling: u32,
    },
    /// A source as a whole, and what is written after it from left to right.
    Source,
}

/// Which models of a class are meant, where it has several kinds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// All that no family before takes.
    Always,
    /// Those without experts.
    NoExperts,
    /// Those with layers of experts.
    ExpertLayers,
}

/// A family of models.
#[derive(Copy, Clone, Debug)]
pub struct Family {
    /// `architectures` in `config.json`.
    pub classes: &'static [&'static str],
    /// Which of them.
    pub when: When,
    /// `general.architecture`.
    pub arch: &'static str,
    /// Its tensors.
    pub rules: &'static [&'static [Rule]],
    /// Its numbers, beside those that every family has.
    pub pairs: &'static [&'static [Pair]],
    /// What its config must not say otherwise.
    pub demands: &'static [Demand],
    /// Key and value heads.
    pub kv_heads: KvHeads,
    /// When a head's size is written.
    pub head_size: HeadSize,
    /// The feed-forward network.
    pub ffn: FfnWidth,
    /// Recurrences.
    pub states: States,
    /// Keys and values from a short vector.
    pub latent: Latent,
    /// Numbers by layer.
    pub extras: Extras,
    /// Rotary positions.
    pub rotary: Rotary,
    /// Sliding windows.
    pub window: Window,
    /// Whether texts are read as a whole.
    pub reading: Reading,
    /// Constant text metadata.
    pub texts: &'static [(&'static str, &'static str)],
}

/// The numbers that every family has.
pub(crate) const COMMON: &[Pair] = &[
    pair(&["vocab_size"], "vocab_size", Kind::U32, Absent::Skip),
    pair(
        &[
            "max_position_embeddings",
            "n_positions",
            "n_ctx",
            "max_sequence_length",
            "max_seq_len",
            "seq_length",
        ],
        "context_length",
        Kind::U32,
        Absent::Default(2048.0),
    ),
    pair(
        &["hidden_size", "n_embd", "d_model"],
        "embedding_length",
        Kind::U32,
        Absent::Error,
    ),
    pair(
        &["num_hidden_layers", "n_layer", "n_layers"],
        "block_count",
        Kind::U32,
        Absent::Error,
    ),
    pair(
        &["num_attention_heads", "n_head", "n_heads"],
        "attention.head_count",
        Kind::U32,
        Absent::Error,
    ),
];

/// Buffers that some versions of the libraries saved along with the weights; they can be computed. `#` is a layer.
pub(crate) const BUFFERS: &[&str] = &[
    "layers.#.self_attn.rotary_emb.inv_freq",
    "layers.#.attention.rotary_emb.inv_freq",
    "layers.#.self_attn.slope_rate",
    "layers.#.self_attn.query_decay",
    "layers.#.self_attn.key_decay",
    "layers.#.self_attn.diagonal_decay",
    "layers.#.attention.bias",
    "layers.#.attention.masked_bias",
    "rotary_emb.inv_freq",
    "h.#.attn.bias",
    "h.#.attn.masked_bias",
    "embeddings.position_ids",
];

/// What decoders with a classifier have beside their own.
pub(crate) const CLASSIFIER: &[Rule] = &[same("score", "cls.output")];

/// What checkpoints put in front of the names of a model's tensors.
pub(crate) const PREFIXES: &[&str] = &[
    "language_model.",
    "llm.",
    "model.",
    "transformer.",
    "gpt_neox.",
    "bert.",
    "roberta.",
    "backbone.",
    "rwkv.",
];

/// What belongs to the eyes of a model that also sees, to the ears of one that also hears, or to what
/// also predicts tokens after the next.
pub(crate) const VISION: &[&str] = &[
    "vision_tower.",
    "vision_model.",
    "multi_modal_projector.",
    "visual.",
    "embed_vision.",
    "connector.",
    "image_newline",
    "audio_tower.",
    "vpm.",
    "resampler.",
    "mtp.",
];

/// What an encoder was trained with and does not need for embeddings.
pub(crate) const HEADS: &[&str] = &["pooler.", "cls.", "lm_head."];

/// Every family.
pub const ALL: &[Family] = &[
    llama::LLAMA,
    llama::QWEN2,
    llama::QWEN2_MOE,
    llama::QWEN3,
    llama::QWEN3_MOE,
    llama::GEMMA,
    llama::GEMMA2,
    llama::GEMMA3,
    llama::PHI3,
    llama::STARCODER2,
    llama::STABLELM,
    llama::OLMO2,
    llama::OLMO3,
    lfm2::LFM2,
    llama::GRANITE,
    llama::COMMAND_R,
    gpt::GPT2,
    gpt::GPT_NEOX,
    gpt::FALCON,
    dense::ARCEE,
    dense::SMOLLM3,
    dense::MISTRAL3,
    dense::OLMO,
    dense::ERNIE4_5,
    dense::SEED_OSS,
    dense::HUNYUAN_DENSE,
    dense::CHATGLM,
    dense::GLM4,
    dense::EXAONE4,
    dense::COHERE2,
    dense::JAIS2,
    dense::NEMOTRON,
    dense::PHI2,
    dense::GPTJ,
    dense::STARCODER,
    dense::OPT,
    dense::BLOOM,
    dense::MPT,
    mixtures::OLMOE,
    mixtures::GRANITE_MOE,
    mixtures::ERNIE4_5_MOE,
    mixtures::HUNYUAN_MOE,
    mixtures::DOTS1,
    mixtures::GLM4_MOE,
    mixtures::MINIMAX_M2,
    mixtures::EXAONE_MOE,
    mixtures::HY_V3,
    mixtures::AFMOE,
    mixtures::MELLUM,
    mixtures::COHERE2_MOE,
    mixtures::LAGUNA,
    mixtures::PHIMOE,
    mixtures::LFM2_MOE,
    dense::APERTUS,
    dense::BITNET,
    dense::GRANITE_SWA,
    dense::QWEN2_VL,
    dense::QWEN3_VL,
    dense::QWEN3_VL_MOE,
    fused_experts::GPT_OSS,
    fused_experts::LLAMA4,
    fused_experts::DBRX,
    recurrent::MAMBA,
    recurrent::FALCON_MAMBA,
    recurrent::MAMBA2,
    recurrent::JAMBA,
    recurrent::GRANITE_HYBRID_DENSE,
    recurrent::GRANITE_HYBRID,
    recurrent::FALCON_H1,
    recurrent::NEMOTRON_H_MOE,
    recurrent::NEMOTRON_H,
    delta_net::QWEN3_NEXT,
    delta_net::QWEN35,
    delta_net::QWEN35_MOE,
    latent::DEEPSEEK_V3,
    latent::DEEPSEEK_V2,
    latent::MISTRAL4,
    latent::MINICPM3,
    linear::KIMI_LINEAR,
    linear::MINIMAX_01,
    linear::RECURRENT_GEMMA,
    linear::RWKV4,
    gemma::GEMMA3N,
    gemma::GEMMA4,
    encoders::EUROBERT,
    encoders::MODERN_BERT,
    encoders::GEMMA_EMBEDDING,
    encoders::JINA_BERT_V3,
    bert::BERT,
    bert::BERT_RANK,
    bert::ROBERTA,
    bert::ROBERTA_RANK,
    bert::NOMIC_BERT,
    bert::JINA_BERT_V2,
    t5::T5,
    t5::T5ENCODER,
];

/// The families of a class: the first whose [`When`] is fulfilled is meant.
pub fn of_class(class: &str) -> impl Iterator<Item = &'static Family> {
    ALL.iter()
        .filter(move |family| family.classes.contains(&class))
}
