//! Beam search: the likeliest texts that keeping a few at a time finds.
//!
//! Each text asks for the likeliest next tokens and then waits; when all have theirs, the best continuations are
//! chosen. A text that goes on in several ways is copied through the cache: the copy finds all that was computed. So
//! the texts of a search need not be in one batch, and any can be preempted, with the same result.

use crate::cache::Cache;
use crate::engine::Engine;
use crate::group::Group;
use crate::logprobs::TokenLogprob;
use crate::request::{Choices, Event, EventKind, FinishReason, Request, RequestId, Usage};
use crate::running::{Aim, Running};
use crate::scheduler::Scheduler;
use alloc::vec::Vec;
use strata_token::tokenizer::{DecodeOptions, StreamDecoder, Tokenizer};

/// What is searched for.
pub(crate) struct Search {
    wanted: usize,
    width: usize,
    length_penalty: f64,
    max_tokens: usize,
    /// What ends a text of `max_tokens`.
    full: FinishReason,
    ignore_end: bool,
    done: Vec<Hypothesis>,
}

/// A text that has ended.
struct Hypothesis {
    tokens: Vec<u32>,
    rank: f64,
    reason: FinishReason,
}

/// One of the texts that are kept.
#[derive(Default)]
pub(crate) struct Beam {
    /// The sum of its tokens' log-probabilities.
    score: f64,
    /// Whether it is one of them now.
    pub(crate) live: bool,
    /// The likeliest next tokens, once they are known.
    pub(crate) next: Option<Vec<TokenLogprob>>,
}

impl Beam {
    /// The text that a search begins with.
    pub(crate) fn first() -> Self {
        Self {
            live: true,
            ..Self::default()
        }
    }
}

/// A way to go on.
#[derive(Copy, Clone)]
struct Step {
    score: f64,
    parent: usize,
    token: u32,
}

impl Search {
    /// The search that a request asks for, if it does, with room for `room` tokens.
    pub(crate) fn new(request: &Request, room: usize) -> Option<Self> {
        let Choices::Beams {
            n,
            width,
            length_penalty,
        } = request.choices
        else {
            return None;
        };
        let max_tokens = request.max_tokens.unwrap_or(room).min(room);
        Some(Self {
            wanted: n,
            width,
            length_penalty: f64::from(length_penalty),
            max_tokens,
            full: match request.max_tokens.is_none_or(|asked| asked > max_tokens) {
                true => FinishReason::ContextFull,
                false => FinishReason::Length,
            },
            ignore_end: request.ignore_end,
            done: Vec::new(),
        })
    }

    /// Tokens that each text asks for: enough if half of them end it.
    pub(crate) fn candidates(&self) -> usize {
        2 * self.width
    }

    fn end(&mut self, tokens: Vec<u32>, score: f64, reason: FinishReason) {
        let length = tokens.len().max(1) as f64;
        self.done.push(Hypothesis {
            tokens,
            rank: score / libm::pow(length, self.length_penalty),
            reason,
        });
    }

    /// The best ways to go on; those that end a text are taken out.
    fn choose(&mut self, running: &[Running<'_>], tokenizer: &Tokenizer) -> Vec<Step> {
        let mut steps = Vec::new();
        for (parent, text) in running.iter().enumerate() {
            if let Aim::Search(beam) = &text.aim
                && let Some(next) = beam.next.as_ref().filter(|_| beam.live)
            {
                steps.extend(next.iter().map(|candidate| Step {
                    score: beam.score + f64::from(candidate.logprob),
                    parent,
                    token: candidate.token,
                }));
            }
        }
        steps.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then((a.parent, a.token).cmp(&(b.parent, b.token)))
        });
        let mut chosen = Vec::new();
        for (place, &step) in steps.iter().enumerate() {
            if chosen.len() == self.width {
                break;
            }
            if tokenizer.is_end_of_generation(step.token) && !self.ignore_end {
                // An end that is not among the best is none.
                if place < self.width {
                    let text = &running[step.parent];
                    let tokens = text.tokens[text.prompt..].to_vec();
                    self.end(tokens, step.score, FinishReason::EndOfTurn(step.token));
                }
            } else {
                chosen.push(step);
            }
        }
        chosen
    }
}

