//! From a conversation to a prompt's tokens, through the model's chat template.
//!
//! A template writes control tokens such as `<|im_end|>` as text, so its output is encoded with control tokens read as
//! such. A message that spells one must not end its own turn and speak for someone else: where the messages would add a
//! control token, the template's own text and the messages are encoded apart, the messages as plain text. Where they
//! would not, the whole is encoded at once, as everybody does it: cutting would change the tokens at the seams.

mod call_input;
mod go_values;
mod values;

pub use go_values::go_value;

use crate::json::Json;
use crate::media::{Media, MediaError, Senses, SplicedTokens};
use crate::tools::CallFormat;
use crate::{Fault, Message, Role, Thinking, Tool};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use call_input::CallInput;
use strata_engine::EmbeddedRun;
use strata_template::go::{GoError, GoOptions, GoTemplate};
use strata_template::jinja::{DateTime, RenderOptions, Template, TemplateError};
use strata_tokenizer::{EncodeOptions, TokenKind, Tokenizer};
use values::TemplateInput;

/// A model's chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    language: Language,
    calls: CallFormat,
    shows_tools: bool,
}

#[derive(Debug)]
enum Language {
    /// Of Hugging Face, in the model's file.
    Jinja(Template),
    /// Of Ollama, in a Modelfile.
    Go(Box<GoTemplate>),
}

/// The input of a chat template.
#[derive(Copy, Clone, Debug, Default)]
pub struct Conversation<'a> {
    /// The messages.
    pub messages: &'a [Message],
    /// Whether the last message is the beginning of the answer.
    pub continues: bool,
    /// Whether the prompt ends with the last message, without the opening of an answer.
    pub closed: bool,
    /// The tools the model may call.
    pub tools: &'a [Tool],
    /// Whether the model thinks.
    pub thinking: Thinking,
    /// The local time.
    pub now: Option<DateTime>,
    /// The most bytes that the prompt may have.
    pub room: Option<usize>,
    /// What turns images and audio into parts of the prompt.
    pub senses: Senses<'a>,
}

/// A prompt as the model sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedPrompt {
    /// The rendered text.
    pub text: String,
    /// Its tokens, with BOS if the model uses it.
    pub tokens: Vec<u32>,
    /// How many of the first tokens are not in the text: one if BOS was added.
    pub added: usize,
    /// The context length it must fit in.
    pub context: usize,
    /// The positions of its images and audio.
    pub images: Vec<EmbeddedRun>,
}

/// Why a conversation cannot be rendered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The Jinja template cannot be parsed.
    #[error("the model's chat template cannot be read: {0}")]
    Template(TemplateError),
    /// The Jinja template failed.
    #[error("the model's chat template failed: {0}")]
    Render(TemplateError),
    /// The Go template cannot be parsed.
    #[error("the Modelfile's template cannot be read: {0}")]
    GoTemplate(GoError),
    /// The Go template failed.
    #[error("the Modelfile's template failed: {0}")]
    GoRender(GoError),
    /// A message contains the text of a control token.
    #[error(
        "a message spells the model's control token {token:?}, which its template does not keep apart from its own: write it differently"
    )]
    SpelledToken {
        /// The control token.
        token: String,
    },
    /// The prompt is to end without the opening of an answer, which a Go template always writes.
    #[error("the Modelfile's template always opens an answer: leave add_generation_prompt out")]
    Closed,
    /// The prompt is longer than it may be.
    #[error("the prompt has {bytes} bytes")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// A message has an image, which the model cannot see.
    #[error("the model cannot see pictures")]
    Picture,
    /// A message has audio, which the model cannot hear.
    #[error("the model cannot hear audio")]
    Audio,
    /// A message has a mark that stands for an image or for audio.
    #[error(
        "a message beside an image or audio has the noncharacter U+FDD0 or U+FDD1, which marks the place of one"
    )]
    MediaMark,
    /// The template leaves an image or audio out, or writes it twice.
    #[error(
        "the model's chat template does not write each message with an image or audio once, in order"
    )]
    MediaPlace,
    /// An image or audio cannot be read.
    #[error("{}", .0.message)]
    Media(Fault),
}

