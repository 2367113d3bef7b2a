//! The table of features and languages in `bindings/README.md`: what each language's test has seen work.

use super::languages::LANGUAGES;
use crate::command::root;
use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;

/// All features, in the table's order, with what a test must have seen.
const FEATURES: [(&str, &str); 15] = [
    ("greedy", "the bytes of `strata run`"),
    ("stream", "streaming"),
    ("cancel", "cancel at any time, in prompts too"),
    (
        "stress",
        "64 streams, canceled at random: no crash, flat memory",
    ),
    (
        "schema",
        "a JSON schema's answer as the language's own type",
    ),
    ("tools", "functions that answer tool calls by themselves"),
    ("embeddings", "the vector of `/v1/embeddings`"),
    ("adapters", "two LoRA adapters in one batch"),
    ("sessions", "sessions: fork, save, restore"),
    (
        "constraints",
        "sessions held to a format, limits and privacy",
    ),
    ("tokenize", "tokens"),
    ("plan", "the memory plan"),
    ("errors", "errors with their codes"),
    ("images", "images in messages"),
    ("speech", "speech as text"),
];

const BEGIN: &str = "<!-- features: written by `cargo xtask test-bindings --write-table` -->\n";
const END: &str = "<!-- end of features -->\n";

/// Compares what was seen with the table, or writes it. Languages that were not tested keep their column.
pub(super) fn compare(seen: &BTreeMap<&str, Vec<String>>, writes: bool) -> Result<()> {
    for (language, features) in seen {
        for feature in features {
            let known = FEATURES.iter().any(|(name, _)| name == feature);
            let extra = ["openai", "preload", "readme", "frameworks"].contains(&feature.as_str());
            ensure!(
                known || extra,
                "{language} tells of an unknown feature {feature:?}"
            );
        }
    }
    let path = root().join("bindings/README.md");
    let document = std::fs::read_to_string(&path)?;
    let parts = document
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let Some((before, (old, after))) = parts else {
        anyhow::bail!("bindings/README.md has no place for the table of features");
    };
    let new = table(&cells(old), seen);
    eprintln!("\n{new}");
    if writes {
        std::fs::write(&path, format!("{before}{BEGIN}{new}{END}{after}"))?;
        return Ok(());
    }
    ensure!(
        new == old,
        "the table of features in bindings/README.md is another: run with --write-table"
    );
    Ok(())
}

/// The marks of a table by language's title and feature's words.
fn cells(table: &str) -> BTreeMap<(String, String), String> {
    let split = |line: &str| -> Vec<String> {
        let inner = line.trim().trim_matches('|');
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let mut lines = table.lines();
    let titles = lines.next().map(split).unwrap_or_default();
    let mut cells = BTreeMap::new();
    for line in lines.skip(1) {
        let row = split(line);
        for (title, mark) in titles.iter().zip(&row).skip(1) {
            cells.insert((title.clone(), row[0].clone()), mark.clone());
        }
    }
    cells
}

fn table(old: &BTreeMap<(String, String), String>, seen: &BTreeMap<&str, Vec<String>>) -> String {
    let titles: Vec<&str> = LANGUAGES.iter().map(|language| language.title).collect();
    let mut text = format!("| | {} |\n|---|", titles.join(" | "));
    text += &":-:|".repeat(titles.len());
    text.push('\n');
    for (name, words) in FEATURES {
        write!(text, "| {words} |").expect("a string grows");
        for language in LANGUAGES {
            let key = (language.title.to_owned(), words.to_owned());
            let mark = match seen.get(language.name) {
                Some(features) if features.iter().any(|one| one == name) => "✓",
                Some(_) => "–",
                None => old.get(&key).map_or("–", String::as_str),
            };
            write!(text, " {mark} |").expect("a string grows");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_that_was_not_tested_keeps_its_column() {
        let seen = BTreeMap::from([("c", vec!["greedy".to_owned()])]);
        let first = table(&BTreeMap::new(), &seen);
        assert!(
            first.contains("| the bytes of `strata run` | ✓ | – |"),
            "{first}"
        );
        let seen = BTreeMap::from([("cpp", vec!["greedy".to_owned(), "plan".to_owned()])]);
        let second = table(&cells(&first), &seen);
        assert!(
            second.contains("| the bytes of `strata run` | ✓ | ✓ |"),
            "{second}"
        );
        assert_eq!(table(&cells(&second), &BTreeMap::new()), second);
    }
}
