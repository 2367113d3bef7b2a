//! Checks against implementations that we did not write: Python's `gguf`, `jinja2`, `tokenizers`, and llama.cpp.

use crate::command::{answers, cargo, debian_install, root, run as execute, target};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions are fixed so that a check which passed keeps passing.
const PACKAGES: &[&str] = &[
    "numpy==2.4.6",
    "gguf==0.19.0",
    "jinja2==3.1.6",
    "tokenizers==0.23.3",
    "sentencepiece==0.2.2",
    "transformers==5.22.2",
    "llama-cpp-python==0.3.36",
];

/// A Python environment with the peers in it.
pub(crate) struct Peers {
    python: PathBuf,
}

pub(crate) fn run() -> Result<()> {
    match Peers::install()? {
        Some(peers) => peers.check(),
        None => Ok(()),
    }
}

pub(crate) fn vectors() -> Result<()> {
    let Some(peers) = Peers::install()? else {
        bail!("the vectors are made with Python packages that could not be installed")
    };
    peers.script("quant_vectors.py", &[])?;
    peers.script("sampler_vectors.py", &[])?;
    let table = "crates/token/src/tokenizer/unicode_table.rs";
    peers.script("token_vectors.py", &["unicode", table])?;
    peers.script(
        "token_vectors.py",
        &["vectors", "crates/token/tests/vectors"],
    )?;
    let cases = "crates/token/tests/template_cases";
    let (from, to) = (
        format!("{cases}/cases.json"),
        format!("{cases}/expected.json"),
    );
    peers.script("template_oracle.py", &["cases", &from, &to])
}

impl Peers {
    /// Installs the packages, or says why the checks are left out.
    pub(crate) fn install() -> Result<Option<Self>> {
        match Self::try_install() {
            Ok(peers) => Ok(Some(peers)),
            Err(error) if std::env::var_os("CI").is_none() => {
                eprintln!(
                    "skipped: the checks against other implementations, because their packages could not be installed: {error:#}"
                );
                Ok(None)
            }
            Err(error) => Err(error.context("installing the peers' packages")),
        }
    }

    fn try_install() -> Result<Self> {
        let folder = target().join("peers");
        let python = folder.join("bin/python");
        let peers = Self { python };
        if peers.has_packages() {
            return Ok(peers);
        }
        for (program, package) in [("python3", "python3-venv"), ("c++", "g++")] {
            if !answers(Command::new(program).arg("--version")) {
                debian_install(&[package])?;
            }
        }
        let venv = || Command::new("python3");
        if execute(venv().args(["-m", "venv"]).arg(&folder)).is_err() {
            debian_install(&["python3-venv"])?;
            execute(venv().args(["-m", "venv"]).arg(&folder))?;
        }
        execute(
            Command::new(&peers.python)
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                ])
                .args(PACKAGES)
                // llama.cpp is compiled here (about seven minutes on two cores); the wheel stays in pip's cache.
                .env("CMAKE_ARGS", "-DGGML_NATIVE=ON"),
        )?;
        Ok(peers)
    }

    fn has_packages(&self) -> bool {
        let checks: Vec<String> = PACKAGES
            .iter()
            .filter_map(|package| package.split_once("=="))
            .map(|(name, version)| format!("assert v({name:?}) == {version:?}"))
            .collect();
        let program = format!(
            "from importlib.metadata import version as v\n{}",
            checks.join("\n")
        );
        answers(Command::new(&self.python).args(["-c", &program]))
    }

    /// What `jinja2` makes of the published templates, where there are any.
    pub(crate) fn expected_templates(&self) -> Result<Option<PathBuf>> {
        let Some(fixtures) = std::env::var_os("STRATA_FIXTURES") else {
            return Ok(None);
        };
        let expected = target().join("template_expected.json");
        let templates = PathBuf::from(fixtures).join("templates");
        self.script(
            "template_oracle.py",
            &[
                "fixtures",
                &templates.to_string_lossy(),
                &expected.to_string_lossy(),
            ],
        )?;
        Ok(Some(expected))
    }

    /// Every check that needs a peer at run time.
    pub(crate) fn check(&self) -> Result<()> {
        self.script("quant_vectors.py", &["--verify"])?;
        self.script("sampler_vectors.py", &["--verify"])?;
        execute(&mut cargo("build --release --quiet --package strata"))?;
        let strata = target().join("release/strata");
        self.script("synth_check.py", &[&strata.to_string_lossy()])?;
        self.script("llama_compare.py", &[&strata.to_string_lossy()])
    }

    /// The environment's interpreter, for tests that run it themselves.
    pub(crate) fn python(&self) -> &Path {
        &self.python
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Result<()> {
        execute(
            Command::new(&self.python)
                .arg(root().join("tools").join(name))
                .args(arguments),
        )
    }
}
