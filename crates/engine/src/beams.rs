//! Beam search: the likeliest texts that keeping a few at a time finds.
//!
//! Each text asks for the likeliest next tokens and then waits; when all have theirs, the best continuations are
//! chosen. A text that goes on in several ways is copied through the cache: the copy finds all that was computed. So
//! the texts of a search need not be in one batch, and any can be preempted, with the same result.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::cache::Cache;
use crate::chooser::Chooser;
use crate::constraint::{Constraint, ConstraintError};
use crate::engine::Engine;
use crate::group::Group;
use crate::logprobs::TokenLogprob;
use crate::request::{
    Choices, Event, EventKind, FinishReason, Request, RequestError, RequestId, TokenLogprobs, Usage,
};
use crate::scheduler::Scheduler;
use crate::stop::StopMatcher;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_tokenizer::{DecodeOptions, StreamDecoder, Tokenizer};

/// What is searched for.
pub(crate) struct Search {
    wanted: usize,
    width: usize,
    length_penalty: f64,
    max_tokens: usize,
    /// What ends a text of `max_tokens`.
    full: FinishReason,
    ignore_end: bool,
    /// Finds the texts that end an answer.
    stops: StopMatcher,
    /// Bytes of the longest of them; 0 if there are none.
    longest_stop: usize,
    /// Control tokens that the text spells out.
    spelled: Vec<u32>,
    /// Alternatives to report, if log-probabilities are wanted.
    logprobs: Option<usize>,
    done: Vec<Hypothesis>,
}

/// A text that has ended.
struct Hypothesis {
    tokens: Vec<u32>,
    /// One for each token, or none at all.
    logprobs: Vec<TokenLogprobs>,
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
    next: Option<Vec<TokenLogprob>>,
    /// What may come next, and what must hold after it.
    constraint: Option<Box<dyn Constraint>>,
    /// The likeliest next tokens whether they may come or not, if they are wanted.
    top: Vec<TokenLogprob>,
    /// Of its tokens, if they are wanted.
    logprobs: Vec<TokenLogprobs>,
}

/// How many of the likeliest tokens a text asks for.
#[derive(Copy, Clone, Default)]
pub(crate) struct Candidates {
    ways: usize,
    /// To be reported.
    top: usize,
}

impl Beam {
    /// The text that a search begins with.
    pub(crate) fn first(constraint: Option<Box<dyn Constraint>>) -> Self {
        Self {
            live: true,
            constraint,
            ..Self::default()
        }
    }

    /// Takes in what may come next.
    pub(crate) fn learn(
        &mut self,
        logits: &[f32],
        candidates: Candidates,
        chooser: &mut Chooser,
    ) -> Result<(), RequestError> {
        self.top.clear();
        if candidates.top > 0 {
            self.top = chooser.likeliest(logits, candidates.top)?;
        }
        self.next = Some(match &mut self.constraint {
            None => chooser.likeliest(logits, candidates.ways)?,
            Some(constraint) => {
                chooser.likeliest_allowed(logits, candidates.ways, constraint.as_mut())?
            }
        });
        Ok(())
    }

    /// What must hold after one more token, which must be allowed.
    fn constraint_after(&self, token: u32) -> Result<Option<Box<dyn Constraint>>, ConstraintError> {
        let mut constraint = self.constraint.clone();
        if let Some(constraint) = &mut constraint {
            constraint.accept(token)?;
        }
        Ok(constraint)
    }
}

/// A way to go on.
#[derive(Copy, Clone)]
struct Step {
    score: f64,
    parent: usize,
    token: u32,
    logprob: f32,
}

/// A way that was chosen, and what must hold after it.
type Choice = (Step, Option<Box<dyn Constraint>>);

