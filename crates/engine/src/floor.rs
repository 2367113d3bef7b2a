//! The engine's memory, as planning sees it.

use crate::cache::Cache;
use crate::running::{Aim, Running};
use crate::scheduler::{Pages, TaskId};
use crate::speculation::Drafter;
use crate::speculation::draft_model::DraftModel;
use alloc::vec::Vec;

/// The engine's memory, as planning sees it.
pub(crate) struct Floor<'e> {
    pub(crate) cache: &'e mut Cache,
    pub(crate) draft_model: Option<&'e mut DraftModel>,
    pub(crate) running: &'e mut Vec<Running>,
    pub(crate) width: usize,
    pub(crate) queries: u64,
    pub(crate) hits: u64,
}

impl Pages for Floor<'_> {
    fn admit(&mut self, task: TaskId, headroom: usize) -> Option<usize> {
        let running = find(self.running, task)?;
        running.restart(self.width);
        let reusable = running.reusable();
        let tokens = &running.tokens;
        if reusable > 0 {
            self.cache
                .attach(running.salt, &tokens[..reusable], &mut running.held);
        }
        let pending = running.pending();
        running.known = tokens.len();
        let held = &mut running.held;
        if !self.cache.reserve(held, pending) || !self.cache.make_room(headroom) {
            self.cache.release(held);
            return None;
        }
        self.queries += 1;
        self.hits += u64::from(pending < tokens.len());
        if let (Some(draft), Aim::Write(writer)) = (&mut self.draft_model, &running.aim)
            && let Drafter::Model { .. } = writer.drafter
        {
            draft.attach(running.salt, &tokens[..reusable], &mut running.drafted);
        }
        Some(pending)
    }

    fn reserve(&mut self, task: TaskId, tokens: usize) -> bool {
        find(self.running, task)
            .is_some_and(|running| self.cache.reserve(&mut running.held, tokens))
    }

    fn release(&mut self, task: TaskId) {
        if let Some(running) = find(self.running, task) {
            release(self.cache, self.draft_model.as_deref_mut(), running);
        }
    }
}

/// Takes all pages from a text, and keeps them for texts that begin so too.
pub(crate) fn release(
    cache: &mut Cache,
    draft_model: Option<&mut DraftModel>,
    running: &mut Running,
) {
    let Running {
        salt,
        tokens,
        held,
        drafted,
        known,
        ..
    } = running;
    // Guesses may still be there, if nobody looked at what came of them.
    cache.rollback(held, tokens.len());
    let known = (*known).min(tokens.len());
    if matches!(running.aim, Aim::Write(_) | Aim::Search(_)) {
        cache.record_tail(*salt, tokens, held);
    }
    cache.release(held);
    if let Some(draft) = draft_model {
        draft.release(*salt, &tokens[..known], drafted);
    }
}

pub(crate) fn find(running: &mut [Running], id: TaskId) -> Option<&mut Running> {
    let index = running
        .binary_search_by_key(&id, |running| running.id)
        .ok()?;
    Some(&mut running[index])
}
