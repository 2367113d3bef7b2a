//! What generates a text: from rows of logits to tokens, to characters, to events.

use crate::active_sequence::confirmed;
use crate::chooser::{Chooser, sampled};
use crate::constraint::{Constraint, ConstraintError};
use crate::request::{EventKind, FinishReason, Request, RequestError, TokenLogprobs, Usage};
use crate::sampling::{Sampler, SettingsError};
use crate::small_string::SmallString;
use crate::speculation::{Drafter, Predictor};
use crate::stop::StopMatcher;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_tokenizer::{DecodeOptions, StreamDecoder, Tokenizer};

/// What generates one text.
#[derive(Clone)]
pub(crate) struct Writer {
    sampler: Sampler,
    decoder: StreamDecoder<Arc<Tokenizer>>,
    stops: StopMatcher,
    constraint: Option<Box<dyn Constraint>>,
    logprobs: Option<usize>,
    post_sampling: bool,
    /// Whether it is told how much of the prompt is computed.
    pub(crate) progress: bool,
    /// Alternatives to report for the prompt's tokens, and the next of them to report.
    scoring: Option<(usize, usize)>,
    ignore_end: bool,
    stop_tokens: Vec<u32>,
    min_tokens: usize,
    max_tokens: usize,
    /// Whether `max_tokens` is what the context leaves, not what was asked for.
    bounded_by_context: bool,
    /// Whether the answers are ranked by how likely they are.
    ranked: bool,
    /// The sum of the tokens' log-probabilities, if they are ranked.
    pub(crate) score: f64,
    pub(crate) usage: Usage,
    pub(crate) forced_tokens: usize,
    /// Drafts that were checked.
    pub(crate) drafts: u64,
    pub(crate) drafter: Drafter,
}

/// How a text ended, with the rest of its characters.
pub(crate) type End = (FinishReason, SmallString);

impl Writer {
    /// A writer that goes on after a prompt, with room for `room` tokens.
    pub(crate) fn new(
        request: &Request,
        tokenizer: &Arc<Tokenizer>,
        vocabulary: usize,
        room: usize,
        (most_guesses, predictor): (usize, Option<Predictor>),
    ) -> Result<Self, SettingsError> {
        let vocabulary = sampled(tokenizer, vocabulary);
        let mut sampler = Sampler::new(request.sampling.clone(), vocabulary)?;
        sampler.prime(&request.prompt);
        let max_tokens = request.max_tokens.unwrap_or(room).min(room);
        let shown = DecodeOptions {
            show_special: request.show_special,
        };
        Ok(Self {
            sampler,
            decoder: StreamDecoder::new(Arc::clone(tokenizer), shown).spelling(&request.spelled),
            stops: StopMatcher::new(&request.stop),
            constraint: request.constraint.clone(),
            logprobs: request.logprobs,
            post_sampling: request.post_sampling,
            progress: request.progress,
            scoring: request.prompt_logprobs.map(|n| (n, 1)),
            ignore_end: request.ignore_end,
            stop_tokens: request.stop_tokens.clone(),
            min_tokens: request.min_tokens,
            max_tokens,
            bounded_by_context: request.max_tokens.is_none_or(|asked| asked > max_tokens),
            ranked: request.choices.generated() > request.choices.wanted(),
            score: 0.0,
            usage: Usage {
                prompt_tokens: request.prompt.len(),
                ..Usage::default()
            },
            forced_tokens: 0,
            drafts: 0,
            drafter: Drafter::new(request.speculation, most_guesses, predictor),
        })
    }

    /// Draws with another seed.
    pub(crate) fn reseed(&mut self, choice: usize) {
        let seed = self.sampler.settings().seed;
        self.sampler.reseed(seed.wrapping_add(choice as u64));
        self.scoring = None;
    }

    /// Of how many tokens of the prompt the log-probabilities have been told, less one; none if they are not wanted or
    /// all told.
    pub(crate) fn scored(&self) -> Option<usize> {
        let (_, next) = self.scoring?;
        (next < self.usage.prompt_tokens).then_some(next - 1)
    }

