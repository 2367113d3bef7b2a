//! Embeddings, and documents ranked against a query.

use crate::event::Timings;
use crate::fault::{Fault, FaultKind};
use crate::model_profile::ModelProfile;
use crate::request::{KeepAlive, PromptPart};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_engine::{Request, Task};
use strata_tokenizer::EncodeOptions;

/// A request to embed texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    /// The model's name.
    pub model: String,
    /// The texts.
    pub inputs: Vec<Vec<PromptPart>>,
    /// Truncate embeddings to this many dimensions.
    pub dimensions: Option<usize>,
    /// How token states are pooled; the model's own way if `None`.
    pub pooling: Option<Pooling>,
    /// Normalize embeddings to length 1.
    pub normalize: bool,
    /// Truncate texts that are too long instead of refusing them.
    pub truncate: bool,
    /// How long to keep the model loaded afterwards.
    pub keep_alive: Option<KeepAlive>,
    /// The context length in tokens.
    pub context: Option<usize>,
}

/// How the states of a text's tokens become one embedding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all.
    Mean,
    /// The first token's state.
    Cls,
    /// The last token's state.
    Last,
    /// No pooling: one embedding per token.
    None,
}

/// A request to rank documents by their relevance to a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Rerank {
    /// The model's name.
    pub model: String,
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<String>,
    /// Return this many of the best.
    pub top_n: Option<usize>,
    /// Return the documents too.
    pub return_documents: bool,
}

/// Embeddings of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embeddings {
    /// The rows of each text: one, or one per token without pooling.
    pub rows: Vec<Vec<Vec<f32>>>,
    /// Tokens in all texts.
    pub tokens: usize,
    /// Time taken.
    pub timings: Timings,
}

/// Relevance of documents to a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    /// A score for each document, in the order given.
    pub scores: Vec<f32>,
    /// Tokens in all pairs.
    pub tokens: usize,
}

impl Embed {
    /// Prepares one engine request per text. The caller sets the client.
    pub fn prepare(&self, profile: &ModelProfile) -> Result<Vec<Request>, Fault> {
        let pooling = match self.pooling {
            None => profile.pooling,
            Some(Pooling::Mean) => strata_engine::Pooling::Mean,
            Some(Pooling::Cls) => strata_engine::Pooling::Cls,
            Some(Pooling::Last) => strata_engine::Pooling::Last,
            Some(Pooling::None) => {
                return Err(Fault::new(
                    FaultKind::Unsupported,
                    "embeddings of single tokens are not given: choose a pooling",
                ));
            }
        };
        let numbered = self.inputs.iter().enumerate();
        let requests = numbered.map(|(i, input)| {
            let mut prompt = encode(profile, input);
            if prompt.is_empty() {
                return Err(Fault::bad_request(format_args!("input[{i}] is empty")));
            }
            if self.truncate {
                prompt.truncate(profile.context);
            }
            Ok(Request {
                prompt,
                task: Task::Embed(pooling),
                ..Request::default()
            })
        });
        requests.collect()
    }

    /// Truncates and normalizes a text's embedding as requested.
    pub fn finish(&self, mut vector: Vec<f32>) -> Result<Vec<f32>, Fault> {
        if let Some(keep) = self.dimensions {
            if keep > vector.len() {
                let problem = format!("dimensions: the model's embeddings have {}", vector.len());
                return Err(Fault::bad_request(problem));
            }
            vector.truncate(keep);
        }
        if self.normalize {
            normalize(&mut vector);
        }
        Ok(vector)
    }
}

impl Rerank {
    /// Prepares one engine request per document. The caller sets the client.
    pub fn prepare(&self, profile: &ModelProfile) -> Vec<Request> {
        let pair = |document: &String| {
            let pair = profile.tokenizer.encode_pair(&self.query, document);
            Request {
                prompt: pair.tokens,
                task: Task::Score {
                    second: pair.second,
                },
                ..Request::default()
            }
        };
        self.documents.iter().map(pair).collect()
    }
}

fn encode(profile: &ModelProfile, input: &[PromptPart]) -> Vec<u32> {
    let options = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    let mut tokens = Vec::new();
    for part in input {
        match part {
            PromptPart::Text(text) => tokens.extend(profile.tokenizer.encode(text, options)),
            PromptPart::Tokens(given) => tokens.extend(given),
        }
    }
    tokens
}

fn normalize(values: &mut [f32]) {
    let squares = values.iter().map(|x| f64::from(*x) * f64::from(*x));
    let length = libm::sqrt(squares.sum::<f64>());
    if length > 0.0 {
        for x in values {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}
