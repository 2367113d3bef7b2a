//! Guessing tokens ahead, so that one pass over the weights can yield several.
//!
//! Decoding reads every weight for every token, and a machine waits for its memory long before its arithmetic is
//! busy: a few more tokens in the same batch cost little. So a cheap drafter proposes how the text may go on, the model
//! computes the pending token and the whole draft in one `forward`, and the rows of logits tell how far the draft was
//! right.
//!
//! # Why nothing changes
//!
//! A row of logits has the same bits whatever else is in the batch, and a sampler's choice is a function of the logits,
//! the seed and the position. So each row is sampled as if nothing had been drafted, in order, for as long as the
//! choice is the token that was drafted; the first that is not becomes the next token, and what was computed after it
//! is forgotten. The answer is the one of plain decoding, greedy or with a seed, with penalties, stop texts and
//! log-probabilities: a wrong draft costs time, never a token.
//!
//! # The drafters
//!
//! - [prompt lookup](prompt_lookup): the text's last tokens stood earlier in it; what followed there may follow here.
//!   It costs nothing and pays where an answer repeats its prompt: edits, quotes, code, tables. It also looks into the
//!   client's other sequences and [its recent texts](recollection), and learns apart how much these are worth.
//! - [a draft model](draft_model): a small model of the same vocabulary proposes what it finds likeliest, for all
//!   requests side by side. (Drawing its tokens with the request's sampler and random numbers is right less often.)
//!
//! # How far to guess
//!
//! Each request keeps [how often its drafts were right](draft_length) and drafts as far as the next token is likely enough to
//! pay for its computation; drafts that fail stop, and are tried again now and then.

pub(crate) mod draft_length;
pub(crate) mod draft_model;
pub(crate) mod prompt_lookup;
pub(crate) mod recollection;

use draft_length::DraftLength;
use draft_model::DraftModel;
use prompt_lookup::PromptLookup;

pub use draft_model::VocabularyMismatch;

/// How a request guesses tokens ahead. The answer is the same with each.
///
/// `max_draft` is the most to guess at a time; the engine's own limit ([`Engine::with_speculation`]) holds too.
///
/// [`Engine::with_speculation`]: crate::Engine::with_speculation
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Speculation {
    /// Not at all.
    #[default]
    Off,
    /// From the text itself, and from other texts of its client.
    PromptLookup {
        /// Tokens to guess at a time, at most.
        max_draft: usize,
    },
    /// With the engine's draft model.
    DraftModel {
        /// Tokens to guess at a time, at most.
        max_draft: usize,
    },
}

/// One request's drafter and what it has learned.
#[derive(Clone)]
pub(crate) enum Drafter {
    Off,
    Lookup {
        lookup: PromptLookup,
        most: usize,
    },
    Model {
        draft_length: DraftLength,
        most: usize,
    },
}

impl Drafter {
    /// A drafter that guesses no more than `most` tokens.
    pub(crate) fn new(speculation: Speculation, most: usize) -> Self {
        match speculation {
            Speculation::Off => Self::Off,
            Speculation::PromptLookup { max_draft } => Self::Lookup {
                lookup: PromptLookup::new(),
                most: most.min(max_draft),
            },
            Speculation::DraftModel { max_draft } => Self::Model {
                draft_length: DraftLength::new(DraftModel::TRUST),
                most: most.min(max_draft),
            },
        }
    }

    /// Takes in how many tokens of the last draft were right, and whether one was wrong.
    pub(crate) fn learn(&mut self, right: usize, wrong: bool) {
        match self {
            Self::Off => {}
            Self::Lookup { lookup, .. } => lookup.learn(right, wrong),
            Self::Model { draft_length, .. } => draft_length.learn(right, wrong),
        }
    }
}
