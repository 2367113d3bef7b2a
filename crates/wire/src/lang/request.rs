//! What is asked.

use super::message::Message;
use crate::fault::Fault;
use crate::json::{Json, Place};
use alloc::collections::BTreeSet;
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
    Raw(Vec<Piece>),
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
        Self::Raw([Piece::Text(text.into())].into())
    }
}

/// A piece of a raw prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// How tokens are chosen; what is not given is left to the model's or the dialect's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "named as the engine's settings, which say what they mean"
)]
pub struct Sampling {
    pub seed: Option<u64>,
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub top_n_sigma: Option<f32>,
    pub min_keep: Option<u32>,
    /// Tokens that the penalties look back over; −1 is all of them.
    pub repeat_last_n: Option<i32>,
    pub repeat_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub dynatemp_range: Option<f32>,
    pub dynatemp_exponent: Option<f32>,
    pub dry_multiplier: Option<f32>,
    pub dry_base: Option<f32>,
    pub dry_allowed_length: Option<u32>,
    pub dry_penalty_last_n: Option<i32>,
    pub dry_sequence_breakers: Option<Vec<String>>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    /// 0 is off, 2 is version 2.
    pub mirostat: Option<u32>,
    pub mirostat_tau: Option<f32>,
    pub mirostat_eta: Option<f32>,
    /// Added to the logits of tokens, or of the tokens of texts; minus infinity bans.
    pub logit_bias: Vec<(Text, f32)>,
}

/// A token, or a text whose tokens are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// A token.
    Token(u32),
    /// A text.
    Text(String),
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

/// Tools, and whether they must be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Tools {
    /// The tools.
    pub list: Vec<Tool>,
    /// Whether they must be called.
    pub choice: ToolChoice,
    /// Whether several may be called in one answer.
    pub parallel: bool,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            choice: ToolChoice::Auto,
            parallel: true,
        }
    }
}

impl Tools {
    /// Checks that no two tools have one name, and that what must be called is there. The places are where the client
    /// wrote the tools and the choice.
    pub fn check(&self, tools: &Place, choice: &Place) -> Result<(), Fault> {
        let mut names = BTreeSet::new();
        if let Some(twice) = self.list.iter().find(|tool| !names.insert(&tool.name)) {
            let problem = format_args!("{:?} is there twice", twice.name);
            return Err(Fault::field(tools, problem));
        }
        let wanted = match &self.choice {
            ToolChoice::Auto | ToolChoice::None => return Ok(()),
            ToolChoice::Required if names.is_empty() => {
                return Err(Fault::field(choice, format_args!("needs tools to call")));
            }
            ToolChoice::Required => return Ok(()),
            ToolChoice::Named(name) => core::slice::from_ref(name),
            ToolChoice::Allowed { names, .. } if names.is_empty() => {
                return Err(Fault::field(choice, format_args!("allows no tool")));
            }
            ToolChoice::Allowed { names, .. } => names,
        };
        match wanted.iter().find(|name| !names.contains(name)) {
            None => Ok(()),
            Some(name) => Err(Fault::field(
                choice,
                format_args!("there is no tool named {name:?}"),
            )),
        }
    }
}

/// A tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// A JSON schema of its arguments; `Null` if it takes none.
    pub parameters: Json,
    /// Its arguments must follow the schema even where the call is the model's free choice.
    pub strict: bool,
}

/// Whether tools must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// No tool; they are still shown to the model.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
    /// Only these may be called, and one must be if `required`.
    Allowed {
        /// The tools' names.
        names: Vec<String>,
        /// Whether one must be called.
        required: bool,
    },
}

/// Whether a model thinks before it answers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// As its template does by itself.
    #[default]
    Default,
    /// No.
    Off,
    /// Yes, with so many tokens at most if given.
    On {
        /// Tokens for it.
        budget: Option<usize>,
    },
    /// Yes, this much.
    Effort(Effort),
}

/// How much a model thinks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
}

impl Effort {
    /// The word that templates and clients know.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How long a model stays loaded after its last use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// This long; zero unloads it at once.
    For(Duration),
    /// Until the server ends.
    Forever,
}

/// Texts to embed.
#[derive(Clone, Debug, PartialEq)]
pub struct Embed {
    /// The model's name.
    pub model: String,
    /// The texts.
    pub inputs: Vec<Vec<Piece>>,
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
