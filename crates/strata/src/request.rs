//! A request, built step by step.

use crate::answer::{Answer, AsyncAnswer, Completion};
use crate::error::Error;
use crate::model::Model;
use std::sync::Arc;
use strata_chat::json::Json;
use strata_chat::{Format, Generate, Message, Prompt, Role, Thinking, Tool, ToolChoice};

/// What is said by the user.
pub fn user(text: impl Into<String>) -> Message {
    Message::text(Role::User, text)
}

/// What the model is told before a conversation.
pub fn system(text: impl Into<String>) -> Message {
    Message::text(Role::System, text)
}

/// What the model has said.
pub fn assistant(text: impl Into<String>) -> Message {
    Message::text(Role::Assistant, text)
}

/// What computes the result of a tool's call from its arguments; an error is told to the model.
pub(crate) type ToolFunction = dyn Fn(&Json) -> Result<String, String> + Send + Sync;

/// A request: what is not said is left to the model's own defaults.
#[derive(Clone)]
pub struct Request {
    pub(crate) model: Model,
    pub(crate) generate: Generate,
    pub(crate) functions: Vec<(String, Arc<ToolFunction>)>,
}

macro_rules! sampling {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: $type) -> Self {
            self.generate.sampling.$name = Some(value);
            self
        }
    )*};
}

impl Request {
    pub(crate) fn new(model: Model, generate: Generate) -> Self {
        Self {
            model,
            generate,
            functions: Vec::new(),
        }
    }

    sampling! {
        /// How freely tokens are drawn; 0 always takes the likeliest.
        temperature: f32;
        /// Draws the same answer each time.
        seed: u64;
        /// Draws from this many of the likeliest tokens.
        top_k: u32;
        /// Draws from the likeliest tokens up to this total probability.
        top_p: f32;
        /// Draws from tokens at least this likely, measured against the likeliest.
        min_p: f32;
        /// Makes tokens that have occurred less likely.
        repeat_penalty: f32;
        /// The same, by how often they occurred.
        frequency_penalty: f32;
        /// The same, whether they occurred at all.
        presence_penalty: f32;
    }

    /// Tokens at most.
    #[must_use]
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.generate.max_tokens = Some(tokens);
        self
    }

    /// A text that ends the answer; may be given several times.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.generate.stop.push(text.into());
        self
    }

    /// Holds the answer to a JSON schema.
    #[must_use]
    pub fn json_schema(self, schema: Json) -> Self {
        self.format(Format::JsonSchema(schema))
    }

    /// Holds the answer to a regular expression.
    #[must_use]
    pub fn regex(self, regex: impl Into<String>) -> Self {
        self.format(Format::Regex(regex.into()))
    }

    /// Holds the answer to a grammar in llama.cpp's notation.
    #[must_use]
    pub fn grammar(self, gbnf: impl Into<String>) -> Self {
        self.format(Format::Gbnf(gbnf.into()))
    }

    /// Holds the answer to a form.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.generate.format = format;
        self
    }

    /// A tool that the model may call. Its calls come with the answer; results go back as messages of the role
    /// [`Tool`](Role::Tool).
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.generate.tools.list.push(tool);
        self
    }

    /// A tool whose calls are answered by a function: the conversation goes on by itself until the model is done.
    #[must_use]
    pub fn tool_function(
        mut self,
        tool: Tool,
        function: impl Fn(&Json) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.functions.push((tool.name.clone(), Arc::new(function)));
        self.tool(tool)
    }

    /// Whether tools must be called.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.generate.tools.choice = choice;
        self
    }

    /// Whether the model thinks before it answers.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.generate.thinking = thinking;
        self
    }

    /// Computes the answer with an adapter that the model was opened with, by its number.
    #[must_use]
    pub fn adapter(mut self, number: usize, scale: f32) -> Self {
        self.generate.adapters.push((number, scale));
        self
    }

    /// Tells the log-probabilities of each token and of so many alternatives, as
    /// [`Event::Token`](strata_chat::Event::Token)s of [`Model::generate`].
    #[must_use]
    pub fn logprobs(mut self, alternatives: usize) -> Self {
        self.generate.logprobs = Some(alternatives);
        self
    }

    /// The request in the form that every door shares, for what has no method here.
    pub fn generate_mut(&mut self) -> &mut Generate {
        &mut self.generate
    }

    /// Starts it; the answer comes piece by piece.
    pub fn stream(self) -> Result<Answer, Error> {
        Answer::start(self)
    }

    /// Starts it; the answer comes as a `Stream`.
    pub fn stream_async(self) -> Result<AsyncAnswer, Error> {
        Answer::start(self).map(AsyncAnswer)
    }

    /// Waits for the whole answer.
    pub fn run(self) -> Result<Completion, Error> {
        self.stream()?.finish()
    }

    /// Waits for the whole answer's text.
    pub fn text(self) -> Result<String, Error> {
        Ok(self.run()?.text)
    }

    pub(crate) fn messages_mut(&mut self) -> Option<&mut Vec<Message>> {
        match self.generate.prompts.first_mut() {
            Some(Prompt::Chat(messages)) => Some(messages),
            _ => None,
        }
    }
}
