//! Wine, which runs programs for Windows: its own folder of settings, and what Wine 8 lacks.

use crate::command::{answers, debian_install, run as execute, target as build_folder};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PROGRAMS: [&str; 3] = ["wine64", "wine", "/usr/lib/wine/wine64"];
const COMPILER: &str = "x86_64-w64-mingw32-gcc";
/// What Windows has and Wine 8 has not: the random numbers of Rust's standard library.
const PRIMITIVES: &str = "\
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *, unsigned long);
__declspec(dllexport) int ProcessPrng(unsigned char *to, unsigned long long bytes)
{
    return SystemFunction036(to, (unsigned long)bytes);
}
";
const LIBRARY: &str = "bcryptprimitives";

/// Wine, ready to run programs.
pub(crate) struct Wine {
    program: &'static str,
    prefix: PathBuf,
}

impl Wine {
    /// Finds or installs Wine, and sets up a folder for it.
    pub(crate) fn install() -> Result<Self> {
        let answer = |wine: &&str| answers(Command::new(wine).arg("--version"));
        if !PROGRAMS.iter().any(answer) {
            debian_install(&["wine64"])?;
        }
        if !answers(Command::new(COMPILER).arg("--version")) {
            debian_install(&["gcc-mingw-w64-x86-64"])?;
        }
        let program = PROGRAMS.into_iter().find(|wine| answer(wine));
        let folder = build_folder().join("dist/wine");
        let wine = Self {
            program: program.context("wine64 is installed and does not start")?,
            prefix: folder.join("prefix"),
        };
        let library = wine.prefix.join("drive_c/windows/system32");
        let library = library.join(format!("{LIBRARY}.dll"));
        if !library.exists() {
            fs::create_dir_all(&folder)?;
            let source = folder.join("primitives.c");
            fs::write(&source, PRIMITIVES)?;
            execute(wine.command("wineboot").arg("--init"))?;
            let mut compiler = Command::new(COMPILER);
            compiler.args(["-shared", "-o"]).arg(&library).arg(&source);
            execute(compiler.arg("-ladvapi32"))?;
            ensure!(library.exists(), "MinGW compiles nothing");
        }
        Ok(wine)
    }

    /// Runs a program for Windows.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(self.program);
        command.arg(program);
        self.prepare(&mut command);
        command
    }

    /// The program that runs others.
    pub(crate) fn program(&self) -> &'static str {
        self.program
    }

    /// Sets what Wine reads from the environment, for a command that starts it.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command
            .env("WINEPREFIX", &self.prefix)
            .env("WINEDEBUG", "-all")
            .env("WINEDLLOVERRIDES", format!("{LIBRARY}=n;mscoree,mshtml="));
    }
}
