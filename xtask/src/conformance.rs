//! `cargo xtask conformance`: the official clients of OpenAI, Anthropic and Ollama against `strata serve`.

use crate::command::strata_for_checks;
use crate::python::Python;
use anyhow::Result;

/// Versions are fixed so that a check which passed keeps passing.
const PACKAGES: &[&str] = &[
    "openai==3.49.0",
    "anthropic==2.8.0",
    "ollama==0.6.3",
    "jsonschema==4.26.0",
];

/// The clients, where they can be had.
pub(crate) fn clients() -> Result<Option<Python>> {
    Python::install("clients", PACKAGES, "the official clients' checks")
}

pub(crate) fn run() -> Result<()> {
    let Some(python) = clients()? else {
        return Ok(());
    };
    let strata = strata_for_checks()?;
    python.script("conformance.py", &[&strata.to_string_lossy()])
}
