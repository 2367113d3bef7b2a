//! `cargo xtask check-targets`: the program and the C library, type-checked for systems whose linkers are not to be had here.

use crate::command::{cargo, run as execute, target as build_folder};
use crate::dist::{debian_compiler, rust_sources};
use anyhow::{Context, Result};
use std::fs;

/// macOS and Android, on the processors that most of them have.
const TARGETS: [&str; 4] = [
    "aarch64-apple-darwin",
    "x86_64-apple-darwin",
    "aarch64-linux-android",
    "x86_64-linux-android",
];
/// Those whose system code nothing else checks; the others differ in the processor alone.
const USUAL: [&str; 2] = [TARGETS[0], TARGETS[2]];

/// What is checked: programs and libraries, and the tests of what talks to the system.
const CHECKS: [&str; 2] = [
    "check --package strata-cli --package strata-c --lib --bins",
    "check --package strata-host --tests",
];

pub(crate) const USAGE: &str = "cargo xtask check-targets [TARGET…]";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let known = |word: &String| TARGETS.into_iter().find(|target| target == word);
    let named: Option<Vec<&str>> = arguments.iter().map(known).collect();
    let named = named.with_context(|| format!("{USAGE}; there are {}", TARGETS.join(", ")))?;
    let targets = if named.is_empty() {
        USUAL.into()
    } else {
        named
    };
    rust_sources()?;
    for target in targets {
        check(target)?;
    }
    Ok(())
}

/// Checks the standard library for the target too: no package has it compiled. Nothing is linked, so the C parts of
/// dependencies are not compiled either: a program that does nothing stands in for their compiler.
fn check(target: &str) -> Result<()> {
    let folder = build_folder().join("dist");
    // Where a build script looks for Apple's headers.
    let empty = folder.join("no-sdk");
    fs::create_dir_all(&empty)?;
    for words in CHECKS {
        let mut command = cargo(words);
        command
            .args(["--target", target, "-Zbuild-std=std,panic_unwind,test"])
            .env("RUSTFLAGS", "-Dwarnings")
            .env("CARGO_TARGET_DIR", &folder)
            .env("CARGO_INCREMENTAL", "0")
            .env("SDKROOT", &empty)
            .env("MACOSX_DEPLOYMENT_TARGET", "11.0");
        debian_compiler(&mut command);
        for tool in ["CC", "AR", "RANLIB"] {
            command.env(format!("{tool}_{}", target.replace('-', "_")), "true");
        }
        execute(&mut command)?;
    }
    Ok(())
}
