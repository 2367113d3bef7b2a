//! `cargo xtask bench baremetal`: the unikernel beside a minimal Linux guest with the same program and model, in the same
//! QEMU with the same devices. Emulated, so that only ratios say something.

mod cpio;
mod guest;
mod linux;

use crate::command::{cargo, run as execute, target};
use crate::unikernel::{self, Contents};
use anyhow::{Context, Result, bail};
use guest::{Figures, Guest};
use std::path::PathBuf;

const USAGE: &str = "cargo xtask bench baremetal [--rounds N] [--tokens N] [--strata FILE]";

/// What is asked for.
struct Arguments {
    rounds: usize,
    tokens: usize,
    /// The program of the Linux guest, if not the one that is built here.
    strata: Option<PathBuf>,
}

impl Arguments {
    fn parse(words: &[String]) -> Result<Self> {
        let mut found = Self {
            rounds: 3,
            tokens: 48,
            strata: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().context(USAGE)?;
            match word.as_str() {
                "--rounds" => found.rounds = value.parse().context(USAGE)?,
                "--tokens" => found.tokens = value.parse().context(USAGE)?,
                "--strata" => found.strata = Some(std::path::absolute(value)?),
                _ => bail!(USAGE),
            }
        }
        if found.rounds == 0 || found.tokens < 4 {
            bail!("{USAGE}: at least one round and four tokens");
        }
        Ok(found)
    }
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    let arguments = Arguments::parse(words)?;
    let built = unikernel::build(Contents::Tale)?;
    let strata = match arguments.strata {
        Some(path) => path,
        None => {
            execute(&mut cargo("build --release --quiet --package strata-cli"))?;
            target().join("release/strata")
        }
    };
    let guests = [
        Guest {
            name: "unikernel",
            kernel: built.elf,
            initrd: None,
            options: String::new(),
        },
        linux::guest(&strata)?,
    ];
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..arguments.rounds {
        // Alternately, so that both see the same disturbances.
        for (guest, figures) in guests.iter().zip(&mut rounds) {
            eprintln!(
                "round {} of {}: {}",
                round + 1,
                arguments.rounds,
                guest.name
            );
            figures.push(guest.measure(arguments.tokens)?);
        }
    }
    let [own, linux] = rounds.map(|figures| Figures::medians(&figures));
    println!(
        "medians of {} alternate boots: QEMU's emulation, q35, {} processors, {} of memory, virtio-net, the model tale\n",
        arguments.rounds,
        guest::PROCESSORS,
        guest::MEMORY
    );
    println!("| | unikernel | Linux guest | ratio |");
    println!("|---|---|---|---|");
    for (own, linux) in own.rows().iter().zip(linux.rows()) {
        let ratio = if own.more_is_better {
            own.value / linux.value
        } else {
            linux.value / own.value
        };
        println!(
            "| {} | {:.*} | {:.*} | {ratio:.2}× |",
            own.what, own.digits, own.value, own.digits, linux.value
        );
    }
    println!("\na ratio above 1 is in favour of the unikernel");
    Ok(())
}
