//! The prompts of a request, as the model sees them.

use super::infill::infill;
use super::tool_use::ToolUse;
use super::{context_length, refused};
use crate::fault::Fault;
use crate::message::{Message, Role};
use crate::model_profile::ModelProfile;
use crate::prompt::{self, Conversation, RenderedPrompt};
use crate::request::{Generate, Prompt, PromptPart};
use crate::shorten::{prompt_room, shorten};
use crate::splitter::SplitOptions;
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
        let mut prompt = match asked {
            Prompt::Chat(messages) => self.chat(messages)?,
            Prompt::Raw(parts) => self.raw(parts)?,
            Prompt::Infill {
                prefix,
                suffix,
                files,
            } => infill(self.profile, prefix, suffix, files)?,
        };
        let mut dropped = 0;
        if self.request.truncate {
            (prompt, dropped) = self.shorten(asked, prompt)?;
        }
        let split = match asked {
            Prompt::Chat(_) => self.split(&mut prompt),
            _ => SplitOptions::default(),
        };
        self.follow(&mut prompt);
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
        };
        let prompt = template.prompt(&self.profile.tokenizer, &conversation);
        prompt.map_err(|error| refused(&error))
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
                    prompt.tokens.extend(tokenizer.encode(text, options));
                    prompt.text.push_str(text);
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

    /// Shortens a prompt to leave room for the answer: drops a conversation's oldest exchanges or a text's beginning, and
    /// cuts what is still too long where the request says so.
    /// Also returns the number of messages dropped.
    fn shorten(
        &self,
        asked: &Prompt,
        mut prompt: RenderedPrompt,
    ) -> Result<(RenderedPrompt, usize), Fault> {
        let context = context_length(self.request, self.profile)?;
        let most = self.request.max_tokens.or(self.profile.max_tokens);
        let room = prompt_room(context, most);
        let mut dropped = 0;
        if prompt.tokens.len() <= room {
            return Ok((prompt, dropped));
        }
        if let Prompt::Chat(messages) = asked {
            let fits = |messages: &[Message]| Ok(self.chat(messages)?.tokens.len() <= room);
            let kept = shorten(messages, fits)?;
            dropped = messages.len() - kept.len();
            prompt = self.chat(&kept)?;
            if prompt.tokens.len() <= room || self.request.keep.is_none() {
                return Ok((prompt, dropped));
            }
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
            tools: allowed.map(|tool| tool.name.clone()).collect(),
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
        if prompt.tokens.first().copied() == begins && begins.is_some() {
            prompt.tokens.remove(0);
        }
        prompt.tokens.splice(0..0, before.iter().copied());
    }
}
