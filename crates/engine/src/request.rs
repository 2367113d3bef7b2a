//! What is asked of the engine, and what it answers.

use crate::constraint::{Constraint, ConstraintError};
use crate::logprobs::TokenLogprob;
use crate::sampling::{SampleError, SamplerSettings};
use crate::small_string::SmallString;
use crate::speculation::Speculation;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::{BatchError, EmbeddedRun, Pooling};

/// A prompt, and what is wanted of it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt's tokens; at least one.
    pub prompt: Vec<u32>,
    /// Positions of the prompt whose embeddings are given, in order: its images and audio. The tokens there are placeholders.
    pub images: Vec<EmbeddedRun>,
    /// How tokens are chosen.
    pub sampling: SamplerSettings,
    /// Tokens to generate at most; as many as there is room for if not given.
    pub max_tokens: Option<usize>,
    /// Tokens to generate at least: before that nothing ends the answer but a constraint that is met.
    pub min_tokens: usize,
    /// Texts that end the answer and are not part of it.
    pub stop: Vec<String>,
    /// Tokens that end the answer and are not part of it.
    pub stop_tokens: Vec<u32>,
    /// Control tokens that the text spells out, for a reader who looks for them: the marks of tool calls.
    pub spelled: Vec<u32>,
    /// Whether the text spells out all control tokens.
    pub show_special: bool,
    /// How many alternatives to report the log-probabilities of, beside the token itself.
    pub logprobs: Option<usize>,
    /// Report the probabilities that tokens were drawn with, after penalties, temperature and truncation, instead of the
    /// model's own.
    pub post_sampling: bool,
    /// How many alternatives to report for the prompt's own tokens. They are all computed then, cached or not.
    pub prompt_logprobs: Option<usize>,
    /// Go on after a token that ends a turn.
    pub ignore_end: bool,
    /// Report how much of the prompt is computed.
    pub progress: bool,
    /// How tokens are guessed ahead; the answer does not depend on it.
    pub speculation: Speculation,
    /// What may be generated.
    pub constraint: Option<Box<dyn Constraint>>,
    /// A change to the model's weights, for this request only.
    pub adapter: Option<AdapterId>,
    /// What is wanted.
    pub task: Task,
    /// How many answers.
    pub choices: Choices,
    /// Who asks.
    pub client: ClientId,
    /// How urgent it is.
    pub priority: Priority,
    /// What it may take.
    pub limits: Limits,
    /// Whether it may use what earlier requests of the same client left in the cache, and leave its own there.
    pub cache: bool,
    /// Where nothing of it may go.
    pub privacy: Privacy,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            prompt: Vec::new(),
            images: Vec::new(),
            sampling: SamplerSettings::default(),
            max_tokens: None,
            min_tokens: 0,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            spelled: Vec::new(),
            show_special: false,
            logprobs: None,
            post_sampling: false,
            prompt_logprobs: None,
            ignore_end: false,
            progress: false,
            speculation: Speculation::Off,
            constraint: None,
            adapter: None,
            task: Task::Generate,
            choices: Choices::default(),
            client: ClientId::default(),
            priority: Priority::Normal,
            limits: Limits::default(),
            cache: true,
            privacy: Privacy::default(),
        }
    }
}

/// Names a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names whoever asks. Clients share the machine evenly, and none sees, or can time, what is cached for another.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// Names an adapter that the engine has.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdapterId(pub u64);

/// How urgent a request is: a larger share for its client, a better place among the client's own requests, and the
/// last to give way when memory ends. None waits for ever.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Can wait.
    Low,
    /// As usual.
    #[default]
    Normal,
    /// Before others.
    High,
}

/// What is wanted of a prompt.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// How it goes on.
    #[default]
    Generate,
    /// A vector that stands for it, made so of its tokens' states and not normalized.
    Embed(Pooling),
    /// Scores of two texts that are read together, by a model with a classifier: how well one answers the other.
    Score {
        /// Where the second text begins in the prompt.
        second: usize,
    },
}

