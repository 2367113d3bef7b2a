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
//! - the model's own layer that predicts the token after the next, where its file has one ([`Executor::predict`]): it has seen
//!   what the model made of the text, and costs a layer and the output matrix for each token.
//!
//! [`Executor::predict`]: strata_model::Executor::predict
//!
//! # How far to guess
//!
//! Each request keeps [how often its drafts were right](draft_length) and drafts as far as the next token is likely enough to
//! pay for its computation; drafts that fail stop, and are tried again now and then. A request that may draw on the text and
//! on a predictor ([`Speculation::Auto`]) takes the draft that [promises more](draft_length::DraftLength::gain) by what came of
//! its earlier ones.

pub(crate) mod draft_length;
pub(crate) mod draft_model;
pub(crate) mod prompt_lookup;
pub(crate) mod recollection;

use alloc::vec::Vec;
use draft_length::{DraftLength, break_even};
use draft_model::DraftModel;
use prompt_lookup::{Found, PromptLookup};

pub use draft_model::VocabularyMismatch;

/// How a request guesses tokens ahead. The answer is the same with each.
///
/// `max_draft` is the most to guess at a time; the engine's own limit ([`EngineOptions::max_draft`]) holds too.
///
/// [`EngineOptions::max_draft`]: crate::EngineOptions::max_draft
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
    /// With the model's own layer that predicts the token after the next.
    Nextn {
        /// Tokens to guess at a time, at most.
        max_draft: usize,
    },
    /// From the text, or with the draft model or the model's own layer if there is one: whichever promises more.
    Auto {
        /// Tokens to guess at a time, at most.
        max_draft: usize,
    },
}

/// What guesses for all requests, whatever their texts repeat.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Predictor {
    /// The draft model.
    Model,
    /// The model's own layer.
    Nextn,
}

/// One request's drafters and what it has learned of them.
#[derive(Clone)]
pub(crate) struct Drafter {
    /// Tokens at a time, at most.
    most: usize,
    pub(crate) lookup: Option<PromptLookup>,
    predictor: Option<(Predictor, DraftLength)>,
    /// Whether the last draft was the predictor's.
    predicted: bool,
}

impl Drafter {
    /// A drafter that guesses no more than `most` tokens, where `there` is the engine's predictor.
    pub(crate) fn new(speculation: Speculation, most: usize, there: Option<Predictor>) -> Self {
        let (max_draft, looks, predictor) = match speculation {
            Speculation::Off => (0, false, None),
            Speculation::PromptLookup { max_draft } => (max_draft, true, None),
            Speculation::DraftModel { max_draft } => (max_draft, false, Some(Predictor::Model)),
            Speculation::Nextn { max_draft } => (max_draft, false, Some(Predictor::Nextn)),
            Speculation::Auto { max_draft } => (max_draft, true, there),
        };
        let length = || DraftLength::new(DraftModel::TRUST);
        Self {
            most: most.min(max_draft),
            lookup: looks.then(PromptLookup::new),
            predictor: predictor.map(|predictor| (predictor, length())),
            predicted: false,
        }
    }

    /// What predicts for it.
    pub(crate) fn predictor(&self) -> Option<Predictor> {
        self.predictor.as_ref().map(|(predictor, _)| *predictor)
    }

    /// Proposes from texts, up to `most` tokens, where `decoding` requests are decoded together.
    pub(crate) fn look_up(
        &mut self,
        (text, elsewhere): (&[u32], Option<Found<'_>>),
        decoding: usize,
        most: usize,
        draft: &mut Vec<u32>,
    ) {
        let most = most.min(self.most);
        if let Some(lookup) = self.lookup.as_mut().filter(|_| most > 0) {
            lookup.propose(text, elsewhere, break_even(decoding, 0.0), most, draft);
            self.predicted = false;
        }
    }

    /// How many tokens to predict, at most `most`, in place of a draft of `found` from texts, which is 0 where that promises
    /// more. A prediction takes `share` of a pass.
    pub(crate) fn wanted(
        &mut self,
        found: usize,
        decoding: usize,
        share: f32,
        most: usize,
    ) -> usize {
        let Some((_, length)) = &mut self.predictor else {
            return 0;
        };
        let (pays, most) = (break_even(decoding, share), most.min(self.most));
        if found > 0
            && let Some(lookup) = &self.lookup
            && lookup.gain(break_even(decoding, 0.0), found) >= length.best_gain(pays, most)
        {
            return 0;
        }
        let wanted = length.choose(pays, most);
        self.predicted |= wanted > 0;
        wanted
    }

    /// Takes in how many tokens of the last draft were right, and whether one was wrong.
    pub(crate) fn learn(&mut self, right: usize, wrong: bool) {
        match (&mut self.lookup, &mut self.predictor) {
            (_, Some((_, length))) if self.predicted => length.learn(right, wrong),
            (Some(lookup), _) => lookup.learn(right, wrong),
            (None, _) => {}
        }
        self.predicted = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draft_that_promises_more_is_taken() {
        let text = [1, 2, 3, 4, 5, 9, 1, 2, 3];
        let auto = Speculation::Auto { max_draft: 4 };
        let mut drafter = Drafter::new(auto, 8, Some(Predictor::Nextn));
        // Predictions are never right, and the text always is.
        let predicted = (0..10).map(|_| {
            let mut draft = Vec::new();
            drafter.look_up((&text, None), 1, 8, &mut draft);
            let wanted = drafter.wanted(draft.len(), 1, 0.1, 8);
            assert!(wanted <= 4);
            match wanted {
                0 => drafter.learn(draft.len(), false),
                _ => drafter.learn(0, true),
            }
            wanted > 0
        });
        let predicted: Vec<bool> = predicted.collect();
        assert!(predicted[0], "a short match promises less at first");
        assert!(!predicted[9], "what was right is taken");
        assert!(predicted.is_sorted_by(|a, b| a >= b), "{predicted:?}");
    }

    #[test]
    fn without_a_predictor_there_are_only_texts() {
        let auto = Speculation::Auto { max_draft: 4 };
        let mut drafter = Drafter::new(auto, 8, None);
        assert_eq!(drafter.predictor(), None);
        assert_eq!(drafter.wanted(0, 1, 0.1, 8), 0);
        let mut off = Drafter::new(Speculation::Off, 8, Some(Predictor::Nextn));
        assert_eq!(off.wanted(0, 1, 0.1, 8), 0);
    }
}
