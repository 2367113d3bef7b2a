//! What is asked.

use crate::json::Json;
use crate::message::Message;
use crate::sampling::Sampling;
use crate::thinking::Thinking;
use crate::tools::choice::Tools;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// Text to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// The model's name; empty is the default one.
    pub model: String,
    /// What to continue or answer: one, or several that are independent of each other.
    pub prompts: Vec<Prompt>,
    /// Tokens that stand before each prompt: a conversation so far, as it was told with an earlier answer.
    pub before: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// How, where neither the request nor the model says: the dialect's habits.
    pub defaults: Sampling,
    /// Tokens at most.
    pub max_tokens: Option<usize>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Answers to each prompt.
    pub choices: usize,
    /// How many to generate, of which the likeliest `choices` are given.
    pub best_of: usize,
    /// Alternatives to each token whose log-probabilities are told; `Some(0)` tells only the token's own.
    pub logprobs: Option<usize>,
    /// The answer begins with the prompt.
    pub echo: bool,
    /// A conversation's last message is the model's own and not complete: the answer goes on where it ends.
    pub continues: bool,
    /// What the answer must look like.
    pub format: Format,
    /// Tools that the model may call.
    pub tools: Tools,
    /// Whether the model thinks before it answers.
    pub thinking: Thinking,
    /// How long the model stays loaded afterwards.
    pub keep_alive: Option<KeepAlive>,
    /// Positions of the context.
    pub context: Option<usize>,
    /// Shorten a conversation that is too long from its beginning, instead of refusing it.
    pub truncate: bool,
    /// Adapters by number, with their strength.
    pub adapters: Vec<(usize, f32)>,
    /// Keep and use what is computed of the prompt.
    pub cache: bool,
    /// Generate nothing after this long.
    pub time_limit: Option<Duration>,
    /// Go on after a token that ends a turn.
    pub ignore_end: bool,
    /// Sent as it is generated.
    pub stream: bool,
    /// The client wants prompts and each token told, with its number.
    pub tokens: bool,
}

impl Generate {
    /// A plain request for one answer; a dialect sets what differs.
    pub fn new(model: impl Into<String>, prompt: Prompt) -> Self {
        Self {
            model: model.into(),
            prompts: [prompt].into(),
            before: Vec::new(),
            sampling: Sampling::default(),
            defaults: Sampling::default(),
            max_tokens: None,
            stop: Vec::new(),
            choices: 1,
            best_of: 1,
            logprobs: None,
            echo: false,
            continues: false,
            format: Format::Text,
            tools: Tools::default(),
            thinking: Thinking::Default,
            keep_alive: None,
            context: None,
            truncate: false,
            adapters: Vec::new(),
            cache: true,
            time_limit: None,
            ignore_end: false,
            stream: false,
            tokens: false,
        }
    }
}

/// What the model is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// A conversation, through the model's template.
    Chat(Vec<Message>),
    /// Text and tokens, continued as they are.
    Raw(Vec<PromptPart>),
    /// Text before and after a gap.
    Infill {
        /// Before.
        prefix: String,
        /// After.
        suffix: String,
        /// Other files, by name.
        files: Vec<(String, String)>,
    },
}

impl Prompt {
    /// A text, continued as it is.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Raw([PromptPart::Text(text.into())].into())
    }
}

/// A part of a raw prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    /// Text.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// What an answer must look like.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    /// Anything.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that a schema describes.
    JsonSchema(Json),
    /// A text that a regular expression describes.
    Regex(String),
    /// A grammar in llama.cpp's notation.
    Gbnf(String),
    /// A grammar in Lark's notation.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
}

/// How long a model stays loaded after its last use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// This long; zero unloads it at once.
    For(Duration),
    /// Until the server ends.
    Forever,
}