/// How many answers to a prompt. They share its pages.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Choices {
    /// `n` answers, the likeliest of `best_of`. The first is drawn with the request's seed, each other with the next
    /// number as its seed. Where `best_of` is more than `n`, nothing is told before all have ended.
    Sample {
        /// Answers wanted.
        n: usize,
        /// Answers generated.
        best_of: usize,
    },
    /// The `n` likeliest answers that a search over `width` texts at a time finds. The sampler's settings do not
    /// matter; nothing is told before the search has ended. A stop text ends a text as the end of a turn does. There
    /// are no constraints and no log-probabilities of the prompt.
    Beams {
        /// Answers wanted.
        n: usize,
        /// Texts kept at a time.
        width: usize,
        /// Log-probabilities are divided by the length to this power.
        length_penalty: f32,
    },
}

impl Default for Choices {
    fn default() -> Self {
        Self::Sample { n: 1, best_of: 1 }
    }
}

impl Choices {
    /// Answers wanted.
    pub fn wanted(&self) -> usize {
        match *self {
            Self::Sample { n, .. } | Self::Beams { n, .. } => n,
        }
    }

    /// Texts that are generated side by side.
    pub fn generated(&self) -> usize {
        match *self {
            Self::Sample { best_of, .. } => best_of,
            Self::Beams { width, .. } => width,
        }
    }
}

/// What a request may take. It is refused where this cannot be kept, and ends with an error where it is not.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// From its submission to its end.
    pub deadline: Option<Duration>,
    /// From its submission to its first token.
    pub first_token: Option<Duration>,
    /// From one token to the next: steps are kept as short as this where they can be.
    pub per_token: Option<Duration>,
    /// Bytes of keys and values.
    pub memory: Option<usize>,
}

/// Where nothing of a request may go: neither its tokens nor what was computed of them. Requests share pages with those of
/// the same privacy only.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Privacy {
    /// Not to a page store.
    pub never_to_disk: bool,
    /// Not to those who are told of pages, who may be on other machines.
    pub never_off_machine: bool,
}

/// Something that happened to a request.
#[derive(Debug)]
pub struct Event {
    /// The request.
    pub request: RequestId,
    /// Which of its answers.
    pub choice: usize,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Each answer ends with [`Finished`](Self::Finished), or the whole request with
/// [`Failed`](Self::Failed).
#[derive(Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// It has left the queue.
    Started {
        /// Tokens of the prompt that need not be computed.
        cached_tokens: usize,
    },
    /// Log-probabilities of some of the prompt's tokens, in order. The first token of a prompt has none.
    PromptLogprobs {
        /// The place of the first in the prompt.
        from: usize,
        /// One for each token.
        logprobs: Vec<TokenLogprobs>,
    },
    /// More of the prompt is computed. Reported for a request's first answer, if asked for.
    Progress {
        /// Tokens of the prompt computed so far, cached ones included.
        computed: usize,
    },
    /// A token was generated.
    Token {
        /// The token.
        token: u32,
        /// Text that can be shown now: whole characters, nothing that might be part of a stop text. Perhaps empty.
        text: SmallString,
        /// Its log-probabilities, if asked for.
        logprobs: Option<TokenLogprobs>,
    },
    /// The prompt's vector, or its scores.
    Embedding(Vec<f32>),
    /// The answer is complete.
    Finished {
        /// What was held back of the text.
        text: SmallString,
        /// Why it ended.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
    },
    /// The request has ended with an error, and nothing follows.
    Failed(RequestError),
}

/// Why a request ended before its time. No other is affected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum RequestError {
    #[error("no token could be chosen: {0}")]
    Sample(#[from] SampleError),
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    #[error("the batch was refused: {0}")]
    Batch(#[from] BatchError),
    #[error("it was not complete after {} ms", .limit.as_millis())]
    Deadline { limit: Duration },
    #[error("it had no first token after {} ms", .limit.as_millis())]
    FirstToken { limit: Duration },
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
#[non_exhaustive]
pub enum FinishReason {
    /// The model ended its turn with this token.
    EndOfTurn(u32),
    /// A stop text came up: the one of this number.
    Stop(usize),
    /// Nothing more may come: the constraint is met, or the text was only to be embedded.
    Complete,
    /// As many tokens as asked for.
    Length,
    /// The context is full.
    ContextFull,
}

/// What an answer took.
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