impl From<MediaError> for PromptError {
    fn from(error: MediaError) -> Self {
        match error {
            MediaError::Blind => Self::Picture,
            MediaError::Deaf => Self::Audio,
            MediaError::Mark => Self::MediaMark,
            MediaError::Unreadable(fault) => Self::Media(fault),
        }
    }
}

const TRUSTED: EncodeOptions = EncodeOptions {
    add_special: false,
    parse_special: true,
};
const PLAIN: EncodeOptions = EncodeOptions {
    add_special: false,
    parse_special: false,
};

/// Tokenizes a text to continue as it is. Control tokens are recognized, since the text is the whole prompt.
pub fn raw(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    begin(tokenizer, tokenizer.encode(text, TRUSTED))
}

/// Prepends BOS if the model uses it and it is not there yet. EOS is never added: the text goes on.
pub fn begin(tokenizer: &Tokenizer, mut tokens: Vec<u32>) -> Vec<u32> {
    let bos = tokenizer
        .special()
        .bos
        .filter(|_| tokenizer.added().bos)
        .filter(|bos| tokens.first() != Some(bos));
    tokens.splice(0..0, bos);
    tokens
}

impl ChatTemplate {
    /// Parses a Jinja template.
    pub fn new(source: &str) -> Result<Self, PromptError> {
        Ok(Self {
            language: Language::Jinja(Template::parse(source).map_err(PromptError::Template)?),
            calls: CallFormat::of_template(source),
            shows_tools: CallFormat::template_has_tools(source),
        })
    }

    /// Parses a template in Go's template language.
    pub fn go(source: &str) -> Result<Self, PromptError> {
        let template = GoTemplate::parse(source).map_err(PromptError::GoTemplate)?;
        Ok(Self {
            calls: CallFormat::of_template(source),
            shows_tools: template.reads("Tools"),
            language: Language::Go(Box::new(template)),
        })
    }

    /// Whether the model is trained to call tools.
    pub fn teaches_tools(&self) -> bool {
        match self.language {
            Language::Jinja(_) => self.calls != CallFormat::Generic,
            Language::Go(_) => self.shows_tools,
        }
    }

    /// Whether the template supports fill-in-the-middle.
    pub fn fills_gaps(&self) -> bool {
        matches!(&self.language, Language::Go(template) if template.reads("Suffix"))
    }

    /// The fill-in-the-middle prompt; `None` if the template does not support it.
    pub fn fill(
        &self,
        tokenizer: &Tokenizer,
        prefix: &str,
        suffix: &str,
    ) -> Option<Result<RenderedPrompt, PromptError>> {
        let template = match &self.language {
            Language::Go(template) if template.reads("Suffix") => template,
            _ => return None,
        };
        if let Some(token) = spelled(tokenizer, prefix).or_else(|| spelled(tokenizer, suffix)) {
            let token = token.to_string();
            return Some(Err(PromptError::SpelledToken { token }));
        }
        let text = template.fill(prefix, suffix, &GoOptions::default());
        let text = text.map_err(PromptError::GoRender);
        Some(text.map(|text| RenderedPrompt {
            tokens: begin(tokenizer, tokenizer.encode(&text, TRUSTED)),
            text,
            ..RenderedPrompt::default()
        }))
    }

    /// Whether the template tells the model of tools. Where it does not, the system prompt explains them.
    pub fn shows_tools(&self) -> bool {
        self.shows_tools
    }

    /// How the model writes tool calls.
    pub fn calls(&self) -> CallFormat {
        self.calls
    }

