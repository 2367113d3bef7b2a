//! `cargo xtask test`: everything that must hold, in the order that fails soonest.

use crate::aarch64;
use crate::bindings;
use crate::book;
use crate::command::{
    cargo, linting_cargo, run as execute, strata_for_checks, target, tests_are_built,
};
use crate::conformance;
use crate::cuda;
use crate::deny;
use crate::peers::Peers;
use crate::test_boot;
use crate::vulkan;
use anyhow::Result;
use std::time::Instant;

/// What needs no test to be run: also a program that depends on nothing but the library, and the program without its
/// built-in model.
const CHECKS: [&str; 4] = [
    "fmt --all --check",
    "check --quiet --manifest-path xtask/no_std/Cargo.toml",
    "check --quiet --package strata-cli --no-default-features",
    "check --quiet --manifest-path crates/strata/tests/embedder/Cargo.toml",
];

pub(crate) fn run() -> Result<()> {
    let start = Instant::now();
    // Most of it waits for a network or runs on one processor, and the checks do not need it.
    let peers = std::thread::spawn(|| -> Result<_> {
        let Some(peers) = Peers::install()? else {
            return Ok(None);
        };
        let templates = peers.expected_templates()?;
        Ok(Some((peers, templates)))
    });
    let toolchains = std::thread::spawn(bindings::toolchains);
    timed("dependencies", deny::run)?;
    book::check()?;
    for command in CHECKS {
        let mut command = cargo(command);
        // Workspaces of their own, which share what they have in common.
        if command
            .get_args()
            .any(|argument| argument == "--manifest-path")
        {
            command.arg("--target-dir").arg(target());
        }
        execute(&mut command)?;
    }
    if std::env::var_os("STRATA_FIXTURES").is_none() {
        eprintln!(
            "\nskipped: the tests over published vocabularies and templates, because STRATA_FIXTURES is not set"
        );
    }
    // What is compiled is linted as it is, which takes far less time than doing either alone.
    execute(&mut linting_cargo(
        "build --profile test --workspace --all-targets",
    )?)?;
    let peers = match peers.join() {
        Ok(peers) => peers?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    timed("kernels for NVIDIA's GPUs", || cuda::build(true))?;
    timed("Vulkan's driver", vulkan::install_driver)?;
    let mut tests = linting_cargo("test --workspace --tests")?;
    tests.env(bindings::ADAPTERS, bindings::adapters()?);
    if let Some((peers, templates)) = &peers {
        tests.env("STRATA_PYTHON", peers.python());
        if let Some(expected) = templates {
            tests.env("STRATA_TEMPLATE_EXPECTED", expected);
        }
    }
    execute(&mut tests)?;
    execute(&mut linting_cargo("test --workspace --doc")?)?;
    tests_are_built();
    book::check_outputs(&strata_for_checks()?)?;
    match toolchains.join() {
        Ok(installed) => installed?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    timed("bindings", bindings::ci)?;
    timed("emulated AArch64", aarch64::run)?;
    if let Some((peers, _)) = peers {
        timed("peers", || peers.check())?;
    }
    timed("conformance", conformance::run)?;
    timed("bare metal", || test_boot::run(&["--quick".into()]))?;
    eprintln!("\nall of it: {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Does a step, and says how long it took.
fn timed<T>(name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = step()?;
    eprintln!("\n{name}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(result)
}
