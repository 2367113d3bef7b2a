//! Removes sequences that have ended, and starts those that waited for them.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::engine::{Engine, GAIN};
use crate::page_admission::release;
use crate::request::Event;

impl Engine {
    /// Lets the request's other sequences begin: they find the prompt in the cache.
    pub(crate) fn unpark(&mut self, first: usize) {
        let request = self.active[first].request;
        if !self.active.iter().any(|r| r.parked && r.request == request) {
            return;
        }
        let active = &mut self.active[first];
        let keys = active.images.keys(&active.tokens);
        self.cache.record_tail(active.salt, &keys, &mut active.held);
        let parked = |active: &&mut ActiveSequence| active.parked && active.request == request;
        for active in self.active.iter_mut().filter(parked) {
            active.parked = false;
            self.scheduler.set_pending(active.id, active.tokens.len());
        }
    }

    /// Lets sequences begin whose request's first sequence has ended before them.
    fn unpark_orphans(&mut self) {
        for index in 0..self.active.len() {
            let ActiveSequence { request, .. } = self.active[index];
            let parked =
                self.active[index].parked && matches!(self.active[index].aim, Aim::Write(_));
            if parked
                && !self
                    .active
                    .iter()
                    .any(|r| !r.parked && r.request == request)
            {
                let active = &mut self.active[index];
                active.parked = false;
                self.scheduler.set_pending(active.id, active.tokens.len());
            }
        }
    }

    /// Removes sequences that have ended, and requests of which all have.
    pub(crate) fn sweep(&mut self, tell: &mut dyn FnMut(Event)) {
        for active in &mut self.active {
            let group = self.groups.get(&active.request);
            let failed = group.is_none_or(|group| group.failed);
            if !active.ended && !failed {
                continue;
            }
            active.ended = true;
            release(&mut self.cache, self.draft_model.as_mut(), active);
            self.scheduler.remove(active.id);
            let longest = self.counters.longest.max(active.tokens.len());
            self.counters.longest = longest;
            if let Aim::Write(writer) = &mut active.aim {
                self.counters.drafted_tokens += writer.usage.drafted_tokens as u64;
                self.counters.accepted_tokens += writer.usage.accepted_tokens as u64;
                self.counters.drafts += writer.drafts;
                self.counters.forced_tokens += writer.forced_tokens as u64;
                let tokens = writer.usage.generated_tokens as f64;
                self.answer_tokens += (tokens - self.answer_tokens) * GAIN;
                let lookup = writer.drafter.lookup.take();
                if let (Some(lookup), None) = (lookup, active.salt.alone) {
                    let text = core::mem::take(&mut active.tokens);
                    self.recollection.keep(active.salt.client, text, lookup);
                }
            }
        }
        self.active.retain(|active| !active.ended);
        self.unpark_orphans();
        let counters = &mut self.counters;
        let (cache, draft_model) = (&mut self.cache, &mut self.draft_model);
        self.groups.retain(|&id, group| {
            if !group.failed && group.open > 0 {
                return true;
            }
            if group.failed {
                counters.failed += 1;
            } else {
                counters.finished += 1;
                for (choice, kind) in group.best() {
                    tell(Event {
                        request: id,
                        choice,
                        kind,
                    });
                }
            }
            if let Some(salt) = group.alone {
                cache.clear(salt);
                if let Some(draft) = draft_model {
                    draft.clear(salt);
                }
            }
            false
        });
    }
}
