//! Texts that have ended leave, and those that waited for them begin.

use crate::engine::{Engine, GAIN};
use crate::floor::release;
use crate::request::Event;
use crate::running::{Aim, Running};

impl Engine {
    /// Lets the request's other texts begin: they find the prompt in the cache.
    pub(crate) fn unpark(&mut self, first: usize) {
        let request = self.running[first].request;
        if !self
            .running
            .iter()
            .any(|r| r.parked && r.request == request)
        {
            return;
        }
        let running = &mut self.running[first];
        self.cache
            .record_tail(running.salt, &running.tokens, &mut running.held);
        let parked = |running: &&mut Running| running.parked && running.request == request;
        for running in self.running.iter_mut().filter(parked) {
            running.parked = false;
            self.scheduler.set_pending(running.id, running.tokens.len());
        }
    }

    /// Lets texts begin whose request's first text has ended before them.
    fn unpark_orphans(&mut self) {
        for index in 0..self.running.len() {
            let Running { request, .. } = self.running[index];
            let parked =
                self.running[index].parked && matches!(self.running[index].aim, Aim::Write(_));
            if parked
                && !self
                    .running
                    .iter()
                    .any(|r| !r.parked && r.request == request)
            {
                let running = &mut self.running[index];
                running.parked = false;
                self.scheduler.set_pending(running.id, running.tokens.len());
            }
        }
    }

    /// Removes texts that have ended, and requests of which all have.
    pub(crate) fn sweep(&mut self, tell: &mut dyn FnMut(Event)) {
        for running in &mut self.running {
            let group = self.groups.get(&running.request);
            let failed = group.is_none_or(|group| group.failed);
            if !running.ended && !failed {
                continue;
            }
            running.ended = true;
            release(&mut self.cache, self.draft_model.as_mut(), running);
            self.scheduler.remove(running.id);
            if let Aim::Write(writer) = &running.aim {
                self.counters.drafted_tokens += writer.usage.drafted_tokens as u64;
                self.counters.accepted_tokens += writer.usage.accepted_tokens as u64;
                self.counters.forced_tokens += writer.forced_tokens as u64;
                let tokens = writer.usage.generated_tokens as f64;
                self.answer_tokens += (tokens - self.answer_tokens) * GAIN;
            }
        }
        self.running.retain(|running| !running.ended);
        self.unpark_orphans();
        let counters = &mut self.counters;
        let (cache, draft_model) = (&mut self.cache, &mut self.draft_model);
        self.groups.retain(|&id, group| {
            if !group.failed && group.open > 0 {
                return true;
            }
            match group.failed {
                true => counters.failed += 1,
                false => {
                    counters.finished += 1;
                    for (choice, kind) in group.best() {
                        tell(Event {
                            request: id,
                            choice,
                            kind,
                        });
                    }
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