    /// Guesses that could come before the last token, which needs none.
    pub(crate) fn guesses_left(&self) -> usize {
        self.max_tokens
            .saturating_sub(self.usage.generated_tokens + 1)
    }

    /// The mean log-probability of a token, by which answers are ranked.
    pub(crate) fn rank(&self) -> f64 {
        self.score / self.usage.generated_tokens.max(1) as f64
    }

    /// Tells the log-probabilities of the prompt's tokens after `from`, whose rows of logits these are.
    pub(crate) fn score_prompt(
        &mut self,
        prompt: &[u32],
        from: usize,
        rows: &[f32],
        chooser: &mut Chooser,
        tell: &mut dyn FnMut(EventKind),
    ) -> Result<(), RequestError> {
        let Some((n, next)) = self.scoring else {
            return Ok(());
        };
        let mut logprobs = Vec::new();
        let vocabulary = chooser.mask.vocabulary();
        for (i, row) in rows.chunks_exact(vocabulary).enumerate() {
            let place = from + i + 1;
            if let Some(&token) = prompt.get(place).filter(|_| place >= next) {
                logprobs.push(chooser.logprobs(row, token, n)?);
            }
        }
        if !logprobs.is_empty() {
            self.scoring = Some((n, next + logprobs.len()));
            tell(EventKind::PromptLogprobs {
                from: next,
                logprobs,
            });
        }
        Ok(())
    }

    /// Chooses the next token, and one more for each guess that was right. `logits` is (1 + guesses, vocabulary).
    ///
    /// Gives how many of the guesses were right.
    pub(crate) fn advance(
        &mut self,
        tokens: &mut Vec<u32>,
        draft: &[u32],
        logits: &[f32],
        chooser: &mut Chooser,
        tell: &mut dyn FnMut(EventKind),
    ) -> Result<(usize, Option<End>), RequestError> {
        let text = tokens.len();
        let vocabulary = chooser.mask.vocabulary();
        if self.max_tokens == 0 {
            return Ok((0, Some(self.full())));
        }
        let (right, end) = loop {
            // The row after the tokens that are known, which were all guessed.
            let row = &logits[(tokens.len() - text) * vocabulary..][..vocabulary];
            let end = self.choose(tokens, row, chooser, tell)?;
            let right = confirmed(&tokens[text..], draft);
            if right < tokens.len() - text || end.is_some() {
                break (right, end);
            }
        };
        self.drafts += u64::from(!draft.is_empty());
        self.usage.drafted_tokens += draft.len();
        self.usage.accepted_tokens += right;
        let new = tokens.len() - text;
        self.drafter.learn(right, right < new.min(draft.len()));
        Ok((right, end))
    }

    /// Chooses one token from its row of logits, and takes those that must follow it.
    fn choose(
        &mut self,
        tokens: &mut Vec<u32>,
        logits: &[f32],
        chooser: &mut Chooser,
        tell: &mut dyn FnMut(EventKind),
    ) -> Result<Option<End>, RequestError> {
        if let Some(constraint) = &mut self.constraint {
            chooser.mask.clear();
            constraint.allowed(&mut chooser.mask)?;
            chooser.mask.apply(logits, &mut chooser.masked);
        }
        let constrained = self.constraint.is_some();
        let early = self.usage.generated_tokens < self.min_tokens;
        if early {
            chooser.ban_ends(logits, constrained, &self.stop_tokens);
        }
        let allowed = if constrained || early {
            &chooser.masked
        } else {
            logits
        };
        let allowed = &allowed[..chooser.sampled];
        let choice = self.sampler.sample(allowed, &mut chooser.sampling)?;
        let token = choice.token;
        let wanted = self.logprobs.or(self.ranked.then_some(0));
        let logprobs = match wanted {
            None => None,
            Some(n) if self.post_sampling => Some(chooser.drawn(logits, choice, n)?),
            Some(n) => Some(chooser.logprobs(logits, token, n)?),
        };
        if let Some(logprobs) = &logprobs {
            self.score += f64::from(logprobs.chosen.logprob);
        }
        let logprobs = logprobs.filter(|_| self.logprobs.is_some());
        if let Some(end) = self.take(tokens, token, logprobs, chooser, tell)? {
            return Ok(Some(end));
        }
        match wanted {
            None => self.take_forced(tokens, chooser, tell),
            // Their log-probabilities are wanted, so they are chosen one by one like all others.
            Some(_) => Ok(None),
        }
    }

