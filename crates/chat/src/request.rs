//! Requests for text.

use crate::json::Json;
use crate::message::Message;
use crate::sampling::Sampling;
use crate::thinking::Thinking;
use crate::tools::choice::Tools;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// A request to generate text.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// The model's name; the default model if empty.
    pub model: String,
    /// The prompts. Several are independent of each other.
    pub prompts: Vec<Prompt>,
    /// Tokens to put before each prompt: the conversation so far, as an earlier answer returned it.
    pub before: Vec<u32>,
    /// Sampling settings.
    pub sampling: Sampling,
    /// The most tokens to generate.
    pub max_tokens: Option<usize>,
    /// The fewest tokens to generate: before that no stop sequence and no stop token ends the answer.
    pub min_tokens: usize,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// Tokens that end an answer, besides the model's own.
    pub stop_tokens: Vec<u32>,
    /// The number of answers to each prompt.
    pub choices: usize,
    /// The number of answers to generate, of which the likeliest `choices` are returned.
    pub best_of: usize,
    /// Return log-probabilities: the token's own, and those of this many alternatives.
    pub logprobs: Option<usize>,
    /// Return the probabilities that tokens were drawn with instead of the model's own.
    pub post_sampling: bool,
    /// Return log-probabilities of the prompt's tokens, with this many alternatives.
    pub prompt_logprobs: Option<usize>,
    /// Repeat the prompt before the answer.
    pub echo: bool,
    /// Begin the conversation with the model's own messages, and its system prompt unless the conversation has one.
    pub preset: bool,
    /// Continue the conversation's last message, which is the model's own.
    pub continues: bool,
    /// End a conversation's prompt with its last message, without the opening of an answer.
    pub closed: bool,
    /// Begin the prompt with BOS if the model uses it.
    pub bos: bool,
    /// The format the answer must have.
    pub format: Format,
    /// Tools the model may call.
    pub tools: Tools,
    /// Whether the model thinks before it answers.
    pub thinking: Thinking,
    /// How long to keep the model loaded afterwards.
    pub keep_alive: Option<KeepAlive>,
    /// The context length in tokens.
    pub context: Option<usize>,
    /// Shorten a prompt that is too long instead of refusing it.
    pub truncate: bool,
    /// Where whole messages less are not enough, cut tokens out of the prompt too, but for so many at its beginning.
    pub keep: Option<usize>,
    /// A chat template in Go's language to use instead of the model's own.
    pub template: Option<String>,
    /// LoRA adapters by number, with their scales.
    pub adapters: Vec<(usize, f32)>,
    /// Use the prefix cache.
    pub cache: bool,
    /// Stop generating after this long.
    pub time_limit: Option<Duration>,
    /// Continue past end-of-turn tokens.
    pub ignore_end: bool,
    /// Spell out control tokens in the answer.
    pub show_special: bool,
    /// Report progress.
    pub progress: bool,
    /// Stream the answer.
    pub stream: bool,
    /// Return prompts and answers as token ids too.
    pub tokens: bool,
}

impl Generate {
    /// A request for one answer with default settings.
    pub fn new(model: impl Into<String>, prompt: Prompt) -> Self {
        Self {
            model: model.into(),
            prompts: [prompt].into(),
            before: Vec::new(),
            sampling: Sampling::default(),
            max_tokens: None,
            min_tokens: 0,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            choices: 1,
            best_of: 1,
            logprobs: None,
            post_sampling: false,
            prompt_logprobs: None,
            echo: false,
            preset: true,
            continues: false,
            closed: false,
            bos: true,
            format: Format::Text,
            tools: Tools::default(),
            thinking: Thinking::Default,
            keep_alive: None,
            context: None,
            truncate: false,
            keep: None,
            template: None,
            adapters: Vec::new(),
            cache: true,
            time_limit: None,
            ignore_end: false,
            show_special: false,
            progress: false,
            stream: false,
            tokens: false,
        }
    }
}

/// A prompt, before the model's template is applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompt {
    /// A conversation, rendered with the model's chat template.
    Chat(Vec<Message>),
    /// Text and tokens to continue as they are.
    Raw(Vec<PromptPart>),
    /// Text to insert between a prefix and a suffix.
    Infill {
        /// The text before the gap.
        prefix: String,
        /// The text after the gap.
        suffix: String,
        /// Other files, by name.
        files: Vec<(String, String)>,
    },
}

impl Prompt {
    /// A text to continue as it is.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Raw([PromptPart::Text(text.into())].into())
    }
}

/// A part of a raw prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptPart {
    /// Text, not tokenized.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

/// The format of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    /// Free text.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema(Json),
    /// Text that matches a regular expression.
    Regex(String),
    /// Text that matches a GBNF grammar, as in llama.cpp.
    Gbnf(String),
    /// Text that matches a Lark grammar.
    Lark(String),
    /// One of these texts.
    Choice(Vec<String>),
}

/// How long a model stays loaded after its last use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// This long; zero unloads it immediately.
    For(Duration),
    /// Until the process exits.
    Forever,
}