impl Engine<'_> {
    /// Takes each search on whose texts have all been computed.
    pub(crate) fn search(&mut self, tell: &mut dyn FnMut(Event)) {
        for (&id, group) in &mut self.groups {
            let Some(mut search) = group.search.take().filter(|_| !group.failed) else {
                continue;
            };
            let from = self.running.partition_point(|text| text.request < id);
            let to = self.running.partition_point(|text| text.request <= id);
            let texts = &mut self.running[from..to];
            let waits = |text: &Running<'_>| match &text.aim {
                Aim::Search(beam) => beam.live && beam.next.is_none(),
                _ => false,
            };
            if texts.iter().any(waits) {
                group.search = Some(search);
                continue;
            }
            let steps = search.choose(texts, self.tokenizer);
            let length = steps
                .first()
                .map_or(0, |step| texts[step.parent].generated() + 1);
            let full = length >= search.max_tokens;
            if full || steps.is_empty() || search.done.len() >= search.width {
                for step in steps.iter().filter(|_| full) {
                    let text = &texts[step.parent];
                    let mut tokens = text.tokens[text.prompt..].to_vec();
                    tokens.push(step.token);
                    search.end(tokens, step.score, search.full);
                }
                texts.iter_mut().for_each(|text| text.ended = true);
                group.open = 0;
                let prompt = texts.first().map_or(0, |text| text.prompt);
                self.counters.generated_tokens +=
                    search.tell(id, group, prompt, self.tokenizer, tell);
            } else {
                go_on(texts, &steps, &mut self.cache, &mut self.scheduler);
                group.search = Some(search);
            }
        }
    }
}

/// Has the texts go on as chosen: the first way of each in its place, the others in the places of those that do not.
fn go_on(texts: &mut [Running<'_>], steps: &[Step], cache: &mut Cache, scheduler: &mut Scheduler) {
    for text in texts.iter_mut() {
        cache.record_tail(text.salt, &text.tokens, &mut text.held);
    }
    let mut places: Vec<Option<(Vec<u32>, f64)>> = texts.iter().map(|_| None).collect();
    let mut stays: Vec<Option<Step>> = texts.iter().map(|_| None).collect();
    let (first, others): (Vec<Step>, Vec<Step>) = steps.iter().partition(|step| {
        let place = &mut stays[step.parent];
        let first = place.is_none();
        place.get_or_insert(**step);
        first
    });
    let mut free = (0..texts.len()).filter(|&place| stays[place].is_none());
    for step in others {
        if let Some(place) = free.next() {
            let mut tokens = texts[step.parent].tokens.clone();
            tokens.push(step.token);
            places[place] = Some((tokens, step.score));
        }
    }
    for step in first {
        texts[step.parent].tokens.push(step.token);
    }
    for (place, text) in texts.iter_mut().enumerate() {
        let copied = places[place].take();
        let score = match (&copied, stays[place]) {
            (_, Some(step)) => Some(step.score),
            (Some((_, score)), None) => Some(*score),
            (None, None) => None,
        };
        if stays[place].is_none() {
            cache.release(&mut text.held);
            scheduler.set_waiting(text.id);
        }
        if let Some((tokens, _)) = copied {
            text.tokens = tokens;
        }
        text.parked = score.is_none();
        text.aim = Aim::Search(Beam {
            score: score.unwrap_or(0.0),
            live: score.is_some(),
            next: None,
        });
        let pending = if text.parked { 0 } else { text.pending() };
        scheduler.set_pending(text.id, pending);
    }
}

impl Search {
    /// Tells the best texts. Gives how many tokens they have.
    fn tell(
        mut self,
        request: RequestId,
        group: &Group,
        prompt: usize,
        tokenizer: &Tokenizer,
        tell: &mut dyn FnMut(Event),
    ) -> u64 {
        self.done.sort_by(|a, b| b.rank.total_cmp(&a.rank));
        self.done.truncate(self.wanted);
        let mut told = 0;
        for (choice, hypothesis) in self.done.into_iter().enumerate() {
            let mut tell = |kind| {
                tell(Event {
                    request,
                    choice,
                    kind,
                });
            };
            let mut decoder = StreamDecoder::new(tokenizer, DecodeOptions::default());
            let usage = Usage {
                prompt_tokens: prompt,
                cached_tokens: group.cached,
                generated_tokens: hypothesis.tokens.len(),
                ..Usage::default()
            };
            for token in hypothesis.tokens {
                told += 1;
                tell(EventKind::Token {
                    token,
                    text: decoder.push(token).into(),
                    logprobs: None,
                });
            }
            tell(EventKind::Finished {
                text: decoder.finish().into(),
                reason: hypothesis.reason,
                usage,
            });
        }
        told
    }
}