    /// Takes what a text must begin with.
    pub(crate) fn begin(
        &mut self,
        tokens: &mut Vec<u32>,
        chooser: &mut Chooser,
        tell: &mut dyn FnMut(EventKind),
    ) -> Result<Option<End>, RequestError> {
        if self.logprobs.is_none() && !self.ranked && self.max_tokens > 0 {
            self.take_forced(tokens, chooser, tell)
        } else {
            Ok(None)
        }
    }

    /// Takes the tokens that the constraint leaves no choice for.
    fn take_forced(
        &mut self,
        tokens: &mut Vec<u32>,
        chooser: &mut Chooser,
        tell: &mut dyn FnMut(EventKind),
    ) -> Result<Option<End>, RequestError> {
        loop {
            let Some(constraint) = &mut self.constraint else {
                return Ok(None);
            };
            let mut forced = core::mem::take(&mut chooser.forced);
            forced.clear();
            constraint.forced(&mut forced)?;
            let mut end = None;
            for &token in &forced {
                if token as usize >= chooser.mask.vocabulary() {
                    return Err(ConstraintError::Token { token }.into());
                }
                self.forced_tokens += 1;
                end = self.take(tokens, token, None, chooser, tell)?;
                if end.is_some() {
                    break;
                }
            }
            let none = forced.is_empty();
            chooser.forced = forced;
            if none || end.is_some() {
                return Ok(end);
            }
        }
    }

    /// Takes a token in and tells of it. Gives the reason and the rest of the text if it was the last.
    fn take(
        &mut self,
        tokens: &mut Vec<u32>,
        token: u32,
        logprobs: Option<TokenLogprobs>,
        chooser: &Chooser,
        tell: &mut dyn FnMut(EventKind),
    ) -> Result<Option<End>, RequestError> {
        self.sampler.accept(token);
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token)?;
        }
        let ends = chooser.tokenizer.is_end_of_generation(token) && !self.ignore_end;
        if ends || self.stop_tokens.contains(&token) {
            return Ok(Some((FinishReason::EndOfTurn(token), self.rest())));
        }
        tokens.push(token);
        self.usage.generated_tokens += 1;
        let text = self.decoder.push(token);
        let (text, stopped) = if self.usage.generated_tokens <= self.min_tokens {
            (text, None)
        } else {
            let emit = self.stops.push(text);
            (emit.text, emit.stopped)
        };
        tell(EventKind::Token {
            token,
            text: text.into(),
            logprobs,
        });
        if let Some(which) = stopped {
            return Ok(Some((FinishReason::Stop(which), SmallString::default())));
        }
        if self.constraint.as_ref().is_some_and(|c| c.is_complete()) {
            return Ok(Some((FinishReason::Complete, self.rest())));
        }
        Ok((self.usage.generated_tokens >= self.max_tokens).then(|| self.full()))
    }

    /// The end of a text that has all its tokens.
    fn full(&mut self) -> End {
        let reason = if self.bounded_by_context {
            FinishReason::ContextFull
        } else {
            FinishReason::Length
        };
        // It is cut short, not wrong: half a character is no part of it.
        self.decoder.drop_incomplete();
        (reason, self.rest())
    }

    /// What is left in the decoder and the stop matcher.
    fn rest(&mut self) -> SmallString {
        let emit = self.stops.push(self.decoder.finish());
        let mut text = String::from(emit.text);
        if emit.stopped.is_none() {
            text.push_str(self.stops.finish());
        }
        text.into()
    }
}
