//! Embeddings of texts, and documents ranked against a query.

use crate::event::Timings;
use crate::fault::{Fault, FaultKind};
use crate::model_profile::ModelProfile;
use crate::request::{KeepAlive, PromptPart};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_engine::{Request, Task};
use strata_tokenizer::EncodeOptions;

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

impl Embed {
    /// The engine's requests, one for each text. The server adds the client.
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

    /// A text's vector as it was asked for: so many of its numbers, and of length 1.
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
    /// The engine's requests, one for each document. The server adds the client.
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
