//! `cargo xtask fuzz`: runs targets, each in a process of its own, so that one that overflows its stack or runs out of
//! memory ends nothing else and its input is known.

mod arguments;
mod worker;

use anyhow::{Result, bail};
use arguments::Arguments;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use strata_fuzz::{Meter, corpus, measure};

#[global_allocator]
static METER: Meter = Meter;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    if arguments.list {
        for target in strata_fuzz::targets::ALL {
            println!("{:<15} {}", target.name, target.about);
        }
        return Ok(());
    }
    if let Some(folder) = &arguments.export {
        return export(&arguments, folder);
    }
    if !arguments.inputs.is_empty() {
        return reproduce(&arguments);
    }
    if let Some(current) = &arguments.worker {
        return worker::run(&arguments, current);
    }
    eprintln!("seed {} (`--seed {0}` repeats this run)", arguments.seed);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                while let Some(target) = arguments.targets.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    if let Err(error) = worker::supervise(&arguments, target) {
                        eprintln!("{}: {error:#}", target.name);
                        if let Ok(mut failed) = failed.lock() {
                            failed.push(target.name);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("inputs failed: {}", failed.join(", "))
}

/// Runs inputs of files once, with the panic's own words.
fn reproduce(arguments: &Arguments) -> Result<()> {
    let [target] = arguments.targets[..] else {
        bail!("--input needs the name of one target");
    };
    for path in &arguments.inputs {
        let input = std::fs::read(path)?;
        match measure(target, &input) {
            Some(violation) => bail!("{} {violation}", path.display()),
            None => println!("{}: nothing is wrong", path.display()),
        }
    }
    Ok(())
}

/// Writes the seeds as files, for other fuzzers.
fn export(arguments: &Arguments, folder: &std::path::Path) -> Result<()> {
    for target in &arguments.targets {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in corpus::seeds(target).iter().enumerate() {
            std::fs::write(folder.join(format!("{number:03}")), seed)?;
        }
    }
    Ok(())
}
