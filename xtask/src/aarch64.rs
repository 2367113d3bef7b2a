//! `cargo xtask test-aarch64`: the kernels' tests and a run of the built-in model, cross-built and run under qemu.

use crate::command::{
    answers, cargo, debian_install, root, run as execute, strata_for_checks, target,
};
use anyhow::{Context, Result, anyhow, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const TARGET: &str = "aarch64-unknown-linux-gnu";
pub(crate) const LINKER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64-static";

/// Debian's packages: a compiler with the standard library for the target, a linker with the C library, the emulator.
const PACKAGES: &[&str] = &[
    "rustc-web",
    "libstd-rust-web-dev:arm64",
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "qemu-user-static",
];

/// Processors to emulate. The second has no dot products: an attempt to use them would end the program.
const PROCESSORS: [&str; 2] = ["max", "cortex-a53"];

/// The kernels' tests, and the library without what needs an operating system, which is far less to build than the program.
const PACKAGES_TO_TEST: &str = "--package strata-kernels --package strata --no-default-features";

/// What the library's example asks of the built-in model, as the program is asked.
const STORY: &[&str] = &[
    "run",
    "tale",
    "--temp",
    "0",
    "-n",
    "32",
    "--raw",
    "Once upon a time",
];

pub(crate) fn run() -> Result<()> {
    if cfg!(target_arch = "aarch64") {
        eprintln!(
            "left out: the tests on an emulated AArch64, because this machine is one: the other tests cover it"
        );
        return Ok(());
    }
    let Some(cross) = Cross::install()? else {
        return Ok(());
    };
    cross.build()?;
    cross.test_kernels()?;
    cross.compare_stories()
}

/// A compiler for the target, with a linker and an emulator beside it, if they are here or can be installed.
pub(crate) fn compiler() -> Result<Option<&'static str>> {
    Ok(Cross::install()?.map(|cross| cross.rustc))
}

/// A compiler that knows the target.
struct Cross {
    rustc: &'static str,
}

impl Cross {
    /// Finds or installs the tools, or says why the tests are left out.
    fn install() -> Result<Option<Self>> {
        if let Some(cross) = Self::find() {
            return Ok(Some(cross));
        }
        let apt = answers(Command::new("apt-get").arg("--version"));
        let fault = match Self::try_install(apt) {
            Ok(cross) => return Ok(Some(cross)),
            Err(fault) => fault,
        };
        if apt && std::env::var_os("CI").is_some() {
            return Err(fault.context("installing the tools for AArch64"));
        }
        eprintln!(
            "left out: the tests on AArch64, because the tools that they need could not be installed \
             ({LINKER}, {EMULATOR}, and a compiler for {TARGET}, as `rustup target add` brings it): {fault:#}"
        );
        Ok(None)
    }

    fn try_install(apt: bool) -> Result<Self> {
        ensure!(apt, "there is no apt-get");
        execute(Command::new("dpkg").args(["--add-architecture", "arm64"]))?;
        debian_install(PACKAGES)?;
        Self::find().ok_or_else(|| anyhow!("they are installed and do not answer"))
    }

    fn find() -> Option<Self> {
        let tools = [LINKER, EMULATOR]
            .iter()
            .all(|tool| answers(Command::new(tool).arg("--version")));
        // The usual compiler where it has the target's library, else Debian's, which does not come first in the path.
        let rustc = ["rustc", "/usr/bin/rustc"]
            .into_iter()
            .find(|rustc| has_target(rustc))?;
        tools.then_some(Self { rustc })
    }

    /// Apart from the other build products: the compiler may be another.
    fn folder() -> PathBuf {
        target().join("aarch64")
    }

    /// A cargo call for the target. Most of the time goes into building, so only the kernels are optimized, a little.
    fn cargo(&self, arguments: &str) -> Command {
        let mut command = cargo(arguments);
        let variable = |name: &str| {
            let target = TARGET.to_uppercase().replace('-', "_");
            format!("CARGO_TARGET_{target}_{name}")
        };
        let levels = [
            ("engine", 0),
            ("kernels", 1),
            ("model", 0),
            ("quant", 1),
            ("template", 0),
            ("tokenizer", 0),
            ("weights", 0),
        ];
        for (package, level) in levels {
            let setting = format!("profile.test.package.strata-{package}.opt-level={level}");
            command.args(["--config", &setting]);
        }
        command
            .args(["--target", TARGET])
            .env("RUSTC", self.rustc)
            .env("CARGO_TARGET_DIR", Self::folder())
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_TEST_DEBUG", "false")
            .env(variable("LINKER"), LINKER)
            .env(variable("RUNNER"), format!("{EMULATOR} -cpu max"));
        command
    }

    fn build(&self) -> Result<()> {
        let targets = "--test kernels --example without_std";
        execute(&mut self.cargo(&format!(
            "build --quiet --profile test {PACKAGES_TO_TEST} {targets}"
        )))
    }

    /// Every instruction set against the reference. The accuracy of the reference itself is the same everywhere.
    fn test_kernels(&self) -> Result<()> {
        execute(
            self.cargo(&format!("test --quiet {PACKAGES_TO_TEST} --test kernels"))
                .args(["--", "--skip", "accurate"]),
        )
    }

    /// The built-in model says the same here and there.
    fn compare_stories(&self) -> Result<()> {
        let here = story(Command::new(strata_for_checks()?).args(STORY))?;
        let folder = Self::folder().join(TARGET);
        let example = folder.join("debug/examples/without_std");
        for processor in PROCESSORS {
            let mut emulator = Command::new(EMULATOR);
            let there = story(emulator.args(["-cpu", processor]).arg(&example))?;
            ensure!(
                there == here,
                "on {processor} the built-in model says\n{there}\nand here\n{here}"
            );
        }
        Ok(())
    }
}

/// What the program prints.
fn story(program: &mut Command) -> Result<String> {
    let output = program
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", program.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{program:?} failed ({})",
        output.status
    );
    let text =
        String::from_utf8(output.stdout).context("the program printed something else than text")?;
    ensure!(!text.trim().is_empty(), "{program:?} printed nothing");
    Ok(text)
}

/// Whether a compiler has the target's standard library.
fn has_target(rustc: &str) -> bool {
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    output.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout);
        output.status.success() && Path::new(folder.trim()).is_dir()
    })
}
