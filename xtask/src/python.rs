//! Python environments of our own, with the packages that checks need.

use crate::command::{answers, debian_install, root, run as execute, target};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An environment with its packages.
pub(crate) struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Makes an environment in a folder of the target directory; where that cannot be, says that `what` is left out,
    /// or fails under CI.
    pub(crate) fn install(folder: &str, packages: &[&str], what: &str) -> Result<Option<Self>> {
        match Self::try_install(&target().join(folder), packages) {
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

    fn try_install(folder: &Path, packages: &[&str]) -> Result<Self> {
        let python = Self {
            interpreter: folder.join("bin/python"),
        };
        if python.has(packages) {
            return Ok(python);
        }
        for (program, package) in [("python3", "python3-venv"), ("c++", "g++")] {
            if !answers(Command::new(program).arg("--version")) {
                debian_install(&[package])?;
            }
        }
        let venv = || Command::new("python3");
        if execute(venv().args(["-m", "venv"]).arg(folder)).is_err() {
            debian_install(&["python3-venv"])?;
            execute(venv().args(["-m", "venv"]).arg(folder))?;
        }
        execute(
            Command::new(&python.interpreter)
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                ])
                .args(packages)
                // llama.cpp is compiled here (up to seven minutes on two cores); the wheel stays in pip's cache.
                .env("CMAKE_ARGS", "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF"),
        )?;
        Ok(python)
    }

    fn has(&self, packages: &[&str]) -> bool {
        let checks: Vec<String> = packages
            .iter()
            .filter_map(|package| package.split_once("=="))
            .map(|(name, version)| format!("assert v({name:?}) == {version:?}"))
            .collect();
        let program = format!(
            "from importlib.metadata import version as v\n{}",
            checks.join("\n")
        );
        answers(Command::new(&self.interpreter).args(["-c", &program]))
    }

    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// Runs a script of `tools/`.
    pub(crate) fn script(&self, name: &str, arguments: &[&str]) -> Result<()> {
        execute(
            Command::new(&self.interpreter)
                .arg(root().join("tools").join(name))
                .args(arguments),
        )
    }
}
