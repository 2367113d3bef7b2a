//! A request on its way: its text, its draft, and what the model's logits make of them.

use crate::logprobs::Logprobs;
use crate::request::{Event, EventKind, FinishReason, RequestId, TokenLogprobs, Usage};
use crate::sampling::{SampleError, Sampler, Workspace};
use crate::speculation::Drafter;
use crate::stop::StopMatcher;
use alloc::string::String;
use alloc::vec::Vec;
use strata_model::{Output, Sequence, Span};
use strata_token::tokenizer::{StreamDecoder, Tokenizer};

/// A request on its way.
pub(crate) struct Running<'a> {
    pub(crate) id: RequestId,
    /// The prompt and what was generated after it; the first `session.sequence.len()` are computed.
    pub(crate) session: Text,
    pub(crate) sampler: Sampler,
    pub(crate) decoder: StreamDecoder<'a>,
    pub(crate) stops: StopMatcher,
    pub(crate) logprobs: Option<usize>,
    pub(crate) ignore_end: bool,
    pub(crate) max_tokens: usize,
    /// Whether `max_tokens` is what the context leaves, not what was asked for.
    pub(crate) bounded_by_context: bool,
    pub(crate) usage: Usage,
    pub(crate) drafter: Drafter,
    /// Tokens of the text in the current batch.
    pub(crate) in_batch: usize,
    /// Tokens in the current batch that are guessed to come after them.
    pub(crate) draft: Vec<u32>,
    /// Rows of logits that the current batch gives.
    pub(crate) rows: usize,
}

/// Tokens, and what has been computed of them.
#[derive(Debug, Default)]
pub(crate) struct Text {
    pub(crate) tokens: Vec<u32>,
    pub(crate) sequence: Sequence,
    /// What the draft model has computed of them.
    pub(crate) drafted: Sequence,
}

/// What choosing tokens takes, for all requests.
pub(crate) struct Chooser<'a> {
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) sampling: Workspace,
    pub(crate) logprobs: Logprobs,
}

/// How a request ended, with the rest of its text.
pub(crate) type End = (FinishReason, String);

impl Running<'_> {
    /// Tokens that have yet to be computed.
    pub(crate) fn pending(&self) -> usize {
        self.session.tokens.len() - self.session.sequence.len()
    }

    /// Whether the batch computes the one token that the next follows.
    pub(crate) fn decodes(&self) -> bool {
        self.in_batch == 1 && self.pending() == 1
    }

    /// Guesses that could come before the last token, which needs none.
    pub(crate) fn guesses_left(&self) -> usize {
        self.max_tokens
            .saturating_sub(self.usage.generated_tokens + 1)
    }

    /// What the batch computes: the text's next tokens and the draft, which stands in the text until
    /// [`withdraw`](Self::withdraw).
    pub(crate) fn span(&mut self) -> Span<'_> {
        let from = self.session.sequence.len();
        let (output, rows) = match self.in_batch == self.pending() {
            false => (Output::None, 0),
            true if self.draft.is_empty() => (Output::LastLogits, 1),
            true => (Output::AllLogits, 1 + self.draft.len()),
        };
        self.rows = rows;
        self.session.tokens.extend_from_slice(&self.draft);
        Span {
            tokens: &self.session.tokens[from..from + self.in_batch + self.draft.len()],
            sequence: &mut self.session.sequence,
            output,
        }
    }

    /// Takes the draft out of the text.
    pub(crate) fn withdraw(&mut self) {
        let text = self.session.tokens.len() - self.draft.len();
        self.session.tokens.truncate(text);
    }

    /// How many of the tokens from `text` on were guessed.
    pub(crate) fn confirmed(&self, text: usize) -> usize {
        let tokens = self.session.tokens[text..].iter();
        tokens.zip(&self.draft).take_while(|(a, b)| a == b).count()
    }

    /// Chooses the next token, and one more for each guess that was right. `logits` is (rows, vocabulary).
    ///
    /// Whatever was computed for wrong guesses is forgotten.
    pub(crate) fn advance(
        &mut self,
        logits: &[f32],
        chooser: &mut Chooser<'_>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<End>, SampleError> {
        let text = self.session.tokens.len();
        let mut rows = logits.chunks_exact(logits.len() / self.rows).enumerate();
        let (used, right, result) = loop {
            let (row, logits) = rows.next().expect("the row after a draft has no guess");
            match self.choose(logits, chooser, tell) {
                Err(error) => break (row, row, Err(error)),
                Ok((token, end)) => {
                    let guess = self.draft.get(row);
                    let right = guess == Some(&token);
                    if !right || end.is_some() {
                        break (row, row + usize::from(right), Ok((end, guess.is_some())));
                    }
                }
            }
        };
        self.session.sequence.rewind(text + used);
        self.usage.drafted_tokens += self.draft.len();
        self.usage.accepted_tokens += right;
        let (end, guessed) = result?;
        self.drafter.learn(right, guessed && right == used);
        Ok(end)
    }

    /// Chooses one token from its row of logits.
    fn choose(
        &mut self,
        logits: &[f32],
        chooser: &mut Chooser<'_>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(u32, Option<End>), SampleError> {
        let token = self.sampler.sample(logits, &mut chooser.sampling)?.token;
        let logprobs = match self.logprobs {
            None => None,
            Some(n) => {
                let (chosen, top) = chooser.logprobs.compute(logits, token, n)?;
                Some(TokenLogprobs {
                    chosen,
                    top: top.to_vec(),
                })
            }
        };
        let ends = chooser.tokenizer.is_end_of_generation(token);
        Ok((token, self.take(token, ends, logprobs, tell)))
    }

    /// Takes a generated token in and tells of it. Gives the reason and the rest of the text if it was the last.
    fn take(
        &mut self,
        token: u32,
        ends: bool,
        logprobs: Option<TokenLogprobs>,
        tell: &mut dyn FnMut(Event),
    ) -> Option<(FinishReason, String)> {
        self.sampler.accept(token);
        if ends && !self.ignore_end {
            return Some((FinishReason::EndOfTurn(token), self.rest()));
        }
        self.session.tokens.push(token);
        self.usage.generated_tokens += 1;
        let emit = self.stops.push(self.decoder.push(token));
        let stopped = emit.stopped;
        tell(Event {
            request: self.id,
            choice: 0,
            kind: EventKind::Token {
                token,
                text: emit.text.into(),
                logprobs,
            },
        });
        if let Some(which) = stopped {
            return Some((FinishReason::Stop(which), String::new()));
        }
        if self.usage.generated_tokens < self.max_tokens {
            return None;
        }
        let reason = if self.bounded_by_context {
            FinishReason::ContextFull
        } else {
            FinishReason::Length
        };
        Some((reason, self.rest()))
    }

    /// What is left in the decoder and the stop matcher.
    fn rest(&mut self) -> String {
        let emit = self.stops.push(self.decoder.finish());
        let mut text = String::from(emit.text);
        if emit.stopped.is_none() {
            text.push_str(self.stops.finish());
        }
        text
    }
}
