//! What is drafted, between planning a batch and computing it.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::engine::Engine;
use crate::sampling;
use crate::speculation::Predictor;
use crate::speculation::draft_model::{DraftModel, DraftRequest};
use crate::speculation::prompt_lookup::Found;
use alloc::vec::Vec;
use strata_model::{Output, Span};

impl Engine {
    /// What predicts for requests that leave the choice to the engine: the draft model, which somebody chose, or else the
    /// model's own layer.
    pub(crate) fn predictor(&self) -> Option<Predictor> {
        match (&self.draft_model, self.nextn_share) {
            // Neither follows a text behind a source.
            _ if self.reads_source() => None,
            (Some(_), _) => Some(Predictor::Model),
            (None, Some(_)) => Some(Predictor::Nextn),
            (None, None) => None,
        }
    }

    /// Has the drafters guess how the sequences go on.
    pub(crate) fn guess(&mut self) {
        let planned: usize = self.active.iter().map(|active| active.in_batch).sum();
        let mut room = self.executor().limits().tokens - planned;
        let decoding = self.active.iter().filter(|r| r.decodes()).count();
        for index in 0..self.active.len() {
            room -= self.look_up(index, room, decoding);
        }
        let model = self.draft_model.as_ref().map_or(0.0, DraftModel::share);
        let nextn = self.nextn_share.unwrap_or(0.0);
        for active in &mut self.active {
            let decodes = active.decodes();
            active.wanted = 0;
            let Aim::Write(writer) = &mut active.aim else {
                continue;
            };
            let Some(predictor) = writer.drafter.predictor().filter(|_| decodes) else {
                continue;
            };
            let share = match predictor {
                Predictor::Model => model,
                Predictor::Nextn => nextn,
            };
            let found = active.draft.len();
            let most = (room + found).min(writer.guesses_left());
            active.wanted = writer.drafter.wanted(found, decoding, share, most);
            if active.wanted > 0 {
                active.draft.clear();
                room = room + found - active.wanted;
            }
        }
        self.predict_with_model();
        self.predict_with_nextn();
        for active in self.active.iter_mut().filter(|r| !r.draft.is_empty()) {
            let tokens = active.in_batch + active.draft.len();
            let held = &mut active.held;
            if !self.cache.reserve(held, tokens) || !self.cache.checkpoint(held) {
                active.draft.clear();
            }
        }
    }

    /// Has a sequence guess from its client's texts, up to `room` tokens, and gives how many it did.
    fn look_up(&mut self, index: usize, room: usize, decoding: usize) -> usize {
        let (before, rest) = self.active.split_at_mut(index);
        let Some((active, after)) = rest.split_first_mut() else {
            return 0;
        };
        let decodes = active.decodes();
        let Aim::Write(writer) = &mut active.aim else {
            return 0;
        };
        if !decodes || writer.drafter.lookup.is_none() {
            return 0;
        }
        let most = room.min(writer.guesses_left());
        let (salt, text) = (active.salt, active.tokens.as_slice());
        let running = before.iter().chain(&*after);
        let running = running.filter_map(|other| other.recall(salt, text));
        let recent = match salt.alone {
            None => self.recollection.find(salt.client, text),
            Some(_) => None,
        };
        let elsewhere = running.chain(recent).max_by_key(Found::length);
        let draft = &mut active.draft;
        writer
            .drafter
            .look_up((text, elsewhere), decoding, most, draft);
        active.draft.len()
    }

    /// Has the draft model predict what is wanted of it, and keep up with prompts.
    fn predict_with_model(&mut self) {
        let Some(model) = &mut self.draft_model else {
            return;
        };
        let mut requests = Vec::new();
        for active in &mut self.active {
            if active.predictor() != Some(Predictor::Model) {
                continue;
            }
            let text = active.tokens.as_slice();
            // While a prompt is computed the draft model keeps up with it.
            let behind = text.len() - active.held.sequence.len() > 1;
            if active.wanted > 0 || (behind && active.in_batch > 0) {
                let (draft, wanted) = (&mut active.draft, active.wanted);
                requests.push(DraftRequest::new(text, &mut active.drafted, wanted, draft));
            }
        }
        if !requests.is_empty() {
            model.propose(&mut requests);
        }
    }

    /// Has the model's own layer predict what is wanted of it, one token of all sequences after the other.
    fn predict_with_nextn(&mut self) {
        let width = self.executor().config().vocabulary;
        let mut most: usize = 0;
        for active in &mut self.active {
            if active.predictor() != Some(Predictor::Nextn) {
                continue;
            }
            // A prediction leaves something at each of its positions.
            if active.wanted > 0 && !self.cache.reserve(&mut active.held, 1 + active.wanted) {
                active.wanted = 0;
            }
            most = most.max(active.wanted);
        }
        let computed = |active: &ActiveSequence| active.tokens.len() - 1;
        for round in 0..most {
            let waits = |active: &&mut ActiveSequence| {
                active.wanted > round
                    && active.draft.len() == round
                    && active.predictor() == Some(Predictor::Nextn)
            };
            let mut batch: Vec<Span<'_>> = Vec::new();
            for active in self.active.iter_mut().filter(waits) {
                batch.push(Span {
                    tokens: match active.draft.as_slice() {
                        [] => &active.tokens[computed(active)..],
                        [.., last] => core::slice::from_ref(last),
                    },
                    sequence: &mut active.held.sequence,
                    output: Output::LastLogits,
                    adapter: None,
                    embedded: active.images.runs(),
                });
            }
            let Ok(outputs) = self.cache.predict(&mut batch) else {
                break;
            };
            let mut rows = outputs.logits.chunks_exact(width);
            for active in self.active.iter_mut().filter(waits) {
                if let Some(Ok(best)) = rows.next().map(sampling::best) {
                    active.draft.push(best.token);
                }
            }
        }
        for active in self.active.iter_mut().filter(|active| active.wanted > 0) {
            let computed = computed(active);
            // Predictions leave recurrent states as they were.
            active.held.sequence.restored(computed);
        }
    }
}
