//! The loop: build a batch, compute it, sample, tell.

use crate::engine::Engine;
use crate::engine::end;
use crate::request::{Event, EventKind, RequestError};
use crate::speculation::Drafter;
use crate::speculation::draft_model::Task;
use crate::speculation::pace::break_even;
use alloc::vec::Vec;
use strata_model::Span;

impl Engine<'_> {
    /// Computes one batch and tells what came of it. A request that fails ends alone.
    ///
    /// Requests that wait for their next token come first; what room is left goes to prompts, in the order of
    /// their arrival, and then to guesses.
    pub fn step(&mut self, tell: &mut dyn FnMut(Event)) {
        let room = self.plan();
        self.guess(room);
        let mut batch: Vec<Span<'_>> = Vec::with_capacity(self.running.len());
        for running in &mut self.running {
            running.rows = 0;
            if running.in_batch > 0 {
                batch.push(running.span());
            }
        }
        let result = self
            .model
            .forward(&self.compute, &mut self.kv, &mut self.work, &mut batch);
        for running in &mut self.running {
            running.withdraw();
        }
        let mut logits = match result {
            Ok(outputs) => outputs.logits,
            Err(error) => {
                for index in (0..self.running.len()).rev() {
                    if self.running[index].in_batch > 0 {
                        self.fail(index, error.clone().into(), tell);
                    }
                }
                return;
            }
        };

        let mut index = 0;
        while index < self.running.len() {
            let running = &mut self.running[index];
            index += 1;
            if running.rows == 0 {
                continue;
            }
            let (rows, rest) = logits.split_at(running.rows * self.model.config().vocabulary);
            logits = rest;
            let text = running.session.tokens.len();
            let result = running.advance(rows, &mut self.chooser, tell);
            if let Some(drafter) = &mut self.draft_model {
                let known = text + running.confirmed(text);
                drafter.truncate(&mut running.session.drafted, known);
            }
            match result {
                Ok(None) => {}
                Ok(Some((reason, text))) => {
                    index -= 1;
                    let running = end(
                        &mut self.running,
                        &mut self.kv,
                        &mut self.draft_model,
                        index,
                    );
                    tell(Event {
                        request: running.id,
                        choice: 0,
                        kind: EventKind::Finished {
                            text,
                            reason,
                            usage: running.usage,
                        },
                    });
                }
                Err(error) => {
                    index -= 1;
                    let running = end(
                        &mut self.running,
                        &mut self.kv,
                        &mut self.draft_model,
                        index,
                    );
                    tell(Event {
                        request: running.id,
                        choice: 0,
                        kind: EventKind::Failed(error.into()),
                    });
                }
            }
        }
    }

    fn fail(&mut self, index: usize, error: RequestError, tell: &mut dyn FnMut(Event)) {
        let running = self.end(index);
        tell(Event {
            request: running.id,
            choice: 0,
            kind: EventKind::Failed(error),
        });
    }

    /// Shares the batch out among the texts. Returns how many more tokens it can have.
    fn plan(&mut self) -> usize {
        let batch = self.options.tokens();
        let mut room = batch;
        for prefill in [false, true] {
            for running in &mut self.running {
                let pending = running.pending();
                if (pending > 1) == prefill {
                    running.in_batch = pending.min(room);
                    room -= running.in_batch;
                }
            }
        }
        self.work.limits().tokens - (batch - room)
    }

    /// Has the drafters guess how the texts go on, with `room` tokens at most.
    fn guess(&mut self, mut room: usize) {
        let decoding = self.running.iter().filter(|r| r.decodes()).count();
        let share = self.draft_model.as_ref().map_or(0.0, |model| model.share());
        let mut tasks = Vec::new();
        for running in &mut self.running {
            running.draft.clear();
            let possible = if running.decodes() {
                room.min(running.guesses_left())
            } else {
                0
            };
            let text = running.session.tokens.as_slice();
            match &mut running.drafter {
                Drafter::Off => {}
                Drafter::Lookup { lookup, most } => {
                    let (most, pays) = (possible.min(*most), break_even(decoding, 0.0));
                    if most > 0 {
                        lookup.propose(text, pays, most, &mut running.draft);
                    }
                    room -= running.draft.len();
                }
                Drafter::Model { pace, most } => {
                    let wanted = pace.length(break_even(decoding, share), possible.min(*most));
                    room -= wanted;
                    // While a prompt is computed the draft model keeps up with it.
                    if wanted > 0 || text.len() - running.session.sequence.len() > 1 {
                        tasks.push(Task::new(
                            text,
                            &mut running.session.drafted,
                            wanted,
                            &mut running.draft,
                        ));
                    }
                }
            }
        }
        if let Some(model) = &mut self.draft_model
            && !tasks.is_empty()
        {
            model.propose(&self.compute, &mut tasks);
        }
    }
}
