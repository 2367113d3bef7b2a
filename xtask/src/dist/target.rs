//! Systems that programs are built for, and what each of them needs here.

use crate::aarch64;
use crate::command::{answers, cargo, debian_install, run, target as build_folder};
use anyhow::{Result, anyhow, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

const GNU: &str = "x86_64-unknown-linux-gnu";
pub(crate) const MUSL: &str = "x86_64-unknown-linux-musl";
pub(crate) const WINDOWS: &str = "x86_64-pc-windows-gnu";
pub(super) const TARGETS: [&str; 4] = [GNU, MUSL, aarch64::TARGET, WINDOWS];

/// How programs are compiled.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// For users.
    Release,
    /// As the tests are, in a fraction of the time.
    Test,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Test => "test",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Test => "debug",
        }
    }
}

/// Whether this machine runs a target's programs by itself.
pub(super) fn runs_here(target: &str) -> bool {
    target.starts_with(std::env::consts::ARCH) && target != WINDOWS
}

/// What the program's file is called.
pub(super) fn file_name(target: &str) -> &'static str {
    if target == WINDOWS {
        "strata.exe"
    } else {
        "strata"
    }
}

/// Builds the program for a target, with the bootable kernel in it if there is one.
pub(crate) fn program(target: &str, profile: Profile, kernel: Option<&Path>) -> Result<PathBuf> {
    let mut command = cargo("rustc --package strata-cli --bin strata");
    command
        .args(["--profile", profile.name(), "--target", target])
        .env("CARGO_TARGET_DIR", folder())
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        .env("CARGO_PROFILE_TEST_DEBUG", "false");
    if let Some(kernel) = kernel {
        command.env("STRATA_UNIKERNEL", kernel);
    }
    let mut last = Vec::new();
    match target {
        GNU => {}
        MUSL if has_library("rustc", MUSL) => {
            musl_compiler()?;
            command.env(variable(MUSL, "RUSTFLAGS"), "-Ctarget-feature=+crt-static");
        }
        MUSL => last = musl(&mut command)?,
        aarch64::TARGET => aarch64(&mut command)?,
        WINDOWS => windows(&mut command)?,
        _ => bail!("no way to build for {target} is known"),
    }
    // A C compiler for the target, which the cryptography of TLS is compiled with.
    if target == MUSL {
        command.env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    }
    run(command.arg("--").args(last))?;
    let program = folder().join(target).join(profile.folder());
    let program = program.join(file_name(target));
    ensure!(program.is_file(), "there is no {}", program.display());
    Ok(program)
}

/// A cargo call for Windows, which shares what [`program`] has built as the tests are.
pub(crate) fn windows_cargo(arguments: &str) -> Result<Command> {
    let mut command = cargo(arguments);
    command
        .env("CARGO_TARGET_DIR", folder())
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_TEST_DEBUG", "false");
    windows(&mut command)?;
    Ok(command)
}

/// Apart from the other build products: compilers and flags differ.
fn folder() -> PathBuf {
    build_folder().join("dist")
}

fn variable(target: &str, name: &str) -> String {
    let target = target.to_uppercase().replace('-', "_");
    format!("CARGO_TARGET_{target}_{name}")
}

/// Whether a compiler has the standard library of a target.
fn has_library(rustc: &str, target: &str) -> bool {
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .output();
    output.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout);
        output.status.success() && Path::new(folder.trim()).is_dir()
    })
}

fn aarch64(command: &mut Command) -> Result<()> {
    let rustc = aarch64::compiler()?
        .ok_or_else(|| anyhow!("there are no tools for {}", aarch64::TARGET))?;
    command
        .env("RUSTC", rustc)
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env(variable(aarch64::TARGET, "LINKER"), aarch64::LINKER);
    Ok(())
}

/// Builds the standard library as well, unless the compiler has it, and links with Debian's MinGW.
fn windows(command: &mut Command) -> Result<()> {
    const LINKER: &str = "x86_64-w64-mingw32-gcc";
    if !answers(Command::new(LINKER).arg("--version")) {
        debian_install(&["gcc-mingw-w64-x86-64"])?;
    }
    command.env(variable(WINDOWS, "LINKER"), LINKER);
    if !has_library("rustc", WINDOWS) {
        rust_sources()?;
        command.arg("-Zbuild-std=std,panic_unwind,test");
        debian_compiler(command);
    }
    Ok(())
}

/// Installs Debian's compiler with the sources of the standard library.
pub(crate) fn rust_sources() -> Result<()> {
    if !Path::new(RUSTC).exists() || !Path::new(SOURCES).exists() {
        debian_install(&["rustc-web", "rust-web-src"])?;
    }
    Ok(())
}

/// Has a call use Debian's compiler, and build the standard library from its sources. The linter of another compiler does
/// not go with it.
pub(crate) fn debian_compiler(command: &mut Command) {
    command
        .env("RUSTC", RUSTC)
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
}

/// Where Debian's musl-dev has the C library and what programs begin and end with.
const MUSL_LIBRARIES: &str = "/usr/lib/x86_64-linux-musl";
/// Debian's compiler, whose sources of the standard library are packaged.
const RUSTC: &str = "/usr/bin/rustc";
const SOURCES: &str = "/usr/lib/rustlib/src/rust/library/std";
/// LLVM's unwinder, which the standard library wants of a static program.
const UNWINDER: &str = "libunwind-14-dev";

fn musl_compiler() -> Result<()> {
    if !answers(Command::new("musl-gcc").arg("--version")) {
        debian_install(&["musl-tools"])?;
    }
    Ok(())
}

/// Builds the standard library as well, with Debian's compiler, and links it to Debian's musl. What the linker is told
/// goes after `--`.
fn musl(command: &mut Command) -> Result<Vec<String>> {
    musl_compiler()?;
    rust_sources()?;
    let unwinder = unwinder()?;
    command
        .arg("-Zbuild-std=std,panic_unwind")
        .env(variable(MUSL, "LINKER"), "gcc")
        .env(variable(MUSL, "RUSTFLAGS"), "-Clink-self-contained=no");
    debian_compiler(command);
    let library = |name: &str| format!("-Clink-arg={MUSL_LIBRARIES}/{name}");
    Ok(vec![
        format!("-Lnative={}", unwinder.display()),
        format!("-Clink-arg=-L{MUSL_LIBRARIES}"),
        // The unwinder says what it cannot do with a function of glibc, and then aborts.
        "-Clink-arg=-Wl,--defsym=__fprintf_chk=abort".into(),
        "-Clink-arg=-nostartfiles".into(),
        library("rcrt1.o"),
        library("crti.o"),
        library("crtn.o"),
        library("libc.a"),
    ])
}

/// The folder with the unwinder, taken out of its package: installed, it would push another one out.
fn unwinder() -> Result<PathBuf> {
    let folder = folder().join("libunwind");
    if !folder.join("libunwind.a").exists() {
        std::fs::create_dir_all(&folder)?;
        let script = format!(
            "apt-get update -qq && apt-get download {UNWINDER} && dpkg -x {UNWINDER}_*.deb package && \
             cp package/usr/lib/llvm-14/lib/libunwind.a libunwind.a"
        );
        let status = Command::new("sh")
            .args(["-ec", &script])
            .current_dir(&folder)
            .status()?;
        ensure!(status.success(), "cannot fetch {UNWINDER}");
    }
    Ok(folder)
}