/// What a place goes on with.
enum Way {
    /// Its own text and this token.
    Own(u32),
    /// A copy of another's.
    Copy(Vec<u32>),
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
            full: if request.max_tokens.is_none_or(|asked| asked > max_tokens) {
                FinishReason::ContextFull
            } else {
                FinishReason::Length
            },
            ignore_end: request.ignore_end,
            stops: StopMatcher::new(&request.stop),
            longest_stop: request.stop.iter().map(String::len).max().unwrap_or(0),
            spelled: request.spelled.clone(),
            logprobs: request.logprobs,
            done: Vec::new(),
        })
    }

    /// Ways to go on from each text: enough if half of them end it.
    fn ways(&self) -> usize {
        2 * self.width
    }

    /// Tokens that each text asks for.
    pub(crate) fn candidates(&self) -> Candidates {
        Candidates {
            ways: self.ways(),
            top: self.logprobs.unwrap_or(0),
        }
    }

    /// Ends a text, with the step's token where that is part of it.
    fn end(&mut self, text: &ActiveSequence, step: Step, reason: FinishReason) {
        let mut tokens = text.tokens[text.prompt..].to_vec();
        let mut logprobs = match &text.aim {
            Aim::Search(beam) => beam.logprobs.clone(),
            _ => Vec::new(),
        };
        if !matches!(reason, FinishReason::EndOfTurn(_)) {
            tokens.push(step.token);
            logprobs.extend(self.logprobs_of(text, step));
        }
        // The token that ends a turn has its part in the score, so it counts, though it is not told.
        let length = text.generated() + 1;
        self.done.push(Hypothesis {
            rank: step.score / libm::pow(length as f64, self.length_penalty),
            tokens,
            logprobs,
            reason,
        });
    }

    /// A step's log-probabilities, if they are wanted.
    fn logprobs_of(&self, text: &ActiveSequence, step: Step) -> Option<TokenLogprobs> {
        let n = self.logprobs?;
        let Aim::Search(beam) = &text.aim else {
            return None;
        };
        Some(TokenLogprobs {
            chosen: TokenLogprob {
                token: step.token,
                logprob: step.logprob,
            },
            top: beam.top[..beam.top.len().min(n)].to_vec(),
        })
    }

    /// The stop text that a token completes after a text that has none.
    fn stopped(&mut self, text: &[u32], token: u32, tokenizer: &Tokenizer) -> Option<usize> {
        if self.longest_stop == 0 {
            return None;
        }
        // Only what a stop text could have begun in matters, and a character more for one that is cut.
        let (mut from, mut bytes) = (text.len(), 0);
        while from > 0 && bytes < self.longest_stop + 4 {
            from -= 1;
            bytes += tokenizer.token_bytes(text[from]).map_or(0, |b| b.len());
        }
        let options = DecodeOptions::default();
        let mut decoder = StreamDecoder::new(tokenizer, options).spelling(&self.spelled);
        let tokens = text[from..].iter().chain([&token]);
        let stopped = tokens
            .into_iter()
            .find_map(|&token| self.stops.push(decoder.push(token)).stopped);
        self.stops.finish();
        stopped
    }

    /// All ways to go on, the best first.
    fn steps(&self, active: &[ActiveSequence]) -> Vec<Step> {
        let mut steps = Vec::new();
        for (parent, text) in active.iter().enumerate() {
            if let Aim::Search(beam) = &text.aim
                && let Some(next) = beam.next.as_ref().filter(|_| beam.live)
            {
                steps.extend(next.iter().map(|candidate| Step {
                    score: beam.score + f64::from(candidate.logprob),
                    parent,
                    token: candidate.token,
                    logprob: candidate.logprob,
                }));
            }
        }
        steps.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then((a.parent, a.token).cmp(&(b.parent, b.token)))
        });
        steps
    }

    /// The best ways to go on; those that end a text are taken out.
    fn choose(
        &mut self,
        active: &[ActiveSequence],
        tokenizer: &Tokenizer,
    ) -> Result<Vec<Choice>, ConstraintError> {
        let mut chosen = Vec::new();
        for (place, step) in self.steps(active).into_iter().enumerate() {
            if chosen.len() == self.width {
                break;
            }
            let text = &active[step.parent];
            let Aim::Search(beam) = &text.aim else {
                continue;
            };
            let constraint = beam.constraint_after(step.token)?;
            let reason = if tokenizer.is_end_of_generation(step.token) && !self.ignore_end {
                Some(FinishReason::EndOfTurn(step.token))
            } else {
                self.stopped(&text.tokens[text.prompt..], step.token, tokenizer)
                    .map(FinishReason::Stop)
            };
            let complete = constraint.as_ref().is_some_and(|c| c.is_complete());
            match reason.or(complete.then_some(FinishReason::Complete)) {
                None => chosen.push((step, constraint)),
                Some(reason) if place < self.width => self.end(text, step, reason),
                // An end that is not among the best is none.
                Some(_) => {}
            }
        }
        Ok(chosen)
    }
}

