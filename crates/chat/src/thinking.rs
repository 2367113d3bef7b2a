//! Thinking: whether a model is asked to, and the marks around it.

use crate::prompt::RenderedPrompt;
use alloc::format;
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// Whether the model thinks before it answers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// As the chat template does by default.
    #[default]
    Default,
    /// No.
    Off,
    /// Yes, with a limit of tokens if given.
    On {
        /// The most tokens to think.
        budget: Option<usize>,
    },
    /// Yes, with this effort.
    Effort(Effort),
}

impl Thinking {
    /// The setting for a constrained answer. Constraints begin at the answer, so the model does not think unless that
    /// was asked for.
    pub fn when_constrained(self) -> Self {
        match self {
            Self::Default => Self::Off,
            asked => asked,
        }
    }
}

/// How much a model thinks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl Effort {
    /// The name templates and clients know.
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

/// The marks around a model's thinking.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ThinkingMarks {
    /// Before thinking.
    pub begin: &'static str,
    /// After thinking.
    pub end: &'static str,
}

impl ThinkingMarks {
    const ALL: [Self; 8] = [
        Self {
            begin: "<mm:think>",
            end: "</mm:think>",
        },
        Self {
            begin: "Here are my reasoning steps:",
            end: "[BEGIN FINAL RESPONSE]",
        },
        Self {
            begin: "<think>",
            end: "</think>",
        },
        Self {
            begin: "<seed:think>",
            end: "</seed:think>",
        },
        Self {
            begin: "<|channel>thought",
            end: "<channel|>",
        },
        Self {
            begin: "[THINK]",
            end: "[/THINK]",
        },
        Self {
            begin: "<|START_THINKING|>",
            end: "<|END_THINKING|>",
        },
        Self {
            begin: "<|inner_prefix|>",
            end: "<|inner_suffix|>",
        },
    ];
    /// Its template puts the marks together from parts.
    const HUNYUAN3: Self = Self {
        begin: "<think:opensource>",
        end: "</think:opensource>",
    };

    /// The marks that a chat template uses.
    pub fn of_template(template: &str) -> Option<Self> {
        let knows = |marks: &Self| template.contains(marks.begin) || template.contains(marks.end);
        if template.contains("<think{}>") {
            return Some(Self::HUNYUAN3);
        }
        Self::ALL.into_iter().find(knows)
    }

    /// Whether a prompt ends with open thinking.
    pub fn opened_by(self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.begin)
    }

    /// Closes the thinking that a prompt leaves open, so that a constrained answer can follow. Returns whether it was
    /// open.
    pub fn close(self, prompt: &mut RenderedPrompt, tokenizer: &Tokenizer) -> bool {
        let open = self.opened_by(&prompt.text);
        if open {
            let end = format!("{}\n\n", self.end);
            let options = EncodeOptions {
                add_special: false,
                parse_special: true,
            };
            prompt.tokens.extend(tokenizer.encode(&end, options));
            prompt.text.push_str(&end);
        }
        open
    }
}
