//! The examples of the bindings' documents: what readers copy is what is run.

use crate::command::root;
use anyhow::{Context, Result, ensure};

/// The first block of code in a language under "Start" of a binding's README.
pub(super) fn start(binding: &str, language: &str) -> Result<String> {
    let path = root().join("bindings").join(binding).join("README.md");
    let text = std::fs::read_to_string(&path)?;
    let (_, rest) = text
        .split_once("\n## Start\n")
        .with_context(|| format!("{} has no Start", path.display()))?;
    let (_, rest) = rest
        .split_once(&format!("```{language}\n"))
        .with_context(|| format!("{} starts with no {language}", path.display()))?;
    let (code, _) = rest.split_once("```").context("a block that ends")?;
    Ok(code.to_owned())
}

/// An example has told a story.
pub(super) fn told(output: &str) -> Result<()> {
    ensure!(
        output.contains("Once upon a time") && output.len() > 60,
        "the README's example told no story: {output:?}"
    );
    Ok(())
}
