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

/// All blocks of code in a language from "Start" on, as one program.
pub(super) fn all(binding: &str, language: &str) -> Result<String> {
    let path = root().join("bindings").join(binding).join("README.md");
    let text = std::fs::read_to_string(&path)?;
    let (_, rest) = text
        .split_once("\n## Start\n")
        .with_context(|| format!("{} has no Start", path.display()))?;
    let begin = format!("```{language}\n");
    let blocks = rest.split(&begin).skip(1);
    let blocks: Vec<&str> = blocks
        .filter_map(|block| block.split("```").next())
        .collect();
    ensure!(blocks.len() > 1, "{} has no more examples", path.display());
    Ok(blocks.join("\n"))
}

/// An example has told a story.
pub(super) fn told(output: &str) -> Result<()> {
    ensure!(
        output.contains("Once upon a time") && output.len() > 60,
        "the README's example told no story: {output:?}"
    );
    Ok(())
}
