//! What is asked of the engine, and what it answers.

use crate::logprobs::TokenLogprob;
use crate::sampling::SamplerSettings;
use crate::speculation::Speculation;
use alloc::string::String;
use alloc::vec::Vec;
use strata_model::Sequence;

/// A prompt to continue.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The prompt's tokens; at least one.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: SamplerSettings,
    /// Tokens to generate at most; as many as there is room for if not given.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer and are not part of it.
    pub stop: Vec<String>,
    /// How many alternatives to report the log-probabilities of, beside the token itself.
    pub logprobs: Option<usize>,
    /// Go on after a token that ends a turn.
    pub ignore_end: bool,
    /// How tokens are guessed ahead; the answer does not depend on it.
    pub speculation: Speculation,
}

/// Names a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Tokens whose keys and values are in the cache. A request that begins with them need not compute them again.
#[derive(Debug, Default)]
pub struct Session {
    pub(crate) tokens: Vec<u32>,
    pub(crate) sequence: Sequence,
    /// What the draft model has computed of them.
    pub(crate) drafted: Sequence,
}

impl Session {
    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

/// Something that happened to a request.
#[derive(Debug)]
pub struct Event {
    /// The request.
    pub request: RequestId,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug)]
pub enum EventKind {
    /// A token was generated.
    Token {
        /// The token.
        token: u32,
        /// Text that can be shown now: whole characters, nothing that might be part of a stop text. Perhaps empty.
        text: String,
        /// Its log-probabilities, if asked for.
        logprobs: Option<TokenLogprobs>,
    },
    /// The answer is complete.
    Finished {
        /// What was held back of the text.
        text: String,
        /// Why it ended.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
        /// The cache, for a request that goes on from here.
        session: Session,
    },
}

/// A token's log-probability and its likeliest alternatives.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The token that was chosen.
    pub chosen: TokenLogprob,
    /// The likeliest tokens, the likeliest first.
    pub top: Vec<TokenLogprob>,
}

/// Why an answer ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its turn with this token.
    EndOfTurn(u32),
    /// A stop text came up: the one of this number.
    Stop(usize),
    /// As many tokens as asked for.
    Length,
    /// The context is full.
    ContextFull,
}

/// What a request took.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those that were in the cache already.
    pub cached_tokens: usize,
    /// Tokens generated.
    pub generated_tokens: usize,
    /// Tokens guessed ahead.
    pub drafted_tokens: usize,
    /// Guesses that were right: tokens generated without a pass over the weights of their own.
    pub accepted_tokens: usize,
}
