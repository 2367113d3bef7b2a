//! Running other programs, from the root of the repository.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the repository")
}

/// Where build products go.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo call, with the same cargo that runs this.
pub(crate) fn cargo(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments.split_whitespace());
    command
}

/// A cargo call whose compiler is clippy's: it compiles as ever, and every lint is an error. All calls of a run must be of
/// this kind to share what they build.
pub(crate) fn linting_cargo(arguments: &str) -> Result<Command> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = output.context("cannot start rustc")?.stdout;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
    let driver = sysroot.join("bin/clippy-driver");
    ensure!(
        driver.is_file(),
        "this toolchain has no clippy: `rustup component add clippy`"
    );
    let mut command = cargo(arguments);
    // Clippy splits its arguments at this word.
    command
        .env("RUSTC_WORKSPACE_WRAPPER", driver)
        .env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    Ok(command)
}

/// Whether this run has built the program with the tests of the workspace.
static TESTED: AtomicBool = AtomicBool::new(false);

/// Says that the tests of the workspace were built: the program alone would be built anew, for other features.
pub(crate) fn tests_are_built() {
    TESTED.store(true, Ordering::Relaxed);
}

/// Whether they were.
pub(crate) fn were_tests_built() -> bool {
    TESTED.load(Ordering::Relaxed)
}

/// The program as the tests build it: quick enough for checks, and built once for all of them.
pub(crate) fn strata_for_checks() -> Result<PathBuf> {
    if !were_tests_built() {
        run(&mut cargo(
            "build --quiet --profile test --package strata-cli",
        ))?;
    }
    Ok(target().join("debug/strata"))
}

/// Runs a command, prints it and how long it took, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    run_as(&format!("`{line}`"), command)
}

/// Like [`run`], with a short name for the command in the error.
pub(crate) fn run_as(name: &str, command: &mut Command) -> Result<()> {
    eprintln!("\n▸ {}", line(command));
    let start = Instant::now();
    let status = command
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !status.success() {
        bail!("{name} {}", failure(status));
    }
    eprintln!("  {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn line(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    words.join(" ")
}

/// How a command failed: "was killed by signal 4 (SIGILL)" or "failed (exit status: 1)".
fn failure(status: ExitStatus) -> String {
    match status.to_string().strip_prefix("signal: ") {
        Some(signal) => format!("was killed by signal {signal}"),
        None => format!("failed ({status})"),
    }
}

/// Whether a command can be started and succeeds.
pub(crate) fn answers(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Installs packages on a Debian system: by one thread of this process at a time, and after others that install.
pub(crate) fn debian_install(packages: &[&str]) -> Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(packages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_signal_that_killed_a_command() {
        let crash = run_as(
            "check.py (peer)",
            Command::new("sh").args(["-c", "kill -ILL $$"]),
        );
        let error = crash.expect_err("it was killed").to_string();
        let expected = "check.py (peer) was killed by signal 4 (SIGILL)";
        // A core file may have been written.
        assert!(error.starts_with(expected), "{error}");
    }
}
