//! `cargo xtask test-windows`: tests built for Windows, run under Wine.

use crate::command::run as execute;
use crate::dist::{WINDOWS, windows_cargo};
use crate::wine::Wine;
use anyhow::Result;

/// The program, the library, and what talks to the system beneath them.
const PACKAGES: [&str; 4] = ["strata-host", "strata-store", "strata", "strata-cli"];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (packages, words) = match arguments.iter().position(|word| word == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    let packages: Vec<&str> = if packages.is_empty() {
        PACKAGES.into()
    } else {
        packages.iter().map(String::as_str).collect()
    };
    let wine = Wine::install()?;
    let mut command = windows_cargo("test --tests --no-fail-fast")?;
    for package in packages {
        command.args(["--package", package]);
    }
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", wine.program());
    wine.prepare(&mut command);
    command.args(["--target", WINDOWS, "--"]).args(words);
    execute(&mut command)
}
