//! What a server knows of a model beside its weights.

use crate::prompt::{ChatTemplate, PromptError};
use crate::sampling::{self, Sampling};
use crate::thinking::ThinkingMarks;
use crate::{Capability, Message};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_engine::Pooling;
use strata_engine::sampling::SamplerSettings;
use strata_tokenizer::Tokenizer;

/// A model as requests see it.
#[derive(Debug)]
pub struct ModelProfile {
    /// Its tokens.
    pub tokenizer: Arc<Tokenizer>,
    /// Its chat template, or why it cannot be used; `None` if it has none.
    pub template: Option<Result<ChatTemplate, PromptError>>,
    /// The marks around its thinking.
    pub thinking: Option<ThinkingMarks>,
    /// Positions of a sequence.
    pub context: usize,
    /// How tokens are chosen where a request does not say.
    pub sampling: Sampling,
    /// Texts that end its answers, where a request has none.
    pub stop: Vec<String>,
    /// Tokens of an answer at most, where a request does not say.
    pub max_tokens: Option<usize>,
    /// A system prompt for conversations that bring none, and messages that come before them.
    pub system: Option<String>,
    /// Messages that every conversation begins with.
    pub messages: Vec<Message>,
    /// Whether it reads texts as a whole instead of continuing them.
    pub encoder: bool,
    /// How a text's states become its embedding, where a request does not say.
    pub pooling: Pooling,
}

impl ModelProfile {
    /// A model that is nothing but its file.
    pub fn new(tokenizer: Arc<Tokenizer>, template: Option<&str>, context: usize) -> Self {
        Self {
            tokenizer,
            template: template.map(ChatTemplate::new),
            thinking: template.and_then(ThinkingMarks::of_template),
            context,
            sampling: Sampling::default(),
            stop: Vec::new(),
            max_tokens: None,
            system: None,
            messages: Vec::new(),
            encoder: false,
            pooling: Pooling::Mean,
        }
    }

    /// The model with a template in Go's language, as Modelfiles have it.
    pub fn with_go_template(mut self, source: &str) -> Self {
        self.template = Some(ChatTemplate::go(source));
        self.thinking = ThinkingMarks::of_template(source);
        self
    }

    /// The engine's settings for what was asked, with the model's own where nothing was; `seed` is for those who give none.
    pub fn sampling_settings(&self, asked: &Sampling, seed: u64) -> SamplerSettings {
        let layers = [asked, &self.sampling, &Sampling::default()];
        sampling::settings(layers, seed, &self.tokenizer)
    }

    /// What the model can do.
    pub fn capabilities(&self) -> Vec<Capability> {
        if self.encoder {
            return [Capability::Embedding].into();
        }
        let special = self.tokenizer.special();
        let own = |holds: fn(&ChatTemplate) -> bool| matches!(&self.template, Some(Ok(template)) if holds(template));
        let infills = special.fim_pre.is_some() && special.fim_suf.is_some();
        let infills = infills || own(ChatTemplate::fills_gaps);
        let calls = own(ChatTemplate::teaches_tools);
        let mut list = Vec::from([Capability::Completion]);
        for (can, capability) in [
            (calls, Capability::Tools),
            (infills, Capability::Insert),
            (self.thinking.is_some(), Capability::Thinking),
        ] {
            if can {
                list.push(capability);
            }
        }
        list
    }
}
