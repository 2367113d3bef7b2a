//! What preparing requests needs to know about a model.

use crate::media::{Ears, Senses, Sight};
use crate::prompt::{ChatTemplate, PromptError};
use crate::sampling::{self, Sampling};
use crate::thinking::ThinkingMarks;
use crate::{Capability, Message, RankPrompt};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_engine::sampling::SamplerSettings;
use strata_engine::{Pooling, Speculation};
use strata_tokenizer::Tokenizer;

/// A model's tokenizer, template and defaults.
#[derive(Debug)]
pub struct ModelProfile {
    /// The tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The chat template, or why it cannot be used; `None` if there is none.
    pub template: Option<Result<ChatTemplate, PromptError>>,
    /// The marks around the model's thinking.
    pub thinking: Option<ThinkingMarks>,
    /// The context length.
    pub context: usize,
    /// Default sampling settings.
    pub sampling: Sampling,
    /// Default stop sequences.
    pub stop: Vec<String>,
    /// Default limit of generated tokens.
    pub max_tokens: Option<usize>,
    /// The system prompt of conversations that have none.
    pub system: Option<String>,
    /// Messages that begin every conversation.
    pub messages: Vec<Message>,
    /// Whether the model is an encoder, which embeds texts and generates none.
    pub encoder: bool,
    /// The token that begins an answer, in encoder-decoders, whose prompts are sources.
    pub start: Option<u32>,
    /// Default pooling of embeddings.
    pub pooling: Pooling,
    /// Scores that its classifier gives a text; 0 without one.
    pub labels: usize,
    /// How a query and a document are put to its classifier, if that is trained to judge a prompt.
    pub rank_prompt: Option<RankPrompt>,
    /// How tokens are drafted ahead. Answers do not depend on it.
    pub speculation: Speculation,
    /// What turns images into parts of a prompt, in models that see.
    pub sight: Option<Arc<dyn Sight>>,
    /// What turns audio into parts of a prompt, in models that hear.
    pub ears: Option<Arc<dyn Ears>>,
}

impl ModelProfile {
    /// A profile without defaults; `template` is in Jinja.
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
            start: None,
            pooling: Pooling::Mean,
            labels: 0,
            rank_prompt: None,
            speculation: Speculation::Off,
            sight: None,
            ears: None,
        }
    }

    /// The same profile with a template in Go's template language, for one request.
    pub fn for_template(&self, source: &str) -> Self {
        let profile = Self {
            tokenizer: Arc::clone(&self.tokenizer),
            template: None,
            thinking: None,
            context: self.context,
            sampling: self.sampling.clone(),
            stop: self.stop.clone(),
            max_tokens: self.max_tokens,
            system: self.system.clone(),
            messages: self.messages.clone(),
            encoder: self.encoder,
            start: self.start,
            pooling: self.pooling,
            labels: self.labels,
            rank_prompt: self.rank_prompt.clone(),
            speculation: self.speculation,
            sight: self.sight.clone(),
            ears: self.ears.clone(),
        };
        profile.with_go_template(source)
    }

    /// What the model perceives with.
    pub(crate) fn senses(&self) -> Senses<'_> {
        Senses {
            sight: self.sight.as_deref(),
            ears: self.ears.as_deref(),
        }
    }

    /// Replaces the template by one in Go's template language, as Modelfiles have them.
    pub fn with_go_template(mut self, source: &str) -> Self {
        self.template = Some(ChatTemplate::go(source));
        self.thinking = ThinkingMarks::of_template(source);
        self
    }

    /// Makes a text's tokens a source with the beginning of an answer after it, where the model reads sources. Tokens that
    /// have such a beginning already stay as they are; `text` has the end that the model wants put after it.
    pub fn end_source(&self, tokens: &mut Vec<u32>, text: bool) {
        let Some(start) = self.start.filter(|start| !tokens.contains(start)) else {
            return;
        };
        let tokenizer = &*self.tokenizer;
        let end = tokenizer.special().eos;
        let end = end.filter(|end| text && tokenizer.added().eos && tokens.last() != Some(end));
        tokens.extend(end);
        tokens.push(start);
    }

    /// The engine's sampling settings: those of `asked`, else the model's, else [`Sampling::defaults`]; `seed` is for
    /// requests without one.
    pub fn sampling_settings(&self, asked: &Sampling, seed: u64) -> SamplerSettings {
        sampling::settings(asked, &self.sampling, seed, &self.tokenizer)
    }

    /// The model's capabilities.
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
            (self.sight.is_some(), Capability::Vision),
            (self.ears.is_some(), Capability::Audio),
            (self.thinking.is_some(), Capability::Thinking),
        ] {
            if can {
                list.push(capability);
            }
        }
        list
    }
}
