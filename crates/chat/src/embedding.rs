//! Embeddings, and documents ranked against a query.

use crate::budgets::check_inputs;
use crate::event::Timings;
use crate::fault::{Fault, FaultKind};
use crate::model_profile::ModelProfile;
use crate::request::{KeepAlive, PromptPart};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;
use strata_engine::{Request, Task};
use strata_tokenizer::{EncodeOptions, Pair};

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
    /// The model's name: the request's, or the default model's if it names none.
    pub model: String,
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
    /// The model's name: the request's, or the default model's if it names none.
    pub model: String,
    /// Tokens in all pairs.
    pub tokens: usize,
}

impl Embed {
    /// Prepares one engine request per text. The caller sets the client.
    pub fn prepare(&self, profile: &ModelProfile) -> Result<Vec<Request>, Fault> {
        check_inputs(self.inputs.len())?;
        let pooling = self.pooling(profile);
        let numbered = self.inputs.iter().enumerate();
        let requests = numbered.map(|(i, input)| {
            let mut prompt = encode(profile, input, self.truncate)?;
            if prompt.is_empty() {
                return Err(Fault::bad_request(format_args!("input[{i}] is empty")));
            }
            if self.truncate {
                prompt.truncate(profile.context);
            }
            check_length("text", i, prompt.len(), profile)?;
            Ok(Request {
                prompt,
                task: Task::Embed(pooling),
                ..Request::default()
            })
        });
        requests.collect()
    }

    /// The pooling to use.
    fn pooling(&self, profile: &ModelProfile) -> strata_engine::Pooling {
        match self.pooling {
            None => profile.pooling,
            Some(Pooling::Mean) => strata_engine::Pooling::Mean,
            Some(Pooling::Cls) => strata_engine::Pooling::Cls,
            Some(Pooling::Last) => strata_engine::Pooling::Last,
            Some(Pooling::None) => strata_engine::Pooling::None,
        }
    }

    /// Splits what the engine computed for a text of `tokens` tokens into rows, truncated and normalized as requested.
    pub fn finish(
        &self,
        profile: &ModelProfile,
        tokens: usize,
        values: &[f32],
    ) -> Result<Vec<Vec<f32>>, Fault> {
        let rows = match self.pooling(profile) {
            strata_engine::Pooling::None => tokens.max(1),
            _ => 1,
        };
        let rows = values.chunks_exact((values.len() / rows).max(1));
        rows.map(|row| self.finish_row(row.to_vec())).collect()
    }

    /// Truncates and normalizes a row.
    fn finish_row(&self, mut vector: Vec<f32>) -> Result<Vec<f32>, Fault> {
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
    pub fn prepare(&self, profile: &ModelProfile) -> Result<Vec<Request>, Fault> {
        let unsupported = |what: &dyn Display| Err(Fault::new(FaultKind::Unsupported, what));
        match profile.labels {
            0 => return unsupported(&"the model has no classifier to rank with"),
            1 => {}
            // Yes and no.
            2 if profile.rank_prompt.is_some() => {}
            labels => {
                return unsupported(&format_args!(
                    "the model sorts texts into {labels} classes and ranks none"
                ));
            }
        }
        check_inputs(self.documents.len())?;
        let numbered = self.documents.iter().enumerate();
        let requests = numbered.map(|(i, document)| {
            profile.check_text(self.query.len() + document.len(), profile.context)?;
            let tokenizer = &*profile.tokenizer;
            let pair = match &profile.rank_prompt {
                Some(prompt) => Pair {
                    tokens: prompt.encode(tokenizer, &self.query, document),
                    second: 0,
                },
                None => tokenizer.encode_pair(&self.query, document),
            };
            check_length("document", i, pair.tokens.len(), profile)?;
            Ok(Request {
                prompt: pair.tokens,
                task: Task::Score {
                    second: pair.second,
                },
                ..Request::default()
            })
        });
        requests.collect()
    }
}

/// Refuses input `i`, a `what`, if it exceeds the context.
fn check_length(what: &str, i: usize, tokens: usize, profile: &ModelProfile) -> Result<(), Fault> {
    let context = profile.context;
    if tokens <= context {
        return Ok(());
    }
    let kind = FaultKind::ContextExceeded {
        prompt_tokens: tokens,
        context,
    };
    let number = i + 1;
    Err(Fault::new(
        kind,
        format_args!("{what} {number} has {tokens} tokens and the model reads {context}"),
    ))
}

fn encode(profile: &ModelProfile, input: &[PromptPart], truncate: bool) -> Result<Vec<u32>, Fault> {
    let room = profile.text_room(profile.context);
    let options = EncodeOptions {
        add_special: true,
        parse_special: false,
    };
    let mut tokens = Vec::new();
    for part in input {
        match part {
            // What is beyond it is cut off anyway.
            PromptPart::Text(text) if truncate => {
                let start = &text[..text.floor_char_boundary(room)];
                tokens.extend(profile.tokenizer.encode(start, options));
            }
            PromptPart::Text(text) => {
                profile.check_text(text.len(), profile.context)?;
                tokens.extend(profile.tokenizer.encode(text, options));
            }
            PromptPart::Tokens(given) => tokens.extend(given),
        }
    }
    Ok(tokens)
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use alloc::vec;
    use strata_tokenizer::{ModelKind, TokenKind, TokenTable, Tokenizer, Vocab};

    /// A model of three positions with one token, which is a letter.
    fn profile() -> ModelProfile {
        let mut tokens = TokenTable::with_capacity(2);
        for text in ["a", "▁"] {
            tokens.push(text, TokenKind::Normal, 0.0).unwrap();
        }
        let mut vocab = Vocab::new(ModelKind::Spm, tokens);
        vocab.space_prefix = false;
        let tokenizer = Tokenizer::from_vocab(vocab).unwrap();
        ModelProfile::new(Arc::new(tokenizer), None, 3)
    }

    fn embed(text: &str) -> Embed {
        Embed {
            model: String::new(),
            inputs: vec![vec![PromptPart::Text(text.into())]],
            dimensions: None,
            pooling: None,
            normalize: true,
            truncate: false,
            keep_alive: None,
            context: None,
        }
    }

    #[test]
    fn unpooled_texts_have_a_row_for_each_token() {
        let mut request = embed("aa");
        let values = [3.0, 4.0, 0.0, 2.0];
        let whole = request.finish(&profile(), 2, &values).unwrap();
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0].len(), 4);
        request.pooling = Some(Pooling::None);
        let rows = request.finish(&profile(), 2, &values).unwrap();
        assert_eq!(rows, [[0.6, 0.8], [0.0, 1.0]]);
    }

    #[test]
    fn texts_that_are_too_long_are_named_or_shortened() {
        let mut request = embed("aaaa");
        let refused = request.prepare(&profile()).unwrap_err();
        assert_eq!(refused.message, "text 1 has 4 tokens and the model reads 3");
        request.truncate = true;
        assert_eq!(request.prepare(&profile()).unwrap()[0].prompt.len(), 3);
    }

    #[test]
    fn only_one_score_ranks() {
        let request = Rerank {
            model: String::new(),
            query: "a".into(),
            documents: vec!["a".into()],
            top_n: None,
            return_documents: false,
        };
        let mut profile = profile();
        for (labels, ranks) in [(0, false), (1, true), (3, false)] {
            profile.labels = labels;
            assert_eq!(request.prepare(&profile).is_ok(), ranks, "{labels}");
        }
    }
}
