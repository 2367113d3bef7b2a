//! The loop: plan a batch, compute it, choose, tell.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::engine::Engine;
use crate::page_admission::{PageAdmission, find};
use crate::request::{Event, EventKind, RequestId};
use crate::scheduler::Room;
use core::time::Duration;

impl Engine {
    /// Computes one batch and tells what came of it. A request that fails ends alone.
    ///
    /// Sequences that wait for their next token come first; what room is left goes to prompts, and then to guesses.
    ///
    /// While sequences are only written on, steps take no memory, with these exceptions: a sequence's own tokens, whose room
    /// doubles; a place in the prefix tree for each page that is full; what an event owns beside a short [`SmallString`]
    /// (log-probabilities, what is held back of the best of several); and what constraints and predictors of drafts take.
    ///
    /// [`SmallString`]: crate::SmallString
    pub fn step(&mut self, tell: &mut dyn FnMut(Event)) {
        let start = self.now();
        self.notice_loss(tell);
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
        self.tell_page_events();
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

    /// Where the executor has lost what was computed, ends the requests that stand on it and forgets what was kept.
    pub(crate) fn notice_loss(&mut self, tell: &mut dyn FnMut(Event)) {
        let Some(loss) = self.cache.executor_mut().take_loss() else {
            return;
        };
        for active in &self.active {
            if active.held.sequence.room() > 0
                && let Some(group) = self.groups.get_mut(&active.request)
            {
                group.fail(active.request, active.choice, loss.clone().into(), tell);
            }
        }
        self.sweep(tell);
        self.cache.clear_all();
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

    /// Decides what of each sequence is in the batch.
    fn plan(&mut self, now: Duration) {
        for active in &mut self.active {
            (active.in_batch, active.rows, active.whole) = (0, 0, false);
            active.keep = usize::MAX;
            active.draft.clear();
        }
        let room = Room {
            tokens: self.options.tokens(),
            sequences: self.options.requests(),
            target: match self.clock {
                Some(_) => self.options.latency,
                None => Duration::MAX,
            },
        };
        let width = self.executor().config().width;
        let mut floor = PageAdmission {
            cache: &mut self.cache,
            draft_model: self.draft_model.as_mut(),
            active: &mut self.active,
            width,
            queries: 0,
            hits: 0,
        };
        let shares = self.scheduler.plan(now, room, &mut floor);
        self.counters.cache_queries += floor.queries;
        self.counters.cache_hits += floor.hits;
        for share in shares {
            if let Some(active) = find(&mut self.active, share.sequence) {
                active.in_batch = share.tokens;
            }
        }
        self.ration_rows();
        if self.cache.is_recurrent() {
            self.active
                .iter_mut()
                .for_each(ActiveSequence::end_at_landmark);
        }
        self.keep_images_whole();
    }

    /// Positions of an image that see each other are computed in one batch. A batch ends before them, or has all of them
    /// at the cost of what other prompts get; if there is no room, the sequence waits for the next step.
    fn keep_images_whole(&mut self) {
        let room = self.executor().limits().tokens;
        for index in 0..self.active.len() {
            let active = &self.active[index];
            let computed = active.held.sequence.len();
            let end = computed + active.in_batch;
            let Some(run) = active.images.cut_at(computed, end) else {
                continue;
            };
            let (start, end) = (run.start, run.range().end);
            if active.in_batch == 0 {
                continue;
            }
            if start > computed {
                self.active[index].in_batch = start - computed;
                continue;
            }
            let needed = end - computed;
            let mut others: usize = self.active.iter().map(|other| other.in_batch).sum();
            others -= self.active[index].in_batch;
            for other in &mut self.active[index + 1..] {
                if needed + others > room && other.in_batch > 1 {
                    others -= other.in_batch;
                    other.in_batch = 0;
                }
            }
            let active = &mut self.active[index];
            let fits = needed + others <= room && self.cache.reserve(&mut active.held, needed);
            active.in_batch = if fits { needed } else { 0 };
        }
    }

    /// Cuts what prompts get whose every token needs a row of logits.
    fn ration_rows(&mut self) {
        let limits = self.executor().limits();
        let in_batch = self.active.iter().filter(|active| active.in_batch > 0);
        let all = in_batch.clone().count();
        let mut behind = in_batch.filter(|active| active.scores_prompt()).count();
        let others = all - behind;
        let mut left = limits
            .logits
            .saturating_sub(others * (1 + self.options.max_draft));
        let scores = |active: &&mut ActiveSequence| active.in_batch > 0 && active.scores_prompt();
        for active in self.active.iter_mut().filter(scores) {
            behind -= 1;
            active.in_batch = active.in_batch.min(left.saturating_sub(behind));
            left -= active.in_batch;
        }
    }

    /// Tells of sequences that are computed for the first time, and takes what a constraint lets them begin with.
    fn begin(&mut self, now: Duration, tell: &mut dyn FnMut(Event)) {
        for active in &mut self.active {
            if active.begun || active.in_batch == 0 {
                continue;
            }
            active.begun = true;
            let Some(group) = self.groups.get_mut(&active.request) else {
                continue;
            };
            if !group.started {
                group.started = true;
                group.cached = active.held.sequence.len();
                self.counters.prompt_tokens += active.prompt as u64;
                self.counters.cached_tokens += group.cached as u64;
                self.counters
                    .queue_time
                    .record_time(now.saturating_sub(group.submitted));
                tell(Event {
                    request: active.request,
                    choice: active.choice,
                    kind: EventKind::Started {
                        cached_tokens: group.cached,
                    },
                });
            }
            if let Aim::Write(writer) = &mut active.aim {
                writer.usage.cached_tokens = group.cached;
                let report = &mut |kind| group.tell(active.request, active.choice, kind, tell);
                let taken = writer.begin(&mut active.tokens, &mut self.chooser, report);
                active.settle(taken, group, tell);
                if active.ended {
                    // Nothing is wanted of it any more.
                    active.in_batch = 0;
                }
            }
        }
    }
}
