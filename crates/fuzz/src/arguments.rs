//! What the fuzzer is asked to do.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use strata_fuzz::{Limit, Target, targets};

const USAGE: &str = "\
cargo xtask fuzz [TARGET…] [OPTIONS]

  --seconds N, --minutes N   how long each target runs [default: 10 seconds]
  --mutants N                how many inputs each target gets, instead
  --seed N                   repeats a run
  --jobs N                   targets that run side by side [default: 1]
  --input FILE               runs one target with the bytes of a file, once
  --export FOLDER            writes the seeds as files, for other fuzzers
  --list                     the targets

An input fails if the target panics, allocates more than its size and 64 MiB, or takes longer than a second. It is then
shortened and left in target/fuzz. Once the cause is gone, it belongs into crates/fuzz/seeds/TARGET.";

/// What the fuzzer is asked to do.
pub(crate) struct Arguments {
    pub(crate) targets: Vec<&'static Target>,
    pub(crate) limit: Limit,
    pub(crate) seed: u64,
    pub(crate) jobs: usize,
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) export: Option<PathBuf>,
    pub(crate) list: bool,
    /// The file for the input that is about to run, in a process that runs one target.
    pub(crate) worker: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let mut arguments = Self {
            targets: Vec::new(),
            limit: Limit::Time(Duration::from_secs(10)),
            seed: now.map_or(0, |now| now.as_secs()),
            jobs: 1,
            inputs: Vec::new(),
            export: None,
            list: false,
            worker: None,
        };
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value"))
            };
            let number = |text: String| {
                let number = text.parse::<u64>();
                number.with_context(|| format!("{text:?} is not a number"))
            };
            match word.as_str() {
                "--help" | "-h" => bail!("{USAGE}"),
                "--list" => arguments.list = true,
                "--seconds" => {
                    arguments.limit = Limit::Time(Duration::from_secs(number(value()?)?));
                }
                "--minutes" => {
                    arguments.limit = Limit::Time(Duration::from_secs(60 * number(value()?)?));
                }
                "--mutants" => arguments.limit = Limit::Mutants(number(value()?)?),
                "--seed" => arguments.seed = number(value()?)?,
                "--jobs" => arguments.jobs = number(value()?)?.clamp(1, 64) as usize,
                "--input" => arguments.inputs.push(value()?.into()),
                "--export" => arguments.export = Some(value()?.into()),
                "--worker" => arguments.worker = Some(value()?.into()),
                option if option.starts_with('-') => {
                    bail!("there is no option {option}\n\n{USAGE}")
                }
                name => match Target::find(name) {
                    Some(target) => arguments.targets.push(target),
                    None => {
                        let all: Vec<&str> =
                            targets::ALL.iter().map(|target| target.name).collect();
                        bail!("there is no target {name}; there are {}", all.join(", "));
                    }
                },
            }
        }
        if arguments.targets.is_empty() {
            arguments.targets = targets::ALL.iter().collect();
        }
        Ok(arguments)
    }
}
