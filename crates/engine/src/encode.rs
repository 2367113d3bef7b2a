//! Texts through an encoder: whole ones, as many together as there is room for, with nothing kept of them.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::engine::Engine;
use crate::request::{Event, EventKind, FinishReason};
use crate::small_string::SmallString;
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::{EncoderInput, Pooled};

impl Engine {
    /// Encodes the texts whose turn it is. Those to embed and those to score take turns.
    pub(crate) fn encode(&mut self, start: Duration, tell: &mut dyn FnMut(Event)) {
        let room = self.options.tokens();
        let scores = |active: &ActiveSequence| matches!(active.aim, Aim::Score(_));
        let Some(first) = self.scheduler.next_whole(start) else {
            return;
        };
        let Ok(at) = self.active.binary_search_by_key(&first, |r| r.id) else {
            return;
        };
        let ranks = scores(&self.active[at]);
        let active = &self.active;
        let alike = |id| {
            let at = active.binary_search_by_key(&id, |r| r.id);
            at.is_ok_and(|at| scores(&active[at]) == ranks)
        };
        let shares = self.scheduler.plan_whole(start, room, &alike).to_vec();
        let mut texts: Vec<EncoderInput<'_>> = Vec::new();
        for share in &shares {
            let Ok(at) = self.active.binary_search_by_key(&share.sequence, |r| r.id) else {
                continue;
            };
            let active = &self.active[at];
            texts.push(match active.aim {
                Aim::Score(second) => EncoderInput {
                    tokens: &active.tokens,
                    second: second.min(active.tokens.len()),
                },
                _ => EncoderInput::single(&active.tokens),
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
            let Ok(at) = self.active.binary_search_by_key(&share.sequence, |r| r.id) else {
                continue;
            };
            let active = &mut self.active[at];
            let Some(group) = self.groups.get_mut(&active.request) else {
                continue;
            };
            let done = match &result {
                Err(error) => Err(error.clone().into()),
                Ok(_) => {
                    let mine;
                    (mine, rows) = rows.split_at(if ranks { width } else { tokens * width });
                    let vector = match &active.aim {
                        Aim::Embed(kind, _) => {
                            let mut pooled = Pooled::new(*kind, width);
                            pooled.add(mine);
                            pooled.finish()
                        }
                        _ => mine.to_vec(),
                    };
                    let kind = EventKind::Embedding(vector);
                    group.tell(active.request, active.choice, kind, tell);
                    Ok(Some((FinishReason::Complete, SmallString::default())))
                }
            };
            self.counters.prompt_tokens += *tokens as u64;
            active.settle(done, group, tell);
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
