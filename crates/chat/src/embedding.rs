//! Embeddings of texts, and documents ranked against a query.

use crate::event::Timings;
use crate::request::{KeepAlive, PromptPart};
use alloc::string::String;
use alloc::vec::Vec;

/// Texts to embed.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    /// The model's name.
    pub model: String,
    /// The texts.
    pub inputs: Vec<Vec<PromptPart>>,
    /// Numbers of each embedding that are kept, then normalised again.
    pub dimensions: Option<usize>,
    /// How the tokens' states become one; the model's own way if not given.
    pub pooling: Option<Pooling>,
    /// Whether the result has length 1.
    pub normalize: bool,
    /// Shorten a text that is too long instead of refusing it.
    pub truncate: bool,
    /// How long the model stays loaded afterwards.
    pub keep_alive: Option<KeepAlive>,
    /// Positions of the context.
    pub context: Option<usize>,
}

/// How the states of a text's tokens become one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first.
    Cls,
    /// The last.
    Last,
    /// They are given one by one.
    None,
}

/// Documents to sort by how well they answer a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Rerank {
    /// The model's name.
    pub model: String,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// The best so many.
    pub top_n: Option<usize>,
    /// The answer repeats the documents.
    pub return_documents: bool,
}

/// Embeddings of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// For each text its rows: one, or one for each token where nothing is pooled.
    pub rows: Vec<Vec<Vec<f32>>>,
    /// Tokens of all texts.
    pub tokens: usize,
    /// How long it took.
    pub timings: Timings,
}

/// How well documents answer a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// A score for each document, in their order.
    pub scores: Vec<f32>,
    /// Tokens of all pairs.
    pub tokens: usize,
}
