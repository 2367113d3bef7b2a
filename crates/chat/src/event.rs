//! What is answered, as it happens.

use crate::fault::Fault;
use crate::message::ToolCall;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// Something that happened to a request for text.
///
/// For each choice: thinking, then text and calls, then [`Finished`](Event::Finished); after the last choice one
/// [`Done`](Event::Done), or at any time one [`Failed`](Event::Failed) that ends it all.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The prompts have been taken in.
    Started {
        /// Tokens of all prompts.
        prompt_tokens: usize,
        /// Those that were computed before.
        cached_tokens: usize,
    },
    /// What the model was given for a prompt, told before its answer where the client asked for tokens.
    Prompt {
        /// The prompt's number.
        prompt: usize,
        /// As text, as far as it came as one.
        text: String,
        /// As tokens, all of them.
        tokens: Vec<u32>,
    },
    /// Text of an answer: whole characters.
    Text {
        /// The choice: the prompt's number times the choices of each, plus the choice's own.
        choice: usize,
        /// The text.
        text: String,
    },
    /// What the model thinks before it answers.
    Thinking {
        /// The choice.
        choice: usize,
        /// The text.
        text: String,
    },
    /// A piece of a tool's call.
    Call {
        /// The choice.
        choice: usize,
        /// The call's number within the choice.
        index: usize,
        /// The piece.
        part: CallPart,
    },
    /// A token, told before the text it completes, where the client asked for tokens or log-probabilities.
    Token {
        /// The choice.
        choice: usize,
        /// The token.
        token: u32,
        /// Its log-probabilities.
        logprobs: Option<TokenLogprobs>,
    },
    /// A choice is complete.
    Finished {
        /// The choice.
        choice: usize,
        /// Why.
        reason: Finish,
    },
    /// All choices are complete.
    Done {
        /// What it took.
        usage: Usage,
        /// How long it took.
        timings: Timings,
    },
    /// The request failed.
    Failed(Fault),
}

/// A piece of a tool's call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallPart {
    /// It begins.
    Begin {
        /// Names the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// Text of the arguments' JSON.
    Arguments(String),
    /// It is complete: the whole of it once more.
    End(ToolCall),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its turn.
    Stop,
    /// A text came up that the client asked to stop at.
    StopText(String),
    /// As many tokens as asked for, or as the context holds.
    Length,
    /// The model called tools and waits for their results.
    ToolCalls,
}

/// A token's log-probability and its likeliest alternatives.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The token that was chosen.
    pub chosen: TokenLogprob,
    /// The likeliest, the likeliest first.
    pub top: Vec<TokenLogprob>,
}

/// A token with its log-probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its log-probability; not a number for the first token of a prompt that is echoed, which has none.
    pub logprob: f32,
}

/// What a request took, over all its prompts and choices.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompts.
    pub prompt_tokens: usize,
    /// Those that were computed before.
    pub cached_tokens: usize,
    /// Tokens generated.
    pub generated_tokens: usize,
    /// Those of them that were thinking.
    pub thinking_tokens: usize,
    /// Tokens guessed ahead.
    pub drafted_tokens: usize,
    /// Guesses that were right.
    pub accepted_tokens: usize,
}

/// How long a request took.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// All of it.
    pub total: Duration,
    /// Loading the model.
    pub load: Duration,
    /// Waiting in the queue and computing the prompt.
    pub prompt: Duration,
    /// Generating.
    pub generate: Duration,
}