    /// Renders and tokenizes a conversation.
    pub fn prompt(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation<'_>,
    ) -> Result<RenderedPrompt, PromptError> {
        let (media, marked);
        let (media, messages) = match Media::of(conversation.messages, conversation.senses)? {
            None => (&Media::default(), conversation.messages),
            Some(perceived) => {
                (media, marked) = perceived;
                (&media, &marked[..])
            }
        };
        if conversation.closed && matches!(self.language, Language::Go(_)) {
            return Err(PromptError::Closed);
        }
        let (said, begun) = match messages {
            [said @ .., last] if conversation.continues => (said, last.joined()),
            said => (said, String::new()),
        };
        let calls = match &self.language {
            Language::Jinja(template) if said.iter().any(|one| !one.tool_calls.is_empty()) => {
                CallInput::of(template, tokenizer, self.calls)
            }
            _ => CallInput::default(),
        };
        let input = TemplateInput {
            format: self.calls,
            calls,
        };
        let explains = !self.shows_tools && !conversation.tools.is_empty();
        let messages = if explains {
            explain_tools(said, conversation.tools).into()
        } else {
            calls.arranged(said)
        };
        let shown = Conversation {
            messages: &messages,
            tools: if explains { &[] } else { conversation.tools },
            ..*conversation
        };
        let mut prompt = self.encode(tokenizer, &shown, input, media)?;
        let mut more = SplicedTokens {
            tokens: prompt.tokens,
            runs: prompt.images,
        };
        media.encode(tokenizer, &begun, PLAIN, &mut more);
        (prompt.tokens, prompt.images) = (more.tokens, more.runs);
        prompt.text += &begun;
        if !media.are_all_in(&prompt.text) {
            return Err(PromptError::MediaPlace);
        }
        prompt.text = media.shown(&prompt.text);
        Ok(prompt)
    }

    fn encode(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation<'_>,
        input: TemplateInput,
        media: &Media,
    ) -> Result<RenderedPrompt, PromptError> {
        let contents: Vec<String> = conversation.messages.iter().map(Message::joined).collect();
        let contents: Vec<&str> = contents.iter().map(String::as_str).collect();
        let render = |contents: &[&str]| self.render(tokenizer, conversation, input, contents);
        let text = render(&contents)?;
        if conversation.room.is_some_and(|room| text.len() > room) {
            return Err(PromptError::TooLong { bytes: text.len() });
        }
        let refused = |token: &str| PromptError::SpelledToken {
            token: token.to_string(),
        };
        for other in values::other_texts(conversation) {
            if let Some(token) = spelled(tokenizer, &other) {
                return Err(refused(token));
            }
        }
        let mut whole = SplicedTokens::default();
        media.encode(tokenizer, &text, TRUSTED, &mut whole);
        let parts = (&contents[..], &text[..]);
        let made = match encode_apart(tokenizer, parts, media, render) {
            Some(apart)
                if controls(tokenizer, &apart.tokens).ne(controls(tokenizer, &whole.tokens)) =>
            {
                apart
            }
            Some(_) => whole,
            None => match contents.iter().find_map(|text| spelled(tokenizer, text)) {
                Some(token) => return Err(refused(token)),
                None => whole,
            },
        };
        let before = made.tokens.len();
        let tokens = begin(tokenizer, made.tokens);
        let mut images = made.runs;
        for run in &mut images {
            run.start += tokens.len() - before;
        }
        Ok(RenderedPrompt {
            tokens,
            text,
            images,
            ..RenderedPrompt::default()
        })
    }

    fn render(
        &self,
        tokenizer: &Tokenizer,
        conversation: &Conversation<'_>,
        input: TemplateInput,
        contents: &[&str],
    ) -> Result<String, PromptError> {
        let now = conversation.now;
        match &self.language {
            Language::Jinja(template) => {
                let options = RenderOptions {
                    now,
                    ..RenderOptions::default()
                };
                let context = values::context(tokenizer, conversation, contents, input);
                let text = template.render(&context, &options);
                text.map_err(PromptError::Render)
            }
            Language::Go(template) => {
                let options = GoOptions {
                    now,
                    ..GoOptions::default()
                };
                let text = template.chat(&go_values::chat(conversation, contents), &options);
                text.map_err(PromptError::GoRender)
            }
        }
    }
}

