//! The engine's memory, as planning sees it.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::cache::Cache;
use crate::scheduler::{Pages, SequenceId};
use crate::speculation::Predictor;
use crate::speculation::draft_model::DraftModel;
use alloc::vec::Vec;

/// The engine's memory, as planning sees it.
pub(crate) struct PageAdmission<'e> {
    pub(crate) cache: &'e mut Cache,
    pub(crate) draft_model: Option<&'e mut DraftModel>,
    pub(crate) active: &'e mut Vec<ActiveSequence>,
    pub(crate) width: usize,
    pub(crate) queries: u64,
    pub(crate) hits: u64,
}

impl Pages for PageAdmission<'_> {
    fn admit(&mut self, id: SequenceId, headroom: usize) -> Option<usize> {
        let active = find(self.active, id)?;
        active.restart(self.width);
        let reusable = active.reusable();
        let tokens = &active.tokens;
        if reusable > 0 {
            let keys = active.images.keys(tokens);
            self.cache
                .attach(active.salt, &keys[..reusable], &mut active.held);
            // Of a source all is there, or none is of use.
            if active.fewest() > 0 {
                self.cache.release(&mut active.held);
            }
        }
        let pending = active.pending();
        active.known = tokens.len();
        let held = &mut active.held;
        if !self.cache.reserve(held, pending) || !self.cache.make_room(headroom) {
            self.cache.release(held);
            return None;
        }
        self.queries += 1;
        self.hits += u64::from(pending < tokens.len());
        if let Some(draft) = &mut self.draft_model
            && active.predictor() == Some(Predictor::Model)
        {
            draft.attach(active.salt, &tokens[..reusable], &mut active.drafted);
        }
        Some(pending)
    }

    fn fewest(&mut self, id: SequenceId) -> usize {
        find(self.active, id).map_or(0, |active| active.fewest())
    }

    fn reserve(&mut self, id: SequenceId, tokens: usize) -> bool {
        find(self.active, id).is_some_and(|active| self.cache.reserve(&mut active.held, tokens))
    }

    fn release(&mut self, id: SequenceId) {
        if let Some(active) = find(self.active, id) {
            release(self.cache, self.draft_model.as_deref_mut(), active);
        }
    }
}

/// Takes all pages from a sequence, and keeps them for sequences that begin so too.
pub(crate) fn release(
    cache: &mut Cache,
    draft_model: Option<&mut DraftModel>,
    active: &mut ActiveSequence,
) {
    let ActiveSequence {
        salt,
        tokens,
        images,
        held,
        drafted,
        known,
        ..
    } = active;
    // Guesses may still be there, if nobody looked at what came of them.
    cache.rollback(held, tokens.len());
    let known = (*known).min(tokens.len());
    if matches!(active.aim, Aim::Write(_) | Aim::Search(_)) {
        cache.record_tail(*salt, &images.keys(tokens), held);
    }
    cache.release(held);
    if let Some(draft) = draft_model {
        draft.release(*salt, &tokens[..known], drafted);
    }
}

pub(crate) fn find(active: &mut [ActiveSequence], id: SequenceId) -> Option<&mut ActiveSequence> {
    let index = active.binary_search_by_key(&id, |active| active.id).ok()?;
    Some(&mut active[index])
}
