//! Events of an answer in progress.

use crate::fault::Fault;
use crate::message::ToolCall;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// A step of an answer.
///
/// Each choice emits thinking, then text and tool calls, then [`Finished`](Event::Finished). [`Done`](Event::Done)
/// follows the last choice. [`Failed`](Event::Failed) may come at any time and is the last event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The prompts are tokenized and generation begins.
    Started {
        /// Tokens in all prompts.
        prompt_tokens: usize,
        /// Those found in the prefix cache.
        cached_tokens: usize,
    },
    /// A prompt as the model sees it. Emitted before its answer where the request asks for tokens or for the prompt's
    /// log-probabilities.
    Prompt {
        /// The prompt's index.
        prompt: usize,
        /// The prompt's text.
        text: String,
        /// All its tokens.
        tokens: Vec<u32>,
        /// Their log-probabilities, if the request asks for them.
        logprobs: Vec<TokenLogprobs>,
    },
    /// How far the request has come. Emitted where it asks for that: while its prompts are computed, and before each
    /// token.
    Progress {
        /// Prompt tokens computed so far, cached ones included.
        computed: usize,
        /// Tokens used so far.
        usage: Usage,
        /// Time taken so far.
        timings: Timings,
    },
    /// Text of an answer, in whole characters.
    Text {
        /// The choice: the prompt's index times the choices of each prompt, plus the choice's own index.
        choice: usize,
        /// The text.
        text: String,
    },
    /// Thinking that precedes an answer.
    Thinking {
        /// The choice.
        choice: usize,
        /// The text.
        text: String,
    },
    /// Part of a tool call.
    Call {
        /// The choice.
        choice: usize,
        /// The call's index within the choice.
        index: usize,
        /// The part.
        part: CallPart,
    },
    /// A token. Emitted before the text it completes, where the request asks for tokens or log-probabilities.
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
        /// Why it ended.
        reason: Finish,
    },
    /// All choices are complete.
    Done {
        /// Tokens used.
        usage: Usage,
        /// Time taken.
        timings: Timings,
    },
    /// The request failed.
    Failed(Fault),
}

/// Part of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallPart {
    /// The beginning.
    Begin {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of the arguments' JSON.
    Arguments(String),
    /// The end, with the complete call.
    End(ToolCall),
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its turn.
    Stop,
    /// A stop sequence came up.
    StopText(String),
    /// The token limit or the end of the context was reached.
    Length,
    /// The model called tools.
    ToolCalls,
}

/// A token's log-probability and its likeliest alternatives.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The sampled token.
    pub chosen: TokenLogprob,
    /// The likeliest tokens, most likely first.
    pub top: Vec<TokenLogprob>,
}

/// A token with its log-probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: u32,
    /// The bytes it stands for.
    pub bytes: Vec<u8>,
    /// Its log-probability; NaN for the first token of a prompt, which has none.
    pub logprob: f32,
}

/// Tokens used by a request, over all prompts and choices.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens in the prompts.
    pub prompt_tokens: usize,
    /// Prompt tokens found in the prefix cache.
    pub cached_tokens: usize,
    /// Tokens generated.
    pub generated_tokens: usize,
    /// Generated tokens that were thinking.
    pub thinking_tokens: usize,
    /// Tokens drafted by speculative decoding.
    pub drafted_tokens: usize,
    /// Drafted tokens that were accepted.
    pub accepted_tokens: usize,
}

/// Times of a request.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From arrival to the last event.
    pub total: Duration,
    /// Loading the model.
    pub load: Duration,
    /// Queueing and prefill.
    pub prompt: Duration,
    /// Decoding.
    pub generate: Duration,
}