/// The template's text and the messages encoded apart. `None` where the template does not write each message once,
/// as it is or without the white space around it.
fn encode_apart(
    tokenizer: &Tokenizer,
    (contents, text): (&[&str], &str),
    media: &Media,
    render: impl Fn(&[&str]) -> Result<String, PromptError>,
) -> Option<SplicedTokens> {
    let marks: Vec<String> = (0..contents.len())
        .map(|index| format!("Message{index}Ends"))
        .collect();
    // A message that says nothing stays silent: templates leave such parts out.
    let marked: Vec<&str> = marks
        .iter()
        .zip(contents)
        .map(|(mark, content)| if content.is_empty() { "" } else { mark })
        .collect();
    let rendered = render(&marked).ok()?;
    let mut places = Vec::new();
    for (index, mark) in marked
        .iter()
        .enumerate()
        .filter(|(_, mark)| !mark.is_empty())
    {
        let mut found = rendered.match_indices(mark);
        let (at, _) = found.next()?;
        if found.next().is_some() {
            return None;
        }
        places.push((at, index));
    }
    places.sort_unstable();

    let trimmed: Vec<&str> = contents.iter().map(|text| text.trim()).collect();
    [contents, &trimmed].into_iter().find_map(|contents| {
        let (mut joined, mut made, mut end) = (String::new(), SplicedTokens::default(), 0);
        for &(at, index) in &places {
            let own = &rendered[end..at];
            media.encode(tokenizer, own, TRUSTED, &mut made);
            media.encode(tokenizer, contents[index], PLAIN, &mut made);
            joined.push_str(own);
            joined.push_str(contents[index]);
            end = at + marks[index].len();
        }
        let own = &rendered[end..];
        media.encode(tokenizer, own, TRUSTED, &mut made);
        joined.push_str(own);
        (joined == text).then_some(made)
    })
}

pub(crate) fn controls<'a>(
    tokenizer: &'a Tokenizer,
    tokens: &'a [u32],
) -> impl Iterator<Item = u32> + 'a {
    tokens
        .iter()
        .copied()
        .filter(|&id| is_control(tokenizer, id))
}

fn is_control(tokenizer: &Tokenizer, id: u32) -> bool {
    matches!(
        tokenizer.kind(id),
        Some(TokenKind::Control | TokenKind::Unknown)
    )
}

/// A control token that a text spells.
fn spelled<'a>(tokenizer: &'a Tokenizer, text: &str) -> Option<&'a str> {
    let tokens = tokenizer.encode(text, TRUSTED);
    // The unknown token also stands for what the vocabulary cannot spell.
    let spelled = tokens.into_iter().filter_map(|id| {
        tokenizer
            .token_text(id)
            .filter(|_| is_control(tokenizer, id))
    });
    spelled.into_iter().find(|token| text.contains(token))
}

/// Messages for a template that knows no tools: the system prompt tells of them, and past calls stand in the text.
fn explain_tools(messages: &[Message], tools: &[Tool]) -> Vec<Message> {
    let list = Json::array(tools.iter().map(values::tool_json));
    let explained = format!(
        "You can call tools. To call one or more, answer with nothing but a JSON list like \
         [{{\"name\": \"the tool's name\", \"arguments\": {{}}}}]. The tools: {list}"
    );
    let mut told = Vec::with_capacity(messages.len() + 1);
    let (system, rest) = match messages {
        [first, rest @ ..] if first.role == Role::System => (first.joined(), rest),
        all => (String::new(), all),
    };
    let system = if system.is_empty() {
        explained
    } else {
        format!("{system}\n\n{explained}")
    };
    told.push(Message::text(Role::System, system));
    told.extend(rest.iter().map(told_in_text));
    told
}

/// A message with its calls in the text.
fn told_in_text(message: &Message) -> Message {
    if message.tool_calls.is_empty() {
        return message.clone();
    }
    let calls = Json::array(message.tool_calls.iter().map(|call| {
        Json::object([
            ("name", call.name.as_str().into()),
            ("arguments", call.arguments.clone()),
        ])
    }));
    let text = message.joined();
    let text: Cow<'_, str> = if text.is_empty() {
        calls.text().into()
    } else {
        format!("{text}\n{calls}").into()
    };
    Message::text(message.role, text)
}

#[cfg(test)]
mod tests;
