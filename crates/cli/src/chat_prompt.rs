//! From messages to the tokens of a prompt, through the model's chat template.
//!
//! A template writes control tokens such as `<|im_end|>` as text, so its output is encoded with control tokens read as
//! such. A message that spells one must not end its own turn and speak for someone else: where the messages would add a
//! control token, the template's own text and the messages are encoded apart, the messages as plain text. Where they
//! would not, the whole is encoded at once, as everybody does it: cutting would change the tokens at the seams.

use crate::failure::{Failure, Kind};
use std::time::{SystemTime, UNIX_EPOCH};
use strata_token::template::{DateTime, RenderOptions, Template, TemplateError, Value};
use strata_token::tokenizer::{EncodeOptions, TokenKind, Tokenizer};

/// Who speaks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// What was said.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) content: String,
}

/// A model's template with its special tokens.
pub(crate) struct ChatTemplate<'t> {
    template: Template,
    tokenizer: &'t Tokenizer,
    options: RenderOptions,
}

const TRUSTED: EncodeOptions = EncodeOptions {
    add_special: false,
    parse_special: true,
};
const PLAIN: EncodeOptions = EncodeOptions {
    add_special: false,
    parse_special: false,
};

/// The tokens of a text that is continued as it is. It is the whole prompt, so control tokens in it are read as such.
pub(crate) fn raw(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    begin(tokenizer, tokenizer.encode(text, TRUSTED))
}

/// Puts the beginning of a text before it, where the model wants one and it is not there already. No end: the text goes
/// on.
fn begin(tokenizer: &Tokenizer, mut tokens: Vec<u32>) -> Vec<u32> {
    let bos = tokenizer
        .special()
        .bos
        .filter(|_| tokenizer.added().bos)
        .filter(|bos| tokens.first() != Some(bos));
    tokens.splice(0..0, bos);
    tokens
}

impl<'t> ChatTemplate<'t> {
    pub(crate) fn new(source: &str, tokenizer: &'t Tokenizer) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        Ok(Self {
            template: Template::parse(source).map_err(|error| {
                Failure::new(
                    Kind::BadModel,
                    format_args!("the model's chat template cannot be read: {error}"),
                )
                .hint("--raw continues the text without a template")
            })?,
            tokenizer,
            options: RenderOptions {
                now: now.map(|since| DateTime::from_unix(since.as_secs() as i64)),
                ..RenderOptions::default()
            },
        })
    }

    /// The tokens of a prompt that asks for the next answer.
    pub(crate) fn encode(&self, messages: &[Message]) -> Result<Vec<u32>, Failure> {
        let contents: Vec<&str> = messages.iter().map(|m| m.content.as_str()).collect();
        let text = self.render(messages, &contents).map_err(|error| {
            Failure::new(
                Kind::Failed,
                format_args!("the model's chat template failed: {error}"),
            )
            .hint("--raw continues the text without a template")
        })?;
        let whole = self.tokenizer.encode(&text, TRUSTED);
        let tokens = match self.encode_apart(messages, &contents, &text) {
            Some(apart) if self.controls(&apart).ne(self.controls(&whole)) => apart,
            Some(_) => whole,
            None => {
                if let Some(token) = contents.iter().find_map(|text| self.spelled(text)) {
                    return Err(Failure::new(
                        Kind::Usage,
                        format_args!("a message spells the model's control token {token:?}"),
                    )
                    .hint("the model's template changes messages, so that it cannot be told from the template's own tokens: write it differently"));
                }
                whole
            }
        };
        Ok(begin(self.tokenizer, tokens))
    }

    fn render(&self, messages: &[Message], contents: &[&str]) -> Result<String, TemplateError> {
        let messages = messages.iter().zip(contents).map(|(message, &content)| {
            Value::map([
                ("role", message.role.name().into()),
                ("content", content.into()),
            ])
        });
        let special = self.tokenizer.special();
        let text = |id: Option<u32>| {
            id.and_then(|id| self.tokenizer.token_text(id))
                .unwrap_or("")
        };
        let context = Value::map([
            ("messages", Value::list(messages)),
            ("add_generation_prompt", true.into()),
            ("bos_token", text(special.bos).into()),
            ("eos_token", text(special.eos).into()),
        ]);
        self.template.render(&context, &self.options)
    }

    /// The template's text and the messages encoded apart. `None` where the template does not write each message once,
    /// as it is or without the white space around it.
    fn encode_apart(
        &self,
        messages: &[Message],
        contents: &[&str],
        text: &str,
    ) -> Option<Vec<u32>> {
        let marks: Vec<String> = (0..contents.len())
            .map(|index| format!("Message{index}Ends"))
            .collect();
        let marked: Vec<&str> = marks.iter().map(String::as_str).collect();
        let rendered = self.render(messages, &marked).ok()?;
        let mut places = Vec::new();
        for (index, mark) in marks.iter().enumerate() {
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
            let (mut joined, mut tokens, mut end) = (String::new(), Vec::new(), 0);
            for &(at, index) in &places {
                let own = &rendered[end..at];
                tokens.extend(self.tokenizer.encode(own, TRUSTED));
                tokens.extend(self.tokenizer.encode(contents[index], PLAIN));
                joined.push_str(own);
                joined.push_str(contents[index]);
                end = at + marks[index].len();
            }
            let own = &rendered[end..];
            tokens.extend(self.tokenizer.encode(own, TRUSTED));
            joined.push_str(own);
            (joined == text).then_some(tokens)
        })
    }

    fn controls(&self, tokens: &[u32]) -> impl Iterator<Item = u32> {
        tokens.iter().copied().filter(|&id| self.is_control(id))
    }

    fn is_control(&self, id: u32) -> bool {
        matches!(
            self.tokenizer.kind(id),
            Some(TokenKind::Control | TokenKind::Unknown)
        )
    }

    /// A control token that a text spells.
    fn spelled(&self, text: &str) -> Option<&str> {
        let tokens = self.tokenizer.encode(text, TRUSTED);
        // The unknown token also stands for what the vocabulary cannot spell.
        let spelled = tokens.into_iter().filter_map(|id| {
            self.tokenizer
                .token_text(id)
                .filter(|_| self.is_control(id))
        });
        spelled.into_iter().find(|token| text.contains(token))
    }
}

#[cfg(test)]
mod tests;
