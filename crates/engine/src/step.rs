//! The loop: plan a batch, compute it, choose, tell.

use crate::beams::Search;
use crate::cache::Cache;
use crate::engine::Engine;
use crate::group::Group;
use crate::request::{Event, EventKind, FinishReason, RequestError, RequestId};
use crate::running::{Aim, Running};
use crate::scheduler::{Pages, Room, TaskId};
use crate::speculation::Drafter;
use crate::speculation::draft_model::{DraftModel, Task};
use crate::speculation::pace::break_even;
use crate::writer::{Chooser, End};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::Span;

/// How much a step, or an answer, moves the running means.
const GAIN: f64 = 0.1;

impl Engine<'_> {
    /// Computes one batch and tells what came of it. A request that fails ends alone.
    ///
    /// Texts that wait for their next token come first; what room is left goes to prompts, and then to guesses.
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
        let mut floor = Floor {
            cache: &mut self.cache,
            draft_model: self.draft_model.as_mut(),
            running: &mut self.running,
            width: self.model.config().width,
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
    }

    /// Cuts what prompts get whose every token needs a row of logits.
    fn ration_rows(&mut self) {
        let limits = self.work.limits();
        let in_batch = self.running.iter().filter(|running| running.in_batch > 0);
        let (scoring, others): (Vec<&Running<'_>>, Vec<_>) =
            in_batch.partition(|running| running.scores_prompt());
        let mut behind = scoring.len();
        let mut left = limits
            .logits
            .saturating_sub(others.len() * (1 + self.max_draft));
        let scores = |running: &&mut Running<'_>| running.in_batch > 0 && running.scores_prompt();
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
            }
        }
    }

    /// Has the drafters guess how the texts go on.
    fn guess(&mut self) {
        let planned: usize = self.running.iter().map(|running| running.in_batch).sum();
        let mut room = self.work.limits().tokens - planned;
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
            model.propose(&self.compute, &mut tasks);
        }
        for running in self.running.iter_mut().filter(|r| !r.draft.is_empty()) {
            let tokens = running.in_batch + running.draft.len();
            if !self.cache.reserve(&mut running.held, tokens) {
                running.draft.clear();
            }
        }
    }

    /// Computes the batch and makes of it what the texts want.
    fn compute(&mut self, start: Duration, tell: &mut dyn FnMut(Event)) {
        let mut batch: Vec<Span<'_>> = Vec::with_capacity(self.running.len());
        let in_batch = |running: &&mut Running<'_>| running.in_batch > 0;
        for running in self.running.iter_mut().filter(in_batch) {
            let adapter = self.adapters.get(running.salt.adapter);
            batch.push(running.span(adapter));
        }
        let texts = batch.len();
        if texts == 0 {
            return;
        }
        let tokens: usize = batch.iter().map(|span| span.tokens.len()).sum();
        let kv = self.cache.kv_mut();
        let result = self
            .model
            .forward(&self.compute, kv, &mut self.work, &mut batch);
        self.running.iter_mut().for_each(Running::withdraw);
        let (mut logits, mut states) = match &result {
            Ok(outputs) => (outputs.logits, outputs.states),
            Err(_) => (&[][..], &[][..]),
        };
        let now = self
            .clock
            .map_or(start, |clock| Duration::from_nanos(clock.now_ns()));
        let config = self.model.config();
        for running in self.running.iter_mut().filter(in_batch) {
            let Some(group) = self.groups.get_mut(&running.request) else {
                continue;
            };
            let mine;
            let done = match &result {
                Err(error) => Err(error.clone().into()),
                Ok(_) => {
                    (mine, logits) = logits.split_at(running.rows * config.vocabulary);
                    let width = match running.aim {
                        Aim::Write(_) | Aim::Search(_) => 0,
                        _ => running.in_batch * config.width,
                    };
                    let vectors;
                    (vectors, states) = states.split_at(width);
                    let before = running.generated();
                    let done = match group.failed {
                        true => Ok(None),
                        false => running.advance(mine, vectors, group, &mut self.chooser, tell),
                    };
                    let new = running.generated() - before;
                    if new > 0 {
                        self.counters.generated_tokens += new as u64;
                        if group.first_token.is_none() {
                            group.first_token = Some(now);
                            let waited = now.saturating_sub(group.submitted);
                            self.counters.first_token_time.record_time(waited);
                        }
                        if let Some(latest) = running.latest.replace(now) {
                            let each = now.saturating_sub(latest) / new as u32;
                            (0..new).for_each(|_| self.counters.token_time.record_time(each));
                        }
                    }
                    done
                }
            };
            running.settle(done, group, tell);
        }
        self.settle(now.saturating_sub(start), tokens, texts);
    }

    /// Keeps what was computed, and counts it.
    fn settle(&mut self, time: Duration, tokens: usize, texts: usize) {
        for index in 0..self.running.len() {
            let running = &mut self.running[index];
            if running.in_batch == 0 || running.ended {
                continue;
            }
            if running.leaves_pages() {
                self.cache
                    .record(running.salt, &running.tokens, &mut running.held);
            }
            if let Some(draft) = &mut self.draft_model {
                let known = running.known.min(running.tokens.len());
                draft.confirm(running.salt, &running.tokens[..known], &mut running.drafted);
            }
            let (id, request, pending) = (running.id, running.request, running.pending());
            self.scheduler.set_pending(id, pending);
            let writes = matches!(running.aim, Aim::Write(_));
            let first =
                writes && running.choice == 0 && running.held.sequence.len() >= running.prompt;
            if first
                && self
                    .groups
                    .get(&request)
                    .is_some_and(|group| group.open > 1)
            {
                self.unpark(index);
            }
        }
        self.counters.steps += 1;
        self.counters.batch_texts.record(texts as f64);
        self.counters.batch_tokens.record(tokens as f64);
        if self.clock.is_some() && !time.is_zero() {
            self.scheduler.learn(tokens, time);
            self.counters.step_time.record_time(time);
            let speed = tokens as f64 / time.as_secs_f64();
            self.speed = match self.speed {
                0.0 => speed,
                old => old + (speed - old) * GAIN,
            };
        }
    }

    /// Lets the request's other texts begin: they find the prompt in the cache.
    fn unpark(&mut self, first: usize) {
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
        let parked = |running: &&mut Running<'_>| running.parked && running.request == request;
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
    fn sweep(&mut self, tell: &mut dyn FnMut(Event)) {
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

impl Group {
    /// Tells what happened to a text, now or when all have ended.
    pub(crate) fn tell(
        &mut self,
        request: RequestId,
        choice: usize,
        kind: EventKind,
        tell: &mut dyn FnMut(Event),
    ) {
        if let Some(kind) = self.pass(choice, kind) {
            tell(Event {
                request,
                choice,
                kind,
            });
        }
    }

    /// Ends the request with an error.
    pub(crate) fn fail(
        &mut self,
        request: RequestId,
        choice: usize,
        error: RequestError,
        tell: &mut dyn FnMut(Event),
    ) {
        if !self.failed {
            self.failed = true;
            tell(Event {
                request,
                choice,
                kind: EventKind::Failed(error),
            });
        }
    }
}

impl Running<'_> {
    /// Makes of a batch's results what the text wants: `logits` are its rows, `states` its tokens'.
    fn advance(
        &mut self,
        logits: &[f32],
        states: &[f32],
        group: &mut Group,
        chooser: &mut Chooser<'_>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<End>, RequestError> {
        let (request, choice) = (self.request, self.choice);
        let candidates = group.search.as_ref().map_or(0, Search::candidates);
        let report = &mut |kind| group.tell(request, choice, kind, tell);
        let text = self.tokens.len();
        let computed = self.held.sequence.len();
        self.known = text;
        match &mut self.aim {
            Aim::Embed(_, pooled) => {
                pooled.add(states);
                if self.whole {
                    report(EventKind::Embedding(pooled.clone().finish()));
                }
                Ok(self.whole.then(|| (FinishReason::Complete, String::new())))
            }
            Aim::Score(_) => Ok(None),
            Aim::Search(beam) => {
                if self.whole {
                    beam.next = Some(chooser.likeliest(logits, candidates)?);
                }
                Ok(None)
            }
            Aim::Write(writer) => {
                if self.rows == 0 {
                    return Ok(None);
                }
                let mut rows = logits;
                if writer.scored().is_some() && computed - self.in_batch < self.prompt {
                    let from = computed - self.in_batch;
                    writer.score_prompt(
                        &self.tokens[..self.prompt],
                        from,
                        rows,
                        chooser,
                        report,
                    )?;
                    rows = &rows[rows.len() - rows.len() / self.rows..];
                    if !self.whole {
                        return Ok(None);
                    }
                }
                let result = writer.advance(&mut self.tokens, &self.draft, rows, chooser, report);
                let new = self.tokens.len() - text;
                let right = self.confirmed(text);
                self.known = text + right;
                // The last token's logits are yet to be computed.
                self.held
                    .sequence
                    .rewind(text + right.min(new.saturating_sub(1)));
                result.map(|(_, end)| end)
            }
        }
    }

    /// Ends the text, or its request, if it is to end.
    pub(crate) fn settle(
        &mut self,
        result: Result<Option<End>, RequestError>,
        group: &mut Group,
        tell: &mut dyn FnMut(Event),
    ) {
        match result {
            Ok(None) => {}
            Ok(Some((reason, text))) => {
                self.ended = true;
                let usage = self.usage();
                let kind = EventKind::Finished {
                    text,
                    reason,
                    usage,
                };
                group.tell(self.request, self.choice, kind, tell);
                group.end(self.choice, self.rank());
            }
            Err(error) => group.fail(self.request, self.choice, error, tell),
        }
    }
}

/// The engine's memory, as planning sees it.
struct Floor<'e, 'a> {
    cache: &'e mut Cache,
    draft_model: Option<&'e mut DraftModel<'a>>,
    running: &'e mut Vec<Running<'a>>,
    width: usize,
    queries: u64,
    hits: u64,
}

impl Pages for Floor<'_, '_> {
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
fn release(cache: &mut Cache, draft_model: Option<&mut DraftModel<'_>>, running: &mut Running<'_>) {
    let Running {
        salt,
        tokens,
        held,
        drafted,
        known,
        ..
    } = running;
    // Guesses may still be there, if nobody looked at what came of them.
    held.sequence.rewind(tokens.len());
    let known = (*known).min(tokens.len());
    if matches!(running.aim, Aim::Write(_) | Aim::Search(_)) {
        cache.record_tail(*salt, tokens, held);
    }
    cache.release(held);
    if let Some(draft) = draft_model {
        draft.release(*salt, &tokens[..known], drafted);
    }
}

fn find<'r, 'a>(running: &'r mut [Running<'a>], id: TaskId) -> Option<&'r mut Running<'a>> {
    let index = running
        .binary_search_by_key(&id, |running| running.id)
        .ok()?;
    Some(&mut running[index])
}
