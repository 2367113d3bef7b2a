//! Python environments of our own, with the packages that checks need.

use crate::command::{answers, debian_install, root, run as execute, run_as, target};
use crate::llama_cpp::LlamaCpp;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file in an environment that lists what is installed in it.
const STAMP: &str = "installed.txt";

/// An environment with its packages.
pub(crate) struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Creates an environment in a folder of the target directory. If the installation fails, reports that `what` is
    /// skipped, or fails under CI.
    pub(crate) fn install(
        folder: &str,
        packages: &[&str],
        llama_cpp: Option<LlamaCpp>,
        what: &str,
    ) -> Result<Option<Self>> {
        match Self::try_install(&target().join(folder), packages, llama_cpp) {
            Ok(python) => Ok(Some(python)),
            Err(error) if std::env::var_os("CI").is_none() => {
                eprintln!(
                    "skipped: {what}, because their packages could not be installed: {error:#}"
                );
                Ok(None)
            }
            Err(error) => Err(error.context("installing Python packages")),
        }
    }

    fn try_install(folder: &Path, packages: &[&str], llama_cpp: Option<LlamaCpp>) -> Result<Self> {
        let mut wanted = packages.join("\n");
        if let Some(llama_cpp) = &llama_cpp {
            wanted += &format!("\n{}", llama_cpp.describe()?);
        }
        let python = Self {
            interpreter: folder.join("bin/python"),
        };
        let stamp = folder.join(STAMP);
        let same = std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted);
        if same && answers(Command::new(&python.interpreter).arg("--version")) {
            return Ok(python);
        }
        if !answers(Command::new("python3").arg("--version")) {
            debian_install(&["python3-venv"])?;
        }
        // Packages of another version or build must not stay.
        let venv = || {
            execute(
                Command::new("python3")
                    .args(["-m", "venv", "--clear"])
                    .arg(folder),
            )
        };
        if venv().is_err() {
            debian_install(&["python3-venv"])?;
            venv()?;
        }
        execute(python.pip_install().args(packages))?;
        if let Some(llama_cpp) = &llama_cpp {
            llama_cpp.install(&python)?;
        }
        std::fs::write(&stamp, wanted)?;
        Ok(python)
    }

    pub(crate) fn pip(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command
    }

    pub(crate) fn pip_install(&self) -> Command {
        let mut command = self.pip();
        command.args(["install", "--quiet"]);
        command
    }

    /// The environment's folder.
    pub(crate) fn folder(&self) -> &Path {
        let folder = self.interpreter.ancestors().nth(2);
        folder.unwrap_or(&self.interpreter)
    }

    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// Runs a script of `tools/`. Errors name it together with the peer that it runs.
    pub(crate) fn script(&self, name: &str, peer: &str, arguments: &[&str]) -> Result<()> {
        run_as(
            &format!("{name} ({peer})"),
            Command::new(&self.interpreter)
                .arg(root().join("tools").join(name))
                .args(arguments)
                // If a library crashes, Python prints which line called it.
                .env("PYTHONFAULTHANDLER", "1"),
        )
    }
}
