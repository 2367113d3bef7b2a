//! The book's sources: every link, listing and path that they name must exist.

use crate::command::root;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// What every chapter but the introduction has.
const SECTIONS: [&str; 3] = ["## Run it", "## Exercise", "## In the product"];

/// Where paths of the repository begin, in the chapters' code spans.
const FOLDERS: [&str; 7] = [
    "crates/", "learn/", "xtask/", "tools/", "docs/", "models/", "bench/",
];

/// A chapter.
pub(crate) struct Chapter {
    /// Its file, from the book's folder.
    name: String,
    path: PathBuf,
    text: String,
}

/// All chapters of the summary.
pub(crate) struct Book {
    folder: PathBuf,
    pub(crate) chapters: Vec<Chapter>,
}

impl Book {
    /// Reads the summary and the chapters that it names.
    pub(crate) fn read(folder: &Path) -> Result<Book> {
        let summary = folder.join("SUMMARY.md");
        let summary = fs::read_to_string(&summary).context("the book has no SUMMARY.md")?;
        let chapters = links(&summary)
            .map(|name| {
                let path = folder.join(name);
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("SUMMARY.md names {name}, which cannot be read"))?;
                Ok(Chapter {
                    name: name.into(),
                    path,
                    text,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Book {
            folder: folder.into(),
            chapters,
        })
    }

    /// The words of the chapters' prose.
    pub(crate) fn words(&self) -> usize {
        let prose = self.chapters.iter().flat_map(|chapter| chapter.prose());
        prose.map(|line| line.split_whitespace().count()).sum()
    }

    /// Everything that is wrong.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for chapter in &self.chapters {
            let mut faults = chapter.faults();
            faults.extend(self.bad_links(chapter));
            problems.extend(
                faults
                    .iter()
                    .map(|fault| format!("{}: {fault}", chapter.name)),
            );
        }
        problems
    }

    fn bad_links(&self, chapter: &Chapter) -> Vec<String> {
        let folder = chapter.path.parent().unwrap_or(&self.folder);
        let mut faults = Vec::new();
        for line in chapter.prose() {
            for link in links(line).filter(|link| !link.starts_with("https://")) {
                let (file, heading) = link.split_once('#').unwrap_or((link, ""));
                let path = if file.is_empty() {
                    chapter.path.clone()
                } else {
                    folder.join(file)
                };
                match fs::read_to_string(&path) {
                    Err(_) => faults.push(format!("the link {link} leads nowhere")),
                    Ok(text) if !heading.is_empty() && !headings(&text).any(|id| id == heading) => {
                        faults.push(format!("the link {link} names no heading"));
                    }
                    Ok(_) => {}
                }
            }
        }
        faults
    }
}

impl Chapter {
    /// The lines outside of code blocks.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut code = false;
        self.text.lines().filter(move |line| {
            let fence = line.starts_with("```");
            code ^= fence;
            !code && !fence && !line.starts_with("{{#include")
        })
    }

    /// The command lines that run the program.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines();
        let lines = lines.filter_map(|line| line.strip_prefix("$ "));
        lines.filter(|line| line.contains("strata ") && !line.starts_with("cargo "))
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let (mut rust, mut printed) = (false, false);
        for line in self.text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                rust = language.starts_with("rust");
                printed = language == "text";
                continue;
            }
            match line
                .strip_prefix("{{#include ")
                .and_then(|rest| rest.strip_suffix("}}"))
            {
                Some(include) => faults.extend(bad_include(folder, include)),
                None if rust => faults.push(format!("code that is not included: {line}")),
                None if printed => faults.push(format!("no command printed: {line}")),
                None => {}
            }
        }
        if self.name.contains('/') {
            let lacks =
                |section: &&&str| !self.text.lines().any(|line| line.starts_with(**section));
            let missing = SECTIONS.iter().filter(lacks);
            faults.extend(missing.map(|section| format!("there is no {section:?}")));
            let named = ["`strata ", "| strata "].map(|start| self.text.contains(start));
            if self.commands().next().is_none() && !named.contains(&true) {
                faults.push("there is nothing to run with `strata`".into());
            }
        }
        for line in self.prose() {
            for span in line.split('`').skip(1).step_by(2) {
                let path = FOLDERS.iter().any(|folder| span.starts_with(folder));
                if path && !span.contains(['…', ' ', '*']) && !root().join(span).exists() {
                    faults.push(format!("there is no {span}"));
                }
            }
        }
        faults
    }
}

/// What is wrong with `PATH` or `PATH:ANCHOR`.
fn bad_include(folder: &Path, include: &str) -> Option<String> {
    let (path, anchor) = include.rsplit_once(':').unwrap_or((include, ""));
    let Ok(text) = fs::read_to_string(folder.join(path)) else {
        return Some(format!("the included {path} cannot be read"));
    };
    let has = |kind: &str| {
        let comment = format!("// {kind}: {anchor}");
        text.lines().any(|line| line.trim() == comment)
    };
    let found = anchor.is_empty() || has("ANCHOR") && has("ANCHOR_END");
    (!found).then(|| format!("{path} has no anchor {anchor}"))
}

/// The targets of a text's Markdown links and pictures.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    targets.filter_map(|rest| rest.split_once(')').map(|(link, _)| link))
}

/// The ids that mdbook gives the headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        kept.collect()
    })
}

/// What is wrong with the rendered pages: includes left over, or anything that would be loaded from elsewhere.
pub(crate) fn check_rendered(folder: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "html") {
                let text = fs::read_to_string(&path)?;
                let marks = [
                    "{{#include",
                    "src=\"http",
                    "<link rel=\"stylesheet\" href=\"http",
                ];
                for mark in marks.iter().filter(|mark| text.contains(**mark)) {
                    problems.push(format!("{} contains {mark}", path.display()));
                }
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chapter(text: &str) -> Chapter {
        Chapter {
            name: "chapter.md".into(),
            path: root().join("learn/book/src/chapter.md"),
            text: text.into(),
        }
    }

    #[test]
    fn the_book_has_no_problems() {
        let book = Book::read(&root().join("learn/book/src")).expect("the book");
        assert_eq!(book.problems(), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_named() {
        let faults = chapter(
            "```rust\n{{#include ../../src/lanes.rs:nothing}}\nlet x = 1;\n```\n```text\n7\n```\nSee `crates/nowhere`.",
        )
        .faults();
        assert_eq!(
            faults,
            [
                "../../src/lanes.rs has no anchor nothing",
                "code that is not included: let x = 1;",
                "no command printed: 7",
                "there is no crates/nowhere",
            ]
        );
        let book = Book {
            folder: root().join("learn/book/src"),
            chapters: vec![chapter(
                "[here](nowhere.md) and [there](SUMMARY.md#nothing)",
            )],
        };
        assert_eq!(
            book.problems(),
            [
                "chapter.md: the link nowhere.md leads nowhere",
                "chapter.md: the link SUMMARY.md#nothing names no heading",
            ]
        );
    }
}
