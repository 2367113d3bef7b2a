//! Fuzz targets: one for each parser of bytes that somebody else wrote, and a fuzzer that needs nothing but stable Rust.
//!
//! A [`Target`] takes any bytes. It refuses them with an error, or takes them and then checks what a user of the parser
//! relies on: what was read can be walked, written and read again. The same targets run under `cargo-fuzz` (the folder
//! `fuzz`, with coverage, on a nightly compiler) and under [`Fuzzer`], which mutates seeds without looking at the code
//! and keeps mutants that end in a way not seen before. An input fails if the target panics, allocates more than its
//! size and 64 MiB, or takes longer than a second.

pub mod corpus;
mod fuzzer;
mod meter;
mod mutator;
mod outcome;
mod random;
pub mod targets;

pub use fuzzer::{Failure, Fuzzer, Limit, Report, Violation, measure};
pub use meter::Meter;
pub use outcome::Outcome;

/// A parser under test.
#[derive(Copy, Clone, Debug)]
pub struct Target {
    /// Its name, which is also its folder of seeds.
    pub name: &'static str,
    /// What it feeds to whom, in a line.
    pub about: &'static str,
    /// Feeds an input to the parser; panics where something is wrong.
    pub run: fn(&[u8]) -> Outcome,
    /// Folders of the repository with more seeds, and the ending of their names.
    pub more_seeds: &'static [(&'static str, &'static str)],
    /// Seeds that are made rather than stored.
    pub made_seeds: fn() -> Vec<Vec<u8>>,
    /// Words of the format.
    pub words: &'static [&'static str],
}

impl Target {
    /// A target with the seeds in its own folder only.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&[u8]) -> Outcome,
    ) -> Self {
        Self {
            name,
            about,
            run,
            more_seeds: &[],
            made_seeds: Vec::new,
            words: &[],
        }
    }

    /// The target of a name.
    pub fn find(name: &str) -> Option<&'static Target> {
        targets::ALL.iter().find(|target| target.name == name)
    }
}
