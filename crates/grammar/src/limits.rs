//! How much a grammar may take.

use core::time::Duration;

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