impl Engine {
    /// Takes each search on whose texts have all been computed.
    pub(crate) fn search(&mut self, tell: &mut dyn FnMut(Event)) {
        for (&id, group) in &mut self.groups {
            let Some(mut search) = group.search.take().filter(|_| !group.failed) else {
                continue;
            };
            let from = self.active.partition_point(|text| text.request < id);
            let to = self.active.partition_point(|text| text.request <= id);
            let texts = &mut self.active[from..to];
            let waits = |text: &ActiveSequence| match &text.aim {
                Aim::Search(beam) => beam.live && beam.next.is_none(),
                _ => false,
            };
            if texts.iter().any(waits) {
                group.search = Some(search);
                continue;
            }
            let steps = match search.choose(texts, &self.tokenizer) {
                Ok(steps) => steps,
                Err(error) => {
                    group.fail(id, 0, error.into(), tell);
                    continue;
                }
            };
            let length = steps
                .first()
                .map_or(0, |(step, _)| texts[step.parent].generated() + 1);
            let full = length >= search.max_tokens;
            if full || steps.is_empty() || search.done.len() >= search.width {
                for (step, _) in steps.iter().filter(|_| full) {
                    search.end(&texts[step.parent], *step, search.full);
                }
                texts.iter_mut().for_each(|text| text.ended = true);
                group.open = 0;
                let prompt = texts.first().map_or(0, |text| text.prompt);
                self.counters.generated_tokens +=
                    search.tell(id, group, prompt, &self.tokenizer, tell);
            } else {
                let memory = (&mut self.cache, &mut self.scheduler);
                search.go_on(texts, steps, memory);
                group.search = Some(search);
            }
        }
    }
}

impl Search {
    /// Has the texts go on as chosen: the first way of each in its place, the others in the places of those that do
    /// not.
    fn go_on(
        &self,
        texts: &mut [ActiveSequence],
        steps: Vec<Choice>,
        (cache, scheduler): (&mut Cache, &mut Scheduler),
    ) {
        for text in texts.iter_mut() {
            let keys = text.images.keys(&text.tokens);
            cache.record_tail(text.salt, &keys, &mut text.held);
        }
        let mut places: Vec<Option<(Way, Beam)>> = texts.iter().map(|_| None).collect();
        let mut others = Vec::new();
        for choice in steps {
            let (step, _) = choice;
            let text = &texts[step.parent];
            match &mut places[step.parent] {
                place @ None => *place = Some((Way::Own(step.token), self.follow(text, choice))),
                Some(_) => others.push(choice),
            }
        }
        let mut free = places.iter_mut().filter(|place| place.is_none());
        for choice in others {
            if let Some(place) = free.next() {
                let (step, _) = choice;
                let text = &texts[step.parent];
                let mut tokens = text.tokens.clone();
                tokens.push(step.token);
                *place = Some((Way::Copy(tokens), self.follow(text, choice)));
            }
        }
        for (text, place) in texts.iter_mut().zip(places) {
            text.parked = place.is_none();
            if !matches!(place, Some((Way::Own(_), _))) {
                cache.release(&mut text.held);
                scheduler.set_waiting(text.id);
            }
            let mut next = Beam::default();
            if let Some((way, beam)) = place {
                next = beam;
                match way {
                    Way::Own(token) => text.tokens.push(token),
                    Way::Copy(tokens) => text.tokens = tokens,
                }
            }
            text.aim = Aim::Search(next);
            let pending = if text.parked { 0 } else { text.pending() };
            scheduler.set_pending(text.id, pending);
        }
    }

    /// The beam after a step of a text.
    fn follow(&self, text: &ActiveSequence, (step, constraint): Choice) -> Beam {
        let mut logprobs = match &text.aim {
            Aim::Search(beam) => beam.logprobs.clone(),
            _ => Vec::new(),
        };
        logprobs.extend(self.logprobs_of(text, step));
        Beam {
            score: step.score,
            live: true,
            constraint,
            logprobs,
            ..Beam::default()
        }
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
        let done = core::mem::take(&mut self.done);
        for (choice, hypothesis) in done.into_iter().enumerate() {
            let mut tell = |kind| {
                tell(Event {
                    request,
                    choice,
                    kind,
                });
            };
            let options = DecodeOptions::default();
            let mut decoder = StreamDecoder::new(tokenizer, options).spelling(&self.spelled);
            let usage = Usage {
                prompt_tokens: prompt,
                cached_tokens: group.cached,
                generated_tokens: hypothesis.tokens.len(),
                ..Usage::default()
            };
            let mut logprobs = hypothesis.logprobs.into_iter();
            for token in hypothesis.tokens {
                told += 1;
                tell(EventKind::Token {
                    token,
                    text: self.stops.push(decoder.push(token)).text.into(),
                    logprobs: logprobs.next(),
                });
            }
            let mut rest = String::from(self.stops.push(decoder.finish()).text);
            let stopped = self.stops.stopped().is_some();
            let held = self.stops.finish();
            rest.push_str(if stopped { "" } else { held });
            tell(EventKind::Finished {
                text: rest.into(),
                reason: hypothesis.reason,
                usage,
            });
        }
        told
    }
}
