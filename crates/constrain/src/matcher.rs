//! A grammar at some place in a text.

use std::collections::VecDeque;
use std::sync::Arc;

use llguidance::api::StopReason;
use strata_engine::{Constraint, ConstraintError, TokenMask};
use strata_grammar::{Layout, Limits};

use crate::error::first_line;
use crate::limits::parser_limits;
use crate::watchdog::{Call, Watchdog, Watched};

/// A compiled grammar at some place in a text: the engine's [`Constraint`].
///
/// What it allows depends on the tokens it has accepted and on nothing else. Where the grammar leaves no choice, the
/// tokens are those that the model's tokenizer spells the text with.
pub struct Matcher {
    inner: llguidance::Matcher,
    /// The tokens that must come next. They stay as they were found, since spelling again from the middle of them could
    /// come out differently.
    forced: VecDeque<u32>,
    /// The tokens that end an answer.
    end: Vec<u32>,
    /// The layout of JSON, where that is what it is.
    layout: Option<Layout>,
    limits: Limits,
    watchdog: Arc<Watchdog>,
    /// What the watchdog sees of its calls, from the first on.
    watched: Option<Arc<Watched>>,
}

impl Matcher {
    /// A matcher at the beginning of a text. Fails where nothing can come.
    pub(crate) fn new(
        mut inner: llguidance::Matcher,
        end: &[u32],
        layout: Option<Layout>,
        limits: Limits,
        watchdog: Arc<Watchdog>,
    ) -> Result<Self, ConstraintError> {
        inner
            .consume_tokens(&[])
            .map_err(|error| failed(&inner, &error, &limits))?;
        let mut matcher = Matcher {
            inner,
            forced: VecDeque::new(),
            end: end.to_vec(),
            layout,
            limits,
            watchdog,
            watched: None,
        };
        matcher.find_forced()?;
        if matcher.forced.is_empty() && !matcher.is_complete() {
            // The first mask finds out what the grammar costs, and what it remembers serves every copy.
            let allowed = matcher.compute_mask()?;
            matcher.try_token(allowed.first_bit_set())?;
        } else {
            matcher.try_token(matcher.forced.front().map(|token| *token as usize))?;
        }
        Ok(matcher)
    }

    /// Finds out what a grammar costs after a first token, where it is no engine's step that takes longer. Only a limit is an
    /// error: whether anything may follow this token is not asked.
    fn try_token(&self, token: Option<usize>) -> Result<(), ConstraintError> {
        let Some(token) = token else {
            return Ok(());
        };
        let mut trial = self.copy();
        let tried = match trial.inner.try_consume_tokens(&[token as u32]) {
            Ok(_) => {
                trial.forced.clear();
                trial.find_forced().and_then(|()| {
                    let is_over = !trial.forced.is_empty() || trial.is_complete();
                    if is_over {
                        Ok(())
                    } else {
                        trial.compute_mask().map(drop)
                    }
                })
            }
            Err(error) => Err(failed(&trial.inner, &error, &trial.limits)),
        };
        match tried {
            Err(limit @ ConstraintError::Limit { .. }) => Err(limit),
            _ => Ok(()),
        }
    }

    /// Looks for tokens that must come next, if none are known.
    fn find_forced(&mut self) -> Result<(), ConstraintError> {
        if self.forced.is_empty() && !self.inner.is_stopped() {
            self.forced = self.inner.compute_ff_tokens().into();
            if let Some(reason) = self.inner.get_error() {
                return Err(failed(&self.inner, &reason, &self.limits));
            }
            // Rules that multiply can leave no choice for millions.
            let limit = self.limits.repeats as usize;
            if self.forced.len() > limit {
                self.forced = VecDeque::new();
                let what = "tokens in a row that leave no choice";
                return Err(ConstraintError::Limit { what, limit });
            }
        }
        Ok(())
    }

