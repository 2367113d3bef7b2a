//! The prompts of a request, as the model sees them.

use super::infill::infill;
use super::tool_use::ToolUse;
use super::{context_length, refused};
use crate::fault::{Fault, FaultKind};
use crate::message::{ContentPart, Message, Role};
use crate::model_profile::ModelProfile;
use crate::prompt::{self, Conversation, PromptError, RenderedPrompt};
use crate::request::{Generate, Prompt, PromptPart};
use crate::shorten::{prompt_room, shorten};
use crate::splitter::SplitOptions;
use crate::tools::schemas::ArgumentSchemas;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use strata_template::jinja::DateTime;
use strata_tokenizer::{DecodeOptions, EncodeOptions};

/// Renders and tokenizes the prompts of a request.
pub(super) struct PromptMaker<'r> {
    pub(super) request: &'r Generate,
    pub(super) profile: &'r ModelProfile,
    pub(super) tools: &'r ToolUse<'r>,
    pub(super) now: Option<DateTime>,
}

/// A prompt, and how to parse its answer.
pub(super) struct MadePrompt {
    pub(super) prompt: RenderedPrompt,
    pub(super) split: SplitOptions,
    /// The number of messages dropped to make it fit.
    pub(super) dropped: usize,
}

impl PromptMaker<'_> {
    /// Makes a prompt.
    pub(super) fn make(&self, asked: &Prompt) -> Result<MadePrompt, Fault> {
        let made = match asked {
            Prompt::Chat(messages) => {
                self.profile.check_messages(messages.len())?;
                self.chat(messages)
            }
            Prompt::Raw(parts) => self.raw(parts),
            Prompt::Infill {
                prefix,
                suffix,
                files,
            } => {
                let files_bytes = files.iter().map(|(name, text)| name.len() + text.len());
                let bytes = prefix.len() + suffix.len() + files_bytes.sum::<usize>();
                let positions = context_length(self.request, self.profile)?;
                self.profile.check_text(bytes, positions)?;
                infill(self.profile, prefix, suffix, files)
            }
        };
        let (mut prompt, dropped) = if self.request.truncate {
            self.shorten(asked, made)?
        } else {
            (made?, 0)
        };
        let split = match asked {
            Prompt::Chat(_) => self.split(&mut prompt),
            _ => SplitOptions::default(),
        };
        self.follow(&mut prompt);
        let is_tokens = |part: &PromptPart| matches!(part, PromptPart::Tokens(_));
        let text = !matches!(asked, Prompt::Raw(parts) if parts.iter().all(is_tokens));
        self.profile.end_source(&mut prompt.tokens, text);
        Ok(MadePrompt {
            prompt,
            split,
            dropped,
        })
    }

    fn chat(&self, messages: &[Message]) -> Result<RenderedPrompt, Fault> {
        let template = match &self.profile.template {
            Some(Ok(template)) => template,
            Some(Err(error)) => return Err(refused(error)),
            None if self.profile.start.is_some() => return self.source(messages),
            None => {
                return Err(Fault::bad_request(
                    "the model has no chat template: give it a text to complete instead",
                ));
            }
        };
        let opened;
        // The earlier tokens have the opening.
        let messages = if self.request.before.is_empty() && self.request.preset {
            opened = self.with_opening(messages);
            &opened
        } else {
            messages
        };
        let positions = context_length(self.request, self.profile)?;
        let bytes = messages.iter().map(text_bytes).sum();
        self.profile.check_text(bytes, positions)?;
        let thinking = self.request.thinking;
        let conversation = Conversation {
            messages,
            tools: &self.tools.shown,
            thinking: if self.tools.constrains(self.request) {
                thinking.when_constrained()
            } else {
                thinking
            },
            continues: self.request.continues,
            closed: self.request.closed,
            now: self.now,
            room: Some(self.profile.text_room(positions)),
            senses: self.profile.senses(),
        };
        let prompt = template.prompt(&self.profile.tokenizer, &conversation);
        prompt.map_err(|error| match error {
            PromptError::TooLong { bytes } => {
                let refusal = self.profile.check_text(bytes, positions);
                refusal.err().unwrap_or_else(|| refused(&error))
            }
            error => refused(&error),
        })
    }

    /// The source of a model that knows no conversations: what is said in one, a line for each message.
    fn source(&self, messages: &[Message]) -> Result<RenderedPrompt, Fault> {
        let opens = self.request.before.is_empty() && self.request.preset;
        let opened = if opens {
            self.with_opening(messages)
        } else {
            messages.to_vec()
        };
        let mut lines = Vec::new();
        for part in opened.iter().flat_map(|message| &message.parts) {
            match part {
                ContentPart::Text(text) => lines.push(text.as_str()),
                ContentPart::Image(_) | ContentPart::ImageUrl(_) => {
                    return Err(refused(&PromptError::Picture));
                }
                ContentPart::Audio(_) => return Err(refused(&PromptError::Audio)),
            }
        }
        self.raw(&[PromptPart::Text(lines.join("\n"))])
    }

    fn raw(&self, parts: &[PromptPart]) -> Result<RenderedPrompt, Fault> {
        let tokenizer = &*self.profile.tokenizer;
        // The prompt is all there is, so control tokens in it are read as such.
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let mut prompt = RenderedPrompt::default();
        for part in parts {
            match part {
                PromptPart::Text(text) => {
                    let text = self.within(text)?;
                    prompt.tokens.extend(tokenizer.encode(&text, options));
                    prompt.text.push_str(&text);
                }
                PromptPart::Tokens(tokens) => {
                    let spelled = DecodeOptions { show_special: true };
                    prompt.text.push_str(&tokenizer.decode(tokens, spelled));
                    prompt.tokens.extend(tokens);
                }
            }
        }
        let is_text = |part: &PromptPart| matches!(part, PromptPart::Text(_));
        if self.request.bos && parts.iter().any(is_text) {
            let before = prompt.tokens.len();
            prompt.tokens = prompt::begin(tokenizer, prompt.tokens);
            prompt.added = prompt.tokens.len() - before;
        }
        if prompt.tokens.is_empty() && self.request.before.is_empty() {
            return Err(Fault::bad_request("the prompt is empty"));
        }
        Ok(prompt)
    }

    /// A text that could fit the context. Of a longer one that may be shortened, the parts that shortening would keep.
    fn within<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Fault> {
        let positions = context_length(self.request, self.profile)?;
        let room = self.profile.text_room(positions);
        if !self.request.truncate {
            self.profile.check_text(text.len(), positions)?;
        }
        let keep = match self.request.keep.unwrap_or(0) {
            0 => 0,
            tokens => self.profile.text_room(tokens.min(positions)),
        };
        if text.len() <= room.saturating_add(keep) {
            return Ok(text.into());
        }
        let start = &text[..text.floor_char_boundary(keep)];
        let end = &text[text.ceil_char_boundary(text.len() - room)..];
        Ok([start, end].concat().into())
    }

    /// Shortens a prompt to leave room for the answer: drops a conversation's oldest exchanges or a text's beginning, and
    /// cuts what is still too long where the request says so.
    /// Also returns the number of messages dropped.
    fn shorten(
        &self,
        asked: &Prompt,
        made: Result<RenderedPrompt, Fault>,
    ) -> Result<(RenderedPrompt, usize), Fault> {
        let context = context_length(self.request, self.profile)?;
        let most = self.request.max_tokens.or(self.profile.max_tokens);
        let room = prompt_room(context, most);
        let mut dropped = 0;
        let too_long = |fault: &Fault| matches!(fault.kind, FaultKind::ContextExceeded { .. });
        let prompt = match (made, asked) {
            (Ok(prompt), _) if prompt.tokens.len() <= room => return Ok((prompt, dropped)),
            (Err(fault), _) if !too_long(&fault) => return Err(fault),
            (_, Prompt::Chat(messages)) => {
                let fits = |messages: &[Message]| match self.chat(messages) {
                    Ok(prompt) => Ok(prompt.tokens.len() <= room),
                    Err(fault) if too_long(&fault) => Ok(false),
                    Err(fault) => Err(fault),
                };
                let kept = shorten(messages, fits)?;
                dropped = messages.len() - kept.len();
                let prompt = self.chat(&kept)?;
                if prompt.tokens.len() <= room || self.request.keep.is_none() {
                    return Ok((prompt, dropped));
                }
                Ok(prompt)
            }
            (made, _) => made,
        };
        let mut prompt = prompt?;
        if !prompt.images.is_empty() {
            return Err(Fault::new(
                FaultKind::ContextExceeded {
                    prompt_tokens: prompt.tokens.len(),
                    context,
                },
                "a prompt with images or audio cannot be cut: its last message does not fit the context",
            ));
        }
        let keep = self.request.keep.unwrap_or(0).min(room - 1);
        let cut = prompt.tokens.len() - room;
        prompt.tokens.drain(keep..keep + cut);
        Ok((prompt, dropped))
    }

    /// How to parse the answer. Closes thinking that the prompt opens if a constraint follows.
    fn split(&self, prompt: &mut RenderedPrompt) -> SplitOptions {
        let thinking = self.profile.thinking;
        if self.tools.constrains(self.request)
            && let Some(marks) = thinking
        {
            marks.close(prompt, &self.profile.tokenizer);
        }
        let allowed = self.tools.allowed.iter();
        SplitOptions {
            thinking,
            begins_thinking: thinking.is_some_and(|marks| marks.opened_by(&prompt.text)),
            calls: self.tools.format,
            schemas: ArgumentSchemas::of(allowed.clone().copied()),
            tools: allowed.map(|tool| tool.name.clone()).collect(),
            explained: match &self.profile.template {
                Some(Ok(template)) => !template.shows_tools(),
                _ => true,
            },
            only_calls: self.tools.required,
        }
    }

    /// The conversation after the model's own messages, and its system prompt if the client has none.
    fn with_opening(&self, messages: &[Message]) -> Vec<Message> {
        let has_system = messages.iter().any(|m| m.role == Role::System);
        let system = self.profile.system.iter().filter(|_| !has_system);
        let system = system.map(|text| Message::text(Role::System, text.clone()));
        let opening = system.chain(self.profile.messages.iter().cloned());
        opening.chain(messages.iter().cloned()).collect()
    }

    /// Puts the request's earlier tokens before a prompt, which then needs no BOS token.
    fn follow(&self, prompt: &mut RenderedPrompt) {
        let before = &self.request.before;
        if before.is_empty() {
            return;
        }
        let begins = self.profile.tokenizer.special().bos;
        let removed = prompt.tokens.first().copied() == begins && begins.is_some();
        if removed {
            prompt.tokens.remove(0);
        }
        // What was read and written before is one source with this.
        let before = before.iter().copied();
        let before = before.filter(|token| Some(*token) != self.profile.start);
        let before: Vec<u32> = before.collect();
        for run in &mut prompt.images {
            run.start = run.start + before.len() - usize::from(removed);
        }
        prompt.tokens.splice(0..0, before);
    }
}

/// Bytes of what a message says.
fn text_bytes(message: &Message) -> usize {
    let parts = message.parts.iter().map(|part| match part {
        ContentPart::Text(text) => text.len(),
        ContentPart::Image(_) | ContentPart::ImageUrl(_) | ContentPart::Audio(_) => 0,
    });
    parts.sum::<usize>() + message.thinking.as_ref().map_or(0, |text| text.len())
}
