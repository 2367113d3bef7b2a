//! `cargo xtask test-bindings`: every language's package is built, installed and tested in a folder of its own.

mod bench;
mod debian_root;
mod expected;
mod languages;
mod package;
mod readme;
mod sight;
mod table;

use crate::command::{cargo, run as execute, target, were_tests_built};
use anyhow::{Result, bail, ensure};
pub(crate) use bench::run as bench;
pub(crate) use expected::{ADAPTERS, adapters};
use expected::{Expected, Extent};
use languages::LANGUAGES;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// How long 64 streams are started and canceled in each language.
const SHORT: u32 = 3;
const LONG: u32 = 60;

/// What the command takes beside languages.
const FLAGS: [&str; 5] = [
    "--built",
    "--frameworks",
    "--minute",
    "--pip",
    "--write-table",
];

/// What of the languages' packages is compiled.
const PACKAGES: &str = "-p strata-c -p strata-cli -p strata-node -p strata-python";

/// The folder with toolchains, caches and the packages that were built. They are tested [elsewhere](package::outside).
fn folder() -> PathBuf {
    target().join("bindings")
}

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<&str>, Vec<&str>) = arguments
        .iter()
        .map(String::as_str)
        .partition(|argument| argument.starts_with("--"));
    if let Some(flag) = flags.iter().find(|flag| !FLAGS.contains(flag)) {
        bail!("test-bindings has no {flag}: see `cargo xtask help`");
    }
    let all: Vec<&str> = LANGUAGES.iter().map(|language| language.name).collect();
    for name in &names {
        ensure!(all.contains(name), "{name} is none of {}", all.join(", "));
    }
    let wanted = if names.is_empty() { all } else { names };
    let seconds = if flags.contains(&"--minute") {
        LONG
    } else {
        SHORT
    };
    if !flags.contains(&"--built") {
        build()?;
    }
    let expected = test(
        &wanted,
        seconds,
        Extent::Whole,
        flags.contains(&"--write-table"),
    )?;
    if flags.contains(&"--frameworks") {
        languages::frameworks(&expected)?;
    }
    if flags.contains(&"--pip") {
        languages::pip_install()?;
    }
    Ok(())
}

/// Installs what CI's languages need and takes its time from a network.
pub(crate) fn toolchains() -> Result<()> {
    languages::install()
}

/// What CI runs: the languages whose toolchains are small.
pub(crate) fn ci() -> Result<()> {
    let quick = LANGUAGES.iter().filter(|language| language.in_ci);
    let names: Vec<&str> = quick.map(|language| language.name).collect();
    build()?;
    test(&names, SHORT, Extent::Quick, false)?;
    Ok(())
}

/// Tests languages and gives what they were compared with.
fn test(names: &[&str], seconds: u32, extent: Extent, writes: bool) -> Result<Expected> {
    std::fs::create_dir_all(folder())?;
    package::c()?;
    let expected = Expected::ask(seconds, extent)?;
    let mut seen = BTreeMap::new();
    for language in LANGUAGES.iter().filter(|one| names.contains(&one.name)) {
        let start = Instant::now();
        eprintln!("\n▸ {}", language.title);
        let features = (language.test)(&expected)?;
        if let Some(features) = features {
            eprintln!(
                "  {} features, {:.1} s",
                features.len(),
                start.elapsed().as_secs_f64()
            );
            seen.insert(language.name, features);
        }
    }
    table::compare(&seen, writes)?;
    // After a failure it stays, to be looked at.
    std::fs::remove_dir_all(package::outside())?;
    Ok(expected)
}

/// Builds what the packages hold, unless the tests of the workspace have.
fn build() -> Result<()> {
    if were_tests_built() {
        return Ok(());
    }
    execute(&mut cargo(&format!(
        "build --quiet --profile test {PACKAGES}"
    )))
}