    fn compute_mask(&mut self) -> Result<llguidance::toktrie::SimpleVob, ConstraintError> {
        self.inner
            .compute_mask()
            .map_err(|error| failed(&self.inner, &error, &self.limits))
    }

    /// A copy with memory of its own, so that what one remembers never counts against the limits of another.
    fn copy(&self) -> Self {
        Matcher {
            inner: self.inner.deep_clone(),
            forced: self.forced.clone(),
            end: self.end.clone(),
            layout: self.layout.clone(),
            limits: self.limits,
            watchdog: Arc::clone(&self.watchdog),
            watched: None,
        }
    }

    /// Has the watchdog see to it that what follows ends soon.
    fn call(&mut self) -> Option<Call> {
        if cfg!(target_family = "wasm") {
            // There is no other thread that could watch.
            return None;
        }
        if self.watched.is_none() {
            let handle = self.inner.cancellation_handle()?;
            self.watched = Some(self.watchdog.watch(handle, self.limits.token_time));
        }
        self.watched.as_ref().map(Watched::call)
    }
}

impl Clone for Matcher {
    fn clone(&self) -> Self {
        self.copy()
    }
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matcher")
            .field("forced", &self.forced)
            .field("complete", &self.is_complete())
            .finish_non_exhaustive()
    }
}

impl Constraint for Matcher {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        let _call = self.call();
        self.find_forced()?;
        if let Some(token) = self.forced.front() {
            mask.allow(*token);
            return Ok(());
        }
        if self.is_complete() {
            for token in &self.end {
                mask.allow(*token);
            }
            return Ok(());
        }
        let allowed = self.compute_mask()?;
        for (word, allowed) in mask.words_mut().iter_mut().zip(allowed.as_slice()) {
            *word = *allowed;
        }
        if let Some(layout) = &self.layout {
            layout.restrict(mask);
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        let _call = self.call();
        let refused = Err(ConstraintError::Token { token });
        if self.forced.front().is_some_and(|front| *front != token) {
            return refused;
        }
        if self.is_complete() {
            return if self.end.contains(&token) {
                Ok(())
            } else {
                refused
            };
        }
        if self
            .layout
            .as_ref()
            .is_some_and(|layout| layout.bans(token))
        {
            return refused;
        }
        match self.inner.try_consume_tokens(&[token]) {
            Ok(1) => {
                if let Some(layout) = &mut self.layout {
                    layout.accept(token);
                }
                self.forced.pop_front();
                Ok(())
            }
            Ok(_) => refused,
            Err(error) => Err(failed(&self.inner, &error, &self.limits)),
        }
    }

    fn forced(&mut self, out: &mut Vec<u32>) -> Result<(), ConstraintError> {
        let _call = self.call();
        self.find_forced()?;
        out.extend(&self.forced);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let stopped = self.inner.stop_reason();
        stopped != StopReason::NotStopped && stopped.is_ok() && self.forced.is_empty()
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.copy())
    }
}

fn failed(
    inner: &llguidance::Matcher,
    error: &dyn std::fmt::Display,
    limits: &Limits,
) -> ConstraintError {
    let text = error.to_string();
    match inner.stop_reason() {
        StopReason::NoExtension | StopReason::NoExtensionBias => ConstraintError::DeadEnd,
        StopReason::LexerTooComplex => ConstraintError::Limit {
            what: "states",
            limit: limits.states,
        },
        StopReason::Cancelled => ConstraintError::Limit {
            what: "milliseconds for a token",
            limit: limits.token_time.as_millis() as usize,
        },
        _ if text.contains("Current row has") => ConstraintError::Limit {
            what: "open readings of a text",
            limit: parser_limits(limits).max_items_in_row,
        },
        _ if text.contains("Too many items") => ConstraintError::Limit {
            what: "readings for a token",
            limit: parser_limits(limits).step_max_items,
        },
        _ if text.contains("NoExtension") => ConstraintError::DeadEnd,
        _ => ConstraintError::Failed {
            reason: first_line(&text),
        },
    }
}
