//! The loop: mutants of a corpus that grows, each measured.

use crate::meter::Meter;
use crate::mutator::Mutator;
use crate::random::Random;
use crate::{Outcome, Target, corpus};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What an input may allocate beyond its own size.
const MEMORY: usize = 64 << 20;
/// How long an input may take.
const TIME: Duration = Duration::from_secs(1);
/// Mutants that ended in a new way; more are not kept.
const MOST_KEPT: usize = 2000;
/// How long to look for a shorter input that fails as well.
const SHRINKING: Duration = Duration::from_secs(5);

/// What an input did that it must not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It panicked, with these words.
    Panic(String),
    /// It allocated so many bytes.
    Memory(usize),
    /// It took so long.
    Time(Duration),
}

impl Violation {
    /// The kind, as part of a file's name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Panic(_) => "panic",
            Self::Memory(_) => "memory",
            Self::Time(_) => "time",
        }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Panic(words) => write!(f, "panicked: {words}"),
            Self::Memory(bytes) => write!(f, "allocated {} MiB", bytes >> 20),
            Self::Time(time) => write!(f, "took {:.1} s", time.as_secs_f64()),
        }
    }
}

/// An input that failed, as short as it could be made.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The input.
    pub input: Vec<u8>,
    /// What it did.
    pub violation: Violation,
}

/// When to stop.
#[derive(Copy, Clone, Debug)]
pub enum Limit {
    /// After so many mutants.
    Mutants(u64),
    /// After so long.
    Time(Duration),
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Mutants that were tried.
    pub mutants: u64,
    /// Ways in which inputs ended.
    pub outcomes: usize,
    /// The longest that an input took.
    pub slowest: Duration,
    /// The most that an input allocated.
    pub most_memory: usize,
    /// The first input that failed.
    pub failure: Option<Failure>,
}

/// What an input took, and how it ended.
#[derive(Clone, Debug)]
struct Measured {
    outcome: Result<Outcome, Violation>,
    time: Duration,
    memory: usize,
}

/// Runs an input once, and says what it did that it must not do.
pub fn measure(target: &Target, input: &[u8]) -> Option<Violation> {
    once_at_work(target, input).violation(input)
}

fn once(target: &Target, input: &[u8]) -> Measured {
    let before = Meter::start();
    let start = Instant::now();
    let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let time = start.elapsed();
    let memory = Meter::peak().saturating_sub(before);
    let outcome = ended.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        let text = text.unwrap_or_else(|| "with something that is no text".into());
        Violation::Panic(text.chars().take(500).collect())
    });
    Measured {
        outcome,
        time,
        memory,
    }
}

/// The same, where others use the machine too: what counts is how long the process was at work.
fn once_at_work(target: &Target, input: &[u8]) -> Measured {
    let before = processor_time();
    let mut measured = once(target, input);
    if let (Some(before), Some(after)) = (before, processor_time()) {
        measured.time = measured.time.min(after.saturating_sub(before));
    }
    measured
}

/// How long all threads of this process have been on a processor, to a hundredth of a second.
fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is a name that may have anything in it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks()? + ticks()?)))
}

impl Measured {
    fn violation(&self, input: &[u8]) -> Option<Violation> {
        match &self.outcome {
            Err(violation) => Some(violation.clone()),
            Ok(_) if self.memory > input.len() + MEMORY => Some(Violation::Memory(self.memory)),
            Ok(_) if self.time > TIME => Some(Violation::Time(self.time)),
            Ok(_) => None,
        }
    }
}

/// A fuzzer of one target.
pub struct Fuzzer<'a> {
    target: &'static Target,
    seed: u64,
    /// Hears of each input before it is run, so that one that ends the process is not lost.
    about_to_run: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Fuzzer<'a> {
    /// A fuzzer whose mutants follow from `seed`.
    pub fn new(target: &'static Target, seed: u64, about_to_run: &'a mut dyn FnMut(&[u8])) -> Self {
        Self {
            target,
            seed,
            about_to_run,
        }
    }

    /// Runs the seeds and then mutants, until something fails or the limit is reached.
    pub fn run(&mut self, limit: Limit) -> Report {
        let start = Instant::now();
        let mut report = Report::default();
        let mut seen = HashSet::new();
        let mut corpus = corpus::seeds(self.target);
        let seeds = corpus.len();
        for input in &corpus {
            if self.step(input, &mut report, &mut seen).is_none() {
                return report;
            }
        }
        let mut mutator = Mutator {
            random: Random::new(self.seed),
            words: self.target.words,
        };
        loop {
            let over = match limit {
                Limit::Mutants(most) => report.mutants >= most,
                Limit::Time(time) => start.elapsed() >= time,
            };
            if over {
                return report;
            }
            let input = mutator.mutant(&corpus);
            report.mutants += 1;
            match self.step(&input, &mut report, &mut seen) {
                None => return report,
                Some(true) if corpus.len() < seeds + MOST_KEPT => corpus.push(input),
                Some(_) => {}
            }
        }
    }

    /// Runs an input; says whether it ended in a new way, or nothing if it failed.
    fn step(
        &mut self,
        input: &[u8],
        report: &mut Report,
        seen: &mut HashSet<Outcome>,
    ) -> Option<bool> {
        (self.about_to_run)(input);
        let mut measured = once(self.target, input);
        // What is slow is slow each time.
        for _ in 0..2 {
            if measured.outcome.is_ok() && measured.time > TIME {
                let again = once_at_work(self.target, input);
                measured.time = measured.time.min(again.time);
            }
        }
        if let Some(violation) = measured.violation(input) {
            report.failure = Some(self.shrunk(input, violation));
            return None;
        }
        report.slowest = report.slowest.max(measured.time);
        report.most_memory = report.most_memory.max(measured.memory);
        let new = measured.outcome.is_ok_and(|outcome| seen.insert(outcome));
        report.outcomes = seen.len();
        Some(new)
    }

    /// Leaves out what it can of an input that fails.
    fn shrunk(&mut self, input: &[u8], violation: Violation) -> Failure {
        let start = Instant::now();
        let mut best = Failure {
            input: input.to_vec(),
            violation,
        };
        let mut piece = best.input.len() / 2;
        while piece > 0 {
            let mut at = 0;
            while at < best.input.len() {
                if start.elapsed() > SHRINKING {
                    return best;
                }
                let mut shorter = best.input.clone();
                shorter.drain(at..(at + piece).min(shorter.len()));
                (self.about_to_run)(&shorter);
                match measure(self.target, &shorter) {
                    Some(violation) if violation.kind() == best.violation.kind() => {
                        best = Failure {
                            input: shorter,
                            violation,
                        };
                    }
                    _ => at += piece,
                }
            }
            piece /= 2;
        }
        best
    }
}
