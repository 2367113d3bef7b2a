//! How much a grammar may take.

use std::time::Duration;

use llguidance::Instant;
use llguidance::api::ParserLimits;

use crate::error::CompileError;

/// How much a grammar may take, in source, in time and in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The bytes of the source; of all schemas together where there are several.
    pub source: usize,
    /// How deep brackets may be nested in it.
    pub depth: usize,
    /// The largest number of repetitions, items or characters that may be asked for.
    pub repeats: u64,
    /// How long compiling may take.
    pub time: Duration,
    /// The states that matching may remember, each one or two KiB.
    pub states: usize,
    /// How long matching may take for one token, about; then the request fails.
    pub token_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            source: 56 << 10,
            depth: 64,
            repeats: 1 << 16,
            time: Duration::from_secs(1),
            states: 20_000,
            token_time: Duration::from_millis(500),
        }
    }
}

/// When compiling has to end. What is computed here looks at it now and then; the library has its own measure.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    end: Instant,
    limit: Duration,
}

impl Deadline {
    /// Fails once the time is over.
    pub(crate) fn check(&self) -> Result<(), CompileError> {
        if Instant::now() < self.end {
            Ok(())
        } else {
            Err(CompileError::TooSlow { limit: self.limit })
        }
    }
}

impl Limits {
    /// When what begins now has to end.
    pub(crate) fn deadline(&self) -> Deadline {
        Deadline {
            end: Instant::now() + self.time,
            limit: self.time,
        }
    }

    pub(crate) fn parser(&self) -> ParserLimits {
        ParserLimits {
            max_lexer_states: self.states,
            // A source of 56 KiB needs no more, and a fifth of what the library allows takes a fifth of the time and of
            // the memory to find out.
            initial_lexer_fuel: 200_000,
            // Half of what the library allows: about a millisecond for a mask.
            step_max_items: 25_000,
            verbose_errors: false,
            ..ParserLimits::default()
        }
    }
}
