//! Thinking: whether a model is asked to, and the marks between which it does.

use crate::prompt::RenderedPrompt;
use alloc::format;
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// Whether a model thinks before it answers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Thinking {
    /// As its template does by itself.
    #[default]
    Default,
    /// No.
    Off,
    /// Yes, with so many tokens at most if given.
    On {
        /// Tokens for it.
        budget: Option<usize>,
    },
    /// Yes, this much.
    Effort(Effort),
}

impl Thinking {
    /// What is asked of a model whose answer has a given form. The form begins at the answer, so the model is asked not
    /// to think unless that was asked for.
    pub fn before_form(self) -> Self {
        match self {
            Self::Default => Self::Off,
            asked => asked,
        }
    }
}

/// How much a model thinks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
}

impl Effort {
    /// The word that templates and clients know.
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
    /// Before.
    pub begin: &'static str,
    /// After.
    pub end: &'static str,
}

impl ThinkingMarks {
    const ALL: [Self; 5] = [
        Self {
            begin: "<think>",
            end: "</think>",
        },
        Self {
            begin: "<seed:think>",
            end: "</seed:think>",
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

    /// The marks that a chat template knows.
    pub fn of_template(template: &str) -> Option<Self> {
        let knows = |marks: &Self| template.contains(marks.begin) || template.contains(marks.end);
        Self::ALL.into_iter().find(knows)
    }

    /// Whether a prompt ends where the model thinks.
    pub fn opened_by(self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.begin)
    }

    /// Closes the thinking that a prompt left open, so that an answer of a given form can follow. Says whether it was
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
