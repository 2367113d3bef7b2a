//! Checks against implementations that we did not write: Python's `gguf`, `jinja2`, `tokenizers`, and llama.cpp.

use crate::command::{strata_for_checks, target};
use crate::llama_cpp::LlamaCpp;
use crate::python::Python;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// Versions are fixed so that a check which passed keeps passing.
const PACKAGES: &[&str] = &[
    "numpy==2.4.6",
    "gguf==0.19.0",
    "jinja2==3.1.6",
    "tokenizers==0.23.3",
    "sentencepiece==0.2.2",
    "transformers==5.22.2",
];

/// A Python environment with the peers in it.
pub(crate) struct Peers(Python);

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
    peers.script("quant_vectors.py", "gguf", &[])?;
    peers.script("sampler_vectors.py", "llama.cpp", &[])?;
    let table = "crates/tokenizer/src/unicode_table.rs";
    peers.script("token_vectors.py", "tokenizers", &["unicode", table])?;
    peers.script(
        "token_vectors.py",
        "tokenizers",
        &["vectors", "crates/tokenizer/tests/vectors"],
    )?;
    let cases = "crates/template/tests/cases";
    let (from, to) = (
        format!("{cases}/cases.json"),
        format!("{cases}/expected.json"),
    );
    peers.script("template_oracle.py", "jinja2", &["cases", &from, &to])
}

impl Peers {
    /// Installs the packages, or says why the checks are left out.
    pub(crate) fn install() -> Result<Option<Self>> {
        let what = "the checks against other implementations";
        let python = Python::install("peers", PACKAGES, Some(LlamaCpp::for_checks()), what)?;
        Ok(python.map(Self))
    }

    /// The same with a llama.cpp that is compiled for this processor, to measure against.
    pub(crate) fn install_native() -> Result<Option<Self>> {
        let what = "the measurements against llama.cpp";
        let python = Python::install("peers-native", PACKAGES, Some(LlamaCpp::Native), what)?;
        Ok(python.map(Self))
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
            "jinja2",
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
        self.script("quant_vectors.py", "gguf", &["--verify"])?;
        self.script("sampler_vectors.py", "llama.cpp", &["--verify"])?;
        let strata = strata_for_checks()?;
        let strata = strata.to_string_lossy();
        for name in [
            "synth_check.py",
            "llama_compare.py",
            "quantize_check.py",
            "echo_check.py",
        ] {
            self.script(name, "llama.cpp", &[&strata])?;
        }
        Ok(())
    }

    /// The environment's interpreter, for tests that run it themselves.
    pub(crate) fn python(&self) -> &Path {
        self.0.interpreter()
    }

    fn script(&self, name: &str, peer: &str, arguments: &[&str]) -> Result<()> {
        self.0.script(name, peer, arguments)
    }
}
