//! The loop: build a batch, compute it, sample, tell.

use crate::engine::Engine;
use crate::request::{Event, EventKind};
use crate::sampling::SampleError;
use crate::speculation::Drafter;
use crate::speculation::draft_model::Task;
use crate::speculation::pace::break_even;
use alloc::vec::Vec;
use strata_model::{BatchError, Span};

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum StepError {
    #[error("the batch was refused: {0}")]
    Batch(#[from] BatchError),
    #[error("no token could be chosen: {0}")]
    Sample(#[from] SampleError),
}

impl Engine<'_> {
    /// Computes one batch and tells what came of it. After an error it can be tried again, without the request that
    /// caused it.
    ///
    /// Requests that wait for their next token come first; what room is left goes to prompts, in the order of
    /// their arrival, and then to guesses.
    pub fn step(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), StepError> {
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
                self.retry_from(0);
                return Err(error.into());
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
            let end = match result {
                Ok(end) => end,
                Err(error) => {
                    self.retry_from(index - 1);
                    return Err(error.into());
                }
            };
            if let Some((reason, text)) = end {
                index -= 1;
                let running = self.running.remove(index);
                tell(Event {
                    request: running.id,
                    kind: EventKind::Finished {
                        text,
                        reason,
                        usage: running.usage,
                        session: running.session,
                    },
                });
            }
        }
        Ok(())
    }

    /// Makes the requests from `index` on compute their last token again: nothing was chosen after it.
    fn retry_from(&mut self, index: usize) {
        for running in self.running[index..].iter_mut().filter(|r| r.rows > 0) {
            let text = running.session.tokens.len();
            running.session.sequence.rewind(text - 1);
            if let Some(drafter) = &mut self.draft_model {
                drafter.truncate(&mut running.session.drafted, text - 1);
            }
        }
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
