//! The examples of the bindings' documents: what readers copy is what is run.

use crate::command::root;
use anyhow::{Context, Result, ensure};

/// The blocks of code in a language from "Start" of a binding's README on.
fn blocks(binding: &str, language: &str) -> Result<Vec<String>> {
    let path = root().join("bindings").join(binding).join("README.md");
    let text = std::fs::read_to_string(&path)?;
    let (_, rest) = text
        .split_once("\n## Start\n")
        .with_context(|| format!("{} has no Start", path.display()))?;
    let begin = format!("```{language}\n");
    let blocks = rest.split(&begin).skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    Ok(blocks.map(String::from).collect())
}

/// The first of them.
pub(super) fn start(binding: &str, language: &str) -> Result<String> {
    let first = blocks(binding, language)?.into_iter().next();
    first.with_context(|| format!("{binding}'s README starts with no {language}"))
}

/// Those after the first, as one.
pub(super) fn others(binding: &str, language: &str) -> Result<String> {
    let others = blocks(binding, language)?;
    ensure!(others.len() > 1, "{binding}'s README has no more examples");
    Ok(others[1..].join("\n"))
}

/// All of them, as one program.
pub(super) fn all(binding: &str, language: &str) -> Result<String> {
    Ok(format!(
        "{}\n{}",
        start(binding, language)?,
        others(binding, language)?
    ))
}

/// An example has told a story.
pub(super) fn told(output: &str) -> Result<()> {
    ensure!(
        output.contains("Once upon a time") && output.len() > 60,
        "the README's example told no story: {output:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::languages::LANGUAGES;
    use super::*;

    /// What readers look for, in this order.
    const SECTIONS: [&str; 10] = [
        "Install",
        "Start",
        "Streaming",
        "Tools",
        "Schema",
        "Embeddings",
        "LoRA",
        "Cancel",
        "Memory plan",
        "Threads",
    ];

    #[test]
    fn every_binding_tells_of_the_same_things() {
        for language in LANGUAGES {
            let path = root().join("bindings").join(language.name);
            let text = std::fs::read_to_string(path.join("README.md")).unwrap();
            let titles = text.lines().filter_map(|line| line.strip_prefix("## "));
            let known = titles.filter(|title| SECTIONS.contains(title));
            assert_eq!(known.collect::<Vec<_>>(), SECTIONS, "{}", language.name);
        }
    }
}
