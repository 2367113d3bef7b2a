//! Limits as `llguidance` takes them, and the time that compiling may take.

use std::time::Duration;

use llguidance::Instant;
use llguidance::api::ParserLimits;
use strata_grammar::{CompileError, Limits};

/// When compiling has to end. What is computed here looks at it now and then; the library has its own measure.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    end: Instant,
    limit: Duration,
}

impl Deadline {
    /// When what begins now has to end.
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            end: Instant::now() + limits.time,
            limit: limits.time,
        }
    }

    /// Fails once the time is over.
    pub(crate) fn check(&self) -> Result<(), CompileError> {
        if Instant::now() < self.end {
            Ok(())
        } else {
            Err(CompileError::TooSlow { limit: self.limit })
        }
    }
}

pub(crate) fn parser_limits(limits: &Limits) -> ParserLimits {
    ParserLimits {
        max_lexer_states: limits.states,
        // A source of 56 KiB needs no more, and a fifth of what the library allows takes a fifth of the time and of
        // the memory to find out.
        initial_lexer_fuel: 200_000,
        // Half of what the library allows: about a millisecond for a mask.
        step_max_items: 25_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}
