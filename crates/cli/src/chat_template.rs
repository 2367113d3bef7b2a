//! A model's chat template, with what the program knows around it: its tokenizer, the time, and failures in its own words.

use crate::failure::{Failure, Kind};
use std::time::{SystemTime, UNIX_EPOCH};
use strata::load::TemplateText;
use strata_chat::prompt::{self, Conversation, PromptError};
use strata_chat::{Message, SplitOptions, Thinking, ThinkingMarks};
use strata_template::jinja::DateTime;
use strata_tokenizer::Tokenizer;

/// A prompt, and how its answer is told apart from what the model thinks.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) tokens: Vec<u32>,
    pub(crate) split: SplitOptions,
}

/// A model's template with its tokenizer.
pub(crate) struct ChatTemplate<'t> {
    template: prompt::ChatTemplate,
    thinking: Option<ThinkingMarks>,
    tokenizer: &'t Tokenizer,
    now: Option<DateTime>,
}

impl<'t> ChatTemplate<'t> {
    pub(crate) fn new(text: &TemplateText, tokenizer: &'t Tokenizer) -> Result<Self, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let template = match text {
            TemplateText::Jinja(source) => prompt::ChatTemplate::new(source),
            TemplateText::Go(source) => prompt::ChatTemplate::go(source),
        };
        Ok(Self {
            template: template.map_err(unusable)?,
            thinking: ThinkingMarks::of_template(text.source()),
            tokenizer,
            now: now.map(|since| DateTime::from_unix(since.as_secs() as i64)),
        })
    }

    /// A prompt that asks for the next answer.
    pub(crate) fn encode(
        &self,
        messages: &[Message],
        thinking: Thinking,
    ) -> Result<Asked, Failure> {
        let conversation = Conversation {
            messages,
            thinking,
            now: self.now,
            ..Conversation::default()
        };
        let prompt = self.template.prompt(self.tokenizer, &conversation);
        let prompt = prompt.map_err(unusable)?;
        let opened = |marks: ThinkingMarks| marks.opened_by(&prompt.text);
        Ok(Asked {
            split: SplitOptions {
                thinking: self.thinking,
                begins_thinking: self.thinking.is_some_and(opened),
                calls: Some(self.template.calls()).filter(|calls| calls.names_recipients()),
                tools: Vec::new(),
            },
            tokens: prompt.tokens,
        })
    }
}

fn unusable(error: PromptError) -> Failure {
    let kind = match error {
        PromptError::Template(_) | PromptError::GoTemplate(_) => Kind::BadModel,
        PromptError::SpelledToken { .. } | PromptError::Picture => Kind::Usage,
        _ => Kind::Failed,
    };
    let failure = Failure::new(kind, &error);
    match kind {
        Kind::Usage => failure,
        _ => failure.hint("--raw continues the text without a template"),
    }
}
