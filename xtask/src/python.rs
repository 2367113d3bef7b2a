//! Python environments of our own, with the packages that checks need.

use crate::command::{answers, debian_install, root, run as execute, run_as, target};
use anyhow::{Context, Result, ensure};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How llama.cpp is compiled: for this processor, but without AMX. GCC 12 optimizes the setup of the AMX tiles away,
/// and the result dies with an illegal instruction. All of llama.cpp's AMX code is behind this macro, and compilers do
/// not emit AMX instructions on their own.
const CMAKE_ARGS: &str = "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF \
                          -DCMAKE_C_FLAGS=-U__AMX_INT8__ -DCMAKE_CXX_FLAGS=-U__AMX_INT8__";

/// A file in an environment that lists what is installed in it.
const STAMP: &str = "installed.txt";

/// An environment with its packages.
pub(crate) struct Python {
    interpreter: PathBuf,
}

impl Python {
    /// Creates an environment in a folder of the target directory. `compiled` is a package that is built here for this
    /// processor. If the installation fails, reports that `what` is skipped, or fails under CI.
    pub(crate) fn install(
        folder: &str,
        packages: &[&str],
        compiled: Option<&str>,
        what: &str,
    ) -> Result<Option<Self>> {
        match Self::try_install(&target().join(folder), packages, compiled) {
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

    fn try_install(folder: &Path, packages: &[&str], compiled: Option<&str>) -> Result<Self> {
        let compiled = match compiled {
            Some(package) => Some((package, build_key()?)),
            None => None,
        };
        let mut wanted = packages.join("\n");
        if let Some((package, key)) = &compiled {
            wanted += &format!("\n{package} compiled as {key}");
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
        if let Some((package, key)) = compiled {
            python.compile(package, &key)?;
        }
        std::fs::write(&stamp, wanted)?;
        Ok(python)
    }

    fn pip(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command
    }

    fn pip_install(&self) -> Command {
        let mut command = self.pip();
        command.args(["install", "--quiet"]);
        command
    }

    /// Compiles and installs a package: up to seven minutes on two cores. pip caches the wheel, but does not key it by
    /// build flags or processor, so each kind of build gets its own cache.
    fn compile(&self, package: &str, key: &str) -> Result<()> {
        let mut install = self.pip_install();
        install.arg(package).env("CMAKE_ARGS", CMAKE_ARGS);
        let cache = self.pip().args(["cache", "dir"]).output()?;
        // With pip's cache disabled, nothing is reused.
        if cache.status.success() {
            let cache = String::from_utf8(cache.stdout)?;
            let folder = Path::new(cache.trim_end()).join(format!("strata-{key}"));
            install.arg("--cache-dir").arg(folder);
        }
        execute(&mut install)
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

/// A hash of what a compiled package depends on besides its source: build flags, compiler, C library and processor. All
/// but the flags show in the macros that the compiler predefines for this processor.
fn build_key() -> Result<String> {
    if !answers(Command::new("c++").arg("--version")) {
        debian_install(&["g++"])?;
    }
    let native = if cfg!(target_arch = "x86_64") {
        "-march=native"
    } else {
        "-mcpu=native"
    };
    let macros = Command::new("c++")
        .args([native, "-include", "stdlib.h", "-dM", "-E", "-x", "c++"])
        .arg("/dev/null")
        .output()
        .context("cannot start c++")?;
    ensure!(
        macros.status.success(),
        "c++ cannot compile for this processor: {}",
        String::from_utf8_lossy(&macros.stderr)
    );
    let mut hasher = DefaultHasher::new();
    (CMAKE_ARGS, macros.stdout).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
