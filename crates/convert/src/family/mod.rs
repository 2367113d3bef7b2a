//! The families that can be converted, as data: what their classes are called, which tensors they have, and which of
//! their config's numbers GGUF wants under which key.

mod bert;
mod dense;
mod gpt;
mod lfm2;
mod llama;
mod mixtures;

/// Whose heads a tensor's rows belong to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Heads {
    /// Queries'.
    Query,
    /// Keys' and values'.
    KeyValue,
}

/// How rows get from a checkpoint's tensor into GGUF's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// As they are.
    Same,
    /// From half-split rotary order to neighbouring pairs, head by head.
    Pairs(Heads),
    /// Rows and columns exchanged.
    Transposed,
    /// From (heads, q k v, size) to (q k v, heads, size).
    HeadsOfQkv,
    /// From groups of queries, a key and a value to all queries, all keys, all values.
    GroupsOfQkv,
    /// Tensors that differ in one number, one after the other.
    Stacked,
    /// A matrix of one row as a vector.
    Flat,
    /// Without dimensions of one.
    Squeezed,
    /// The first half of the rows; another rule has the second.
    FirstHalf,
    /// The second half.
    SecondHalf,
    /// Positions, whose first rows in some families stand for padding.
    Positions,
    /// Rows from this one on.
    PositionsFrom(usize),
    /// As they are, without dimensions of one; both names are whole, without `.weight` and `.bias` to follow.
    Exact,
}

/// What is added to the elements.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Add {
    /// Nothing.
    Nothing,
    /// One to weights: the family's norms do so when they run, and GGUF stores the sum.
    One,
}

/// A tensor's two names. `#` stands for the layer and `@` for the number in a stack; `.weight` and `.bias` follow.
#[derive(Copy, Clone, Debug)]
pub struct Rule {
    /// In the checkpoint, without the model's prefix.
    pub from: &'static str,
    /// In GGUF.
    pub to: &'static str,
    /// How rows are moved.
    pub order: Order,
    /// What is added.
    pub add: Add,
}

const fn same(from: &'static str, to: &'static str) -> Rule {
    ordered(from, to, Order::Same)
}

const fn ordered(from: &'static str, to: &'static str, order: Order) -> Rule {
    Rule {
        from,
        to,
        order,
        add: Add::Nothing,
    }
}

const fn exact(from: &'static str, to: &'static str) -> Rule {
    ordered(from, to, Order::Exact)
}

const fn shifted(from: &'static str, to: &'static str) -> Rule {
    Rule {
        add: Add::One,
        ..same(from, to)
    }
}

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
}

/// The inner width of the feed-forward network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FfnWidth {
    /// As the config says; four times the model's width where it does not.
    Stated,
    /// Two thirds of what the config says, times a factor, and rounded up to a multiple, unless it says not to.
    Adjusted,
}

/// When a head's size is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HeadSize {
    /// Where the heads together are not as wide as the model.
    WhereOdd,
    /// Always.
    Always,
}

/// Rotary positions.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Rotary {
    /// None: positions are learned.
    None,
    /// Rotary; this share of a head turns where the config does not say.
    Share(f32),
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
}

/// A family of models.
#[derive(Copy, Clone, Debug)]
pub struct Family {
    /// `architectures` in `config.json`.
    pub classes: &'static [&'static str],
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
    "layers.#.attention.bias",
    "layers.#.attention.masked_bias",
    "rotary_emb.inv_freq",
    "h.#.attn.bias",
    "h.#.attn.masked_bias",
    "embeddings.position_ids",
];

/// What checkpoints put in front of the names of a model's tensors.
pub(crate) const PREFIXES: &[&str] = &[
    "language_model.",
    "model.",
    "transformer.",
    "gpt_neox.",
    "bert.",
    "roberta.",
];

/// What belongs to the eyes of a model that also sees.
pub(crate) const VISION: &[&str] = &["vision_tower.", "multi_modal_projector.", "visual."];

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
    mixtures::PHIMOE,
    mixtures::LFM2_MOE,
    bert::BERT,
    bert::BERT_RANK,
    bert::ROBERTA,
    bert::ROBERTA_RANK,
    bert::NOMIC_BERT,
    bert::JINA_BERT_V2,
];

/// The family of a class.
pub fn find(class: &str) -> Option<&'static Family> {
    ALL.iter().find(|family| family.classes.contains(&class))
}
