//! Texts through an encoder: whole ones, as many together as there is room for, with nothing kept of them.

use crate::engine::Engine;
use crate::piece::Piece;
use crate::request::{Event, EventKind, FinishReason};
use crate::running::{Aim, Running};
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::{EncoderInput, Pooled};

impl Engine {
    /// Encodes the texts whose turn it is. Those to embed and those to score take turns.
    pub(crate) fn encode(&mut self, start: Duration, tell: &mut dyn FnMut(Event)) {
        let room = self.options.tokens();
        let scores = |running: &Running| matches!(running.aim, Aim::Score(_));
        let Some(first) = self.scheduler.next_whole(start) else {
            return;
        };
        let Ok(at) = self.running.binary_search_by_key(&first, |r| r.id) else {
            return;
        };
        let ranks = scores(&self.running[at]);
        let running = &self.running;
        let alike = |id| {
            let at = running.binary_search_by_key(&id, |r| r.id);
            at.is_ok_and(|at| scores(&running[at]) == ranks)
        };
        let shares = self.scheduler.plan_whole(start, room, &alike).to_vec();
        let mut texts: Vec<EncoderInput<'_>> = Vec::new();
        for share in &shares {
            let Ok(at) = self.running.binary_search_by_key(&share.task, |r| r.id) else {
                continue;
            };
            let running = &self.running[at];
            texts.push(match running.aim {
                Aim::Score(second) => EncoderInput {
                    tokens: &running.tokens,
                    second: second.min(running.tokens.len()),
                },
                _ => EncoderInput::single(&running.tokens),
            });
        }
        let lengths: Vec<usize> = texts.iter().map(|text| text.tokens.len()).collect();
        let executor = self.cache.executor_mut();
        let (labels, width) = (executor.labels(), executor.config().width);
        let (result, width) = if ranks {
            (executor.rank(&texts), labels)
        } else {
            (executor.encode(&texts), width)
        };
        let mut rows = result.as_ref().map_or(&[][..], |rows| rows);
        for (share, tokens) in shares.iter().zip(&lengths) {
            let Ok(at) = self.running.binary_search_by_key(&share.task, |r| r.id) else {
                continue;
            };
            let running = &mut self.running[at];
            let Some(group) = self.groups.get_mut(&running.request) else {
                continue;
            };
            let done = match &result {
                Err(error) => Err(error.clone().into()),
                Ok(_) => {
                    let mine;
                    (mine, rows) = rows.split_at(if ranks { width } else { tokens * width });
                    let vector = match &running.aim {
                        Aim::Embed(kind, _) => {
                            let mut pooled = Pooled::new(*kind, width);
                            pooled.add(mine);
                            pooled.finish()
                        }
                        _ => mine.to_vec(),
                    };
                    let kind = EventKind::Embedding(vector);
                    group.tell(running.request, running.choice, kind, tell);
                    Ok(Some((FinishReason::Complete, Piece::default())))
                }
            };
            self.counters.prompt_tokens += *tokens as u64;
            running.settle(done, group, tell);
        }
        let time = self.now().saturating_sub(start);
        self.counters.steps += 1;
        self.counters.batch_texts.record(lengths.len() as f64);
        self.counters
            .batch_tokens
            .record(lengths.iter().sum::<usize>() as f64);
        if self.clock.is_some() && !time.is_zero() {
            self.counters.step_time.record_time(time);
            self.scheduler.learn(lengths.iter().sum(), time);
        }
    }
}
