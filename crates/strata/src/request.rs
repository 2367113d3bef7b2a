//! A request, built step by step.

use crate::answer::{Answer, AsyncAnswer, Completion};
use crate::error::Error;
use crate::events::Events;
use crate::model::Model;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use strata_chat::json::Json;
use strata_chat::{
    Audio, ContentPart, Format, Generate, Image, Message, Prompt, Role, Thinking, Tool, ToolCall,
    ToolChoice,
};

/// A message of the user.
pub fn user(text: impl Into<String>) -> Message {
    Message::text(Role::User, text)
}

/// A part of a message: an image file, not decoded. Models that see read PNG, JPEG, WebP, GIF and BMP.
pub fn image(bytes: impl Into<Vec<u8>>) -> ContentPart {
    ContentPart::Image(Image {
        media_type: None,
        bytes: bytes.into(),
    })
}

/// A part of a message: an audio file, not decoded. Models that hear read WAV, FLAC, MP3 and Ogg Vorbis.
pub fn audio(bytes: impl Into<Vec<u8>>) -> ContentPart {
    ContentPart::Audio(Audio {
        format: None,
        bytes: bytes.into(),
    })
}

/// A message that tells the model how to behave.
pub fn system(text: impl Into<String>) -> Message {
    Message::text(Role::System, text)
}

/// A message of the model.
pub fn assistant(text: impl Into<String>) -> Message {
    Message::text(Role::Assistant, text)
}

/// The result of a tool call, for the model.
pub fn tool_result(call: &ToolCall, text: impl Into<String>) -> Message {
    let mut message = Message::text(Role::Tool, text);
    message.tool_call_id = Some(call.id.clone());
    message.name = Some(call.name.clone());
    message
}

/// Computes the result of a tool call from its arguments. The model is told of errors.
pub(crate) type ToolFunction = dyn Fn(&Json) -> Result<String, String> + Send + Sync;

/// A request, built step by step: [`Model::chat`] and [`Model::complete`] begin one; [`text`](Self::text), [`run`](Self::run),
/// [`stream`](Self::stream) and [`stream_async`](Self::stream_async) start it. What is not set is left to the model.
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
        /// How freely tokens are sampled; 0 always takes the likeliest.
        temperature: f32;
        /// Samples the same answer each time; without a seed answers differ.
        seed: u64;
        /// Samples from this many of the likeliest tokens.
        top_k: u32;
        /// Samples from the likeliest tokens up to this total probability.
        top_p: f32;
        /// Samples from tokens at least this likely, as a share of the likeliest's probability.
        min_p: f32;
        /// Divides the logits of tokens that have occurred; 1 changes nothing.
        repeat_penalty: f32;
        /// Lowers the logits of tokens by this for each time they have occurred.
        frequency_penalty: f32;
        /// Lowers the logits of tokens by this if they have occurred at all.
        presence_penalty: f32;
    }

    /// Generates so many tokens at most.
    #[must_use]
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.generate.max_tokens = Some(tokens);
        self
    }

    /// Ends the answer before this text. Can be called several times.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.generate.stop.push(text.into());
        self
    }

    /// Constrains the answer to a JSON schema.
    #[must_use]
    pub fn json_schema(self, schema: Json) -> Self {
        self.format(Format::JsonSchema(schema))
    }

    /// Constrains the answer to a regular expression.
    #[must_use]
    pub fn regex(self, regex: impl Into<String>) -> Self {
        self.format(Format::Regex(regex.into()))
    }

    /// Constrains the answer to a grammar in llama.cpp's notation.
    #[must_use]
    pub fn grammar(self, gbnf: impl Into<String>) -> Self {
        self.format(Format::Gbnf(gbnf.into()))
    }

    /// Constrains the answer to a format.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.generate.format = format;
        self
    }

    /// Offers the model a tool. Its calls come with the answer; their results go back with [`tool_result`], after
    /// [the message](Completion::message) that called.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.generate.tools.list.push(tool);
        self
    }

    /// Offers the model a tool whose calls a function answers: the conversation goes on by itself until the model is done.
    /// Where the [choice](Self::tool_choice) requires a call, that holds for the first answer only.
    #[must_use]
    pub fn tool_function(
        mut self,
        tool: Tool,
        function: impl Fn(&Json) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.functions.push((tool.name.clone(), Arc::new(function)));
        self.tool(tool)
    }

    /// Says whether tools must be called.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.generate.tools.choice = choice;
        self
    }

    /// Says whether the model thinks before it answers.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.generate.thinking = thinking;
        self
    }

    /// Applies an adapter that the model was [opened with](crate::Options::adapter), by its number.
    #[must_use]
    pub fn adapter(mut self, number: usize, scale: f32) -> Self {
        self.generate.adapters.push((number, scale));
        self
    }

    /// Computes log-probabilities of each token and of so many alternatives. They are told as
    /// [`Event::Token`](strata_chat::Event::Token)s by [`events`](Self::events).
    #[must_use]
    pub fn logprobs(mut self, alternatives: usize) -> Self {
        self.generate.logprobs = Some(alternatives);
        self
    }

    /// Fails with [`TimedOut`](crate::ErrorKind::TimedOut) if the answer is not complete after this long.
    #[must_use]
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.generate.time_limit = Some(time);
        self
    }

    /// The request in the form that every door shares, for what has no method here.
    pub fn generate_mut(&mut self) -> &mut Generate {
        &mut self.generate
    }

    /// Starts the request. The answer comes piece by piece.
    pub fn stream(self) -> Result<Answer, Error> {
        Answer::start(self)
    }

    /// Starts the request. The answer comes as a [`Stream`](futures_core::Stream).
    pub fn stream_async(self) -> Result<AsyncAnswer, Error> {
        Answer::start(self).map(AsyncAnswer)
    }

    /// Starts the request and gives its events as they are. Functions are not called.
    pub fn events(self) -> Result<Events, Error> {
        self.model.generate(&self.generate)
    }

    /// Waits for the whole answer.
    pub fn run(self) -> Result<Completion, Error> {
        self.stream()?.finish()
    }

    /// Waits for the whole answer's text.
    pub fn text(self) -> Result<String, Error> {
        Ok(self.run()?.text)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&ToolFunction> {
        let known = self.functions.iter().find(|(known, _)| known == name);
        known.map(|(_, function)| &**function)
    }

    pub(crate) fn messages_mut(&mut self) -> Option<&mut Vec<Message>> {
        match self.generate.prompts.first_mut() {
            Some(Prompt::Chat(messages)) => Some(messages),
            _ => None,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Request");
        shown.field("model", &self.model);
        shown.field("generate", &self.generate);
        shown.finish_non_exhaustive()
    }
}
