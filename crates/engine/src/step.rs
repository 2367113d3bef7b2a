//! The loop: plan a batch, compute it, choose, tell.

use crate::engine::Engine;
use crate::floor::{Floor, find};
use crate::request::{Event, EventKind, RequestId};
use crate::running::{Aim, Running};
use crate::scheduler::Room;
use crate::speculation::Drafter;
use crate::speculation::draft_model::Task;
use crate::speculation::pace::break_even;
use alloc::vec::Vec;
use core::time::Duration;

impl Engine {
    /// Computes one batch and tells what came of it. A request that fails ends alone.
    ///
    /// Texts that wait for their next token come first; what room is left goes to prompts, and then to guesses.
    ///
    /// While texts are only written on, steps take no memory, with these exceptions: a text's own tokens, whose room
    /// doubles; a place in the prefix tree for each page that is full; what an event owns beside a short [`Piece`]
    /// (log-probabilities, what is held back of the best of several); and what constraints and draft models take.
    ///
    /// [`Piece`]: crate::Piece
    pub fn step(&mut self, tell: &mut dyn FnMut(Event)) {
        let start = self.now();
        self.expire(start, tell);
        if self.encodes() {
            self.encode(start, tell);
        } else {
            self.plan(start);
            self.begin(start, tell);
            self.guess();
            self.compute(start, tell);
            self.search(tell);
        }
        self.sweep(tell);
        self.drop_adapters();
        self.refresh();
    }

    /// Ends a request before its time. Says whether there was one. Its pages are free, or kept in the cache.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(group) = self.groups.get_mut(&id) else {
            return false;
        };
        group.failed = true;
        self.sweep(&mut |_| {});
        // Sweeping took it for a failure.
        self.counters.failed -= 1;
        self.counters.canceled += 1;
        self.drop_adapters();
        self.refresh();
        true
    }

    /// Ends requests that have exceeded a limit of time.
    fn expire(&mut self, now: Duration, tell: &mut dyn FnMut(Event)) {
        let mut any = false;
        for (&id, group) in &mut self.groups {
            if let Some(error) = group.exceeded(now) {
                group.fail(id, 0, error, tell);
                any = true;
            }
        }
        if any {
            self.sweep(tell);
        }
    }

    /// Decides what of each text is in the batch.
    fn plan(&mut self, now: Duration) {
        for running in &mut self.running {
            (running.in_batch, running.rows, running.whole) = (0, 0, false);
            running.keep = usize::MAX;
            running.draft.clear();
        }
        let room = Room {
            tokens: self.options.tokens(),
            tasks: self.options.requests(),
            target: match self.clock {
                Some(_) => self.options.latency,
                None => Duration::MAX,
            },
        };
        let width = self.executor().config().width;
        let mut floor = Floor {
            cache: &mut self.cache,
            draft_model: self.draft_model.as_mut(),
            running: &mut self.running,
            width,
            queries: 0,
            hits: 0,
        };
        let shares = self.scheduler.plan(now, room, &mut floor);
        self.counters.cache_queries += floor.queries;
        self.counters.cache_hits += floor.hits;
        for share in shares {
            if let Some(running) = find(&mut self.running, share.task) {
                running.in_batch = share.tokens;
            }
        }
        self.ration_rows();
        if self.cache.is_recurrent() {
            self.running.iter_mut().for_each(Running::end_at_landmark);
        }
    }

    /// Cuts what prompts get whose every token needs a row of logits.
    fn ration_rows(&mut self) {
        let limits = self.executor().limits();
        let in_batch = self.running.iter().filter(|running| running.in_batch > 0);
        let all = in_batch.clone().count();
        let mut behind = in_batch.filter(|running| running.scores_prompt()).count();
        let others = all - behind;
        let mut left = limits
            .logits
            .saturating_sub(others * (1 + self.options.max_draft));
        let scores = |running: &&mut Running| running.in_batch > 0 && running.scores_prompt();
        for running in self.running.iter_mut().filter(scores) {
            behind -= 1;
            running.in_batch = running.in_batch.min(left.saturating_sub(behind));
            left -= running.in_batch;
        }
    }

    /// Tells of texts that are computed for the first time, and takes what a constraint lets them begin with.
    fn begin(&mut self, now: Duration, tell: &mut dyn FnMut(Event)) {
        for running in &mut self.running {
            if running.begun || running.in_batch == 0 {
                continue;
            }
            running.begun = true;
            let Some(group) = self.groups.get_mut(&running.request) else {
                continue;
            };
            if !group.started {
                group.started = true;
                group.cached = running.held.sequence.len();
                self.counters.prompt_tokens += running.prompt as u64;
                self.counters.cached_tokens += group.cached as u64;
                self.counters
                    .queue_time
                    .record_time(now.saturating_sub(group.submitted));
                tell(Event {
                    request: running.request,
                    choice: running.choice,
                    kind: EventKind::Started {
                        cached_tokens: group.cached,
                    },
                });
            }
            if let Aim::Write(writer) = &mut running.aim {
                writer.usage.cached_tokens = group.cached;
                let report = &mut |kind| group.tell(running.request, running.choice, kind, tell);
                let taken = writer.begin(&mut running.tokens, &mut self.chooser, report);
                running.settle(taken, group, tell);
                if running.ended {
                    // Nothing is wanted of it any more.
                    running.in_batch = 0;
                }
            }
        }
    }

    /// Has the drafters guess how the texts go on.
    fn guess(&mut self) {
        let planned: usize = self.running.iter().map(|running| running.in_batch).sum();
        let mut room = self.executor().limits().tokens - planned;
        let decoding = self.running.iter().filter(|r| r.decodes()).count();
        let share = self.draft_model.as_ref().map_or(0.0, |model| model.share());
        let mut tasks = Vec::new();
        for running in &mut self.running {
            let decodes = running.decodes();
            let Aim::Write(writer) = &mut running.aim else {
                continue;
            };
            let possible = if decodes {
                room.min(writer.guesses_left())
            } else {
                0
            };
            let text = running.tokens.as_slice();
            match &mut writer.drafter {
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
                    let behind = text.len() - running.held.sequence.len() > 1;
                    if wanted > 0 || (behind && running.in_batch > 0) {
                        let draft = &mut running.draft;
                        tasks.push(Task::new(text, &mut running.drafted, wanted, draft));
                    }
                }
            }
        }
        if let Some(model) = &mut self.draft_model
            && !tasks.is_empty()
        {
            model.propose(&mut tasks);
        }
        for running in self.running.iter_mut().filter(|r| !r.draft.is_empty()) {
            let tokens = running.in_batch + running.draft.len();
            let held = &mut running.held;
            if !self.cache.reserve(held, tokens) || !self.cache.checkpoint(held) {
                running.draft.clear();
            }
        }
    }
}
