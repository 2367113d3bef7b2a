//! Running other programs, from the root of the repository.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Whether this run has built the program with the tests of the workspace.
static TESTED: AtomicBool = AtomicBool::new(false);

/// Says that the tests of the workspace were built: the program alone would be built anew, for other features.
pub(crate) fn tests_are_built() {
    TESTED.store(true, Ordering::Relaxed);
}

/// The program as the tests build it: quick enough for checks, and built once for all of them.
pub(crate) fn strata_for_checks() -> Result<PathBuf> {
    if !TESTED.load(Ordering::Relaxed) {
        run(&mut cargo("build --quiet --profile test --package strata"))?;
    }
    Ok(target().join("debug/strata"))
}

/// Runs a command, says what and how long it took, and fails where it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    eprintln!("\n▸ {line}");
    let start = Instant::now();
    let status = command
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot start {}", words[0]))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    eprintln!("  {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Whether a command can be started and succeeds.
pub(crate) fn answers(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Installs packages on a Debian system.
pub(crate) fn debian_install(packages: &[&str]) -> Result<()> {
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(packages))
}
