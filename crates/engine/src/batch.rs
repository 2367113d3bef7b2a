//! A batch: what is computed together, and what becomes of it.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::beams::Search;
use crate::chooser::Chooser;
use crate::engine::{Engine, GAIN};
use crate::group::Group;
use crate::request::{Event, EventKind, FinishReason, RequestError};
use crate::small_string::SmallString;
use crate::writer::End;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::Span;
use strata_platform::Clock;

impl Engine {
    /// Computes the batch and makes of it what the sequences want.
    pub(crate) fn compute(&mut self, start: Duration, tell: &mut dyn FnMut(Event)) {
        let config = self.executor().config();
        let (vocabulary, width) = (config.vocabulary, config.width);
        let mut batch = emptied(core::mem::take(&mut self.spans));
        let in_batch = |active: &&mut ActiveSequence| active.in_batch > 0;
        for active in self.active.iter_mut().filter(in_batch) {
            let adapter = self.adapters.get(active.salt.adapter);
            batch.push(active.span(adapter));
        }
        let texts = batch.len();
        if texts == 0 {
            self.spans = emptied(batch);
            return;
        }
        let tokens: usize = batch.iter().map(|span| span.tokens.len()).sum();
        let result = self.cache.forward(&mut batch);
        self.spans = emptied(batch);
        self.active.iter_mut().for_each(ActiveSequence::withdraw);
        let (mut logits, mut states) = match &result {
            Ok(outputs) => (outputs.logits, outputs.states),
            Err(_) => (&[][..], &[][..]),
        };
        let now = |clock: &Arc<dyn Clock>| Duration::from_nanos(clock.now_ns());
        let now = self.clock.as_ref().map_or(start, now);
        for active in self.active.iter_mut().filter(in_batch) {
            let Some(group) = self.groups.get_mut(&active.request) else {
                continue;
            };
            let mine;
            let done = match &result {
                Err(error) => Err(error.clone().into()),
                Ok(_) => {
                    (mine, logits) = logits.split_at(active.rows * vocabulary);
                    let floats = match active.aim {
                        Aim::Write(_) | Aim::Search(_) => 0,
                        _ => active.in_batch * width,
                    };
                    let vectors;
                    (vectors, states) = states.split_at(floats);
                    let before = active.generated();
                    let done = if group.failed {
                        Ok(None)
                    } else {
                        active.advance(mine, vectors, group, &mut self.chooser, tell)
                    };
                    let new = active.generated() - before;
                    if new > 0 {
                        self.counters.generated_tokens += new as u64;
                        if group.first_token.is_none() {
                            group.first_token = Some(now);
                            let waited = now.saturating_sub(group.submitted);
                            self.counters.first_token_time.record_time(waited);
                        }
                        if let Some(latest) = active.latest.replace(now) {
                            let each = now.saturating_sub(latest) / new as u32;
                            (0..new).for_each(|_| self.counters.token_time.record_time(each));
                        }
                    }
                    done
                }
            };
            active.settle(done, group, tell);
        }
        self.score(tell);
        self.settle(now.saturating_sub(start), tokens, texts);
    }

    /// Has the classifier score the sequences that are to be scored and whose last state is known.
    fn score(&mut self, tell: &mut dyn FnMut(Event)) {
        for active in &mut self.active {
            let state = core::mem::take(&mut active.last_state);
            let Some(group) = self.groups.get_mut(&active.request) else {
                continue;
            };
            if state.is_empty() || group.failed {
                continue;
            }
            let done = match self.cache.executor_mut().classify(&state) {
                Err(error) => Err(error.into()),
                Ok(scores) => {
                    let kind = EventKind::Embedding(scores.to_vec());
                    group.tell(active.request, active.choice, kind, tell);
                    Ok(Some((FinishReason::Complete, SmallString::default())))
                }
            };
            active.settle(done, group, tell);
        }
    }

    /// Keeps what was computed, and counts it.
    fn settle(&mut self, time: Duration, tokens: usize, texts: usize) {
        for index in 0..self.active.len() {
            let active = &mut self.active[index];
            self.cache.rollback(&mut active.held, active.keep);
            if active.in_batch == 0 || active.ended {
                continue;
            }
            if active.leaves_pages() {
                let keys = active.images.keys(&active.tokens);
                self.cache.record(active.salt, &keys, &mut active.held);
                if active.is_landmark() {
                    let passing = active.is_passing();
                    self.cache.snapshot_page(&active.held, passing);
                }
            } else {
                self.cache.forget(&mut active.held);
            }
            if let Some(draft) = &mut self.draft_model {
                let known = active.known.min(active.tokens.len());
                draft.confirm(active.salt, &active.tokens[..known], &mut active.drafted);
            }
            let (id, request, pending) = (active.id, active.request, active.pending());
            self.scheduler.set_pending(id, pending);
            let writes = matches!(active.aim, Aim::Write(_));
            let first = writes && active.choice == 0 && active.held.sequence.len() >= active.prompt;
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
        self.show_step(time);
    }
}

impl ActiveSequence {
    /// Makes of a batch's results what the sequence wants: `logits` are its rows, `states` its tokens'.
    fn advance(
        &mut self,
        logits: &[f32],
        states: &[f32],
        group: &mut Group,
        chooser: &mut Chooser,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<End>, RequestError> {
        let (request, choice) = (self.request, self.choice);
        let candidates = group.search.as_ref().map(Search::candidates);
        let candidates = candidates.unwrap_or_default();
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
                Ok(self
                    .whole
                    .then(|| (FinishReason::Complete, SmallString::default())))
            }
            Aim::Score(_) => {
                if self.whole {
                    let width = states.len() / self.in_batch;
                    self.last_state = states[states.len() - width..].to_vec();
                }
                Ok(None)
            }
            Aim::Search(beam) => {
                if self.whole {
                    beam.learn(logits, candidates, chooser)?;
                }
                Ok(None)
            }
            Aim::Write(writer) => {
                if writer.progress && choice == 0 && computed - self.in_batch < self.prompt {
                    let computed = computed.min(self.prompt);
                    report(EventKind::Progress { computed });
                }
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
                self.keep = text + right.min(new.saturating_sub(1));
                result.map(|(_, end)| end)
            }
        }
    }

    /// Ends the sequence, or its request, if it is to end.
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

/// The memory of some spans for others: it is the same, since what they borrow is gone and their size is not.
fn emptied<'b>(mut spans: Vec<Span<'_>>) -> Vec<Span<'b>> {
    spans.clear();
    spans.into_iter().map_while(|_| None).collect()
}
