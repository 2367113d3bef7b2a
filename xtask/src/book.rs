//! `cargo xtask book`: checks the sources of `learn/book`, and renders them with mdbook.

mod outputs;
mod source;

pub(crate) use outputs::check as check_outputs;

use crate::command::{answers, cargo, root, run as execute, target};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that the book is rendered with.
const MDBOOK: &str = "0.5.4";

/// Words that the book has at least.
const LEAST_WORDS: usize = 25_000;

/// Checks the book, with a `strata` also the outputs that it shows, and renders it into `target/book`.
pub(crate) fn run(strata: Option<&Path>) -> Result<()> {
    check()?;
    if let Some(strata) = strata {
        check_outputs(strata)?;
    }
    let Some(mdbook) = mdbook()? else {
        return Ok(());
    };
    let out = target().join("book");
    execute(
        Command::new(mdbook)
            .args(["build", "learn/book", "--dest-dir"])
            .arg(&out),
    )?;
    let problems = source::check_rendered(&out)?;
    report(&problems)?;
    eprintln!("\nthe book: {}", out.join("index.html").display());
    Ok(())
}

/// Checks the sources: needs neither mdbook nor a network.
pub(crate) fn check() -> Result<()> {
    let book = source::Book::read(&root().join("learn/book/src"))?;
    report(&book.problems())?;
    let (chapters, words) = (book.chapters.len(), book.words());
    if words < LEAST_WORDS {
        bail!("the book has {words} words, and should have {LEAST_WORDS}");
    }
    eprintln!("the book: {chapters} chapters, {words} words, every link and listing found");
    Ok(())
}

fn report(problems: &[String]) -> Result<()> {
    for problem in problems {
        eprintln!("{problem}");
    }
    if problems.is_empty() {
        Ok(())
    } else {
        bail!("{} problems in the book", problems.len())
    }
}

/// mdbook of our version: the installed one, or else one that is installed under `target`.
fn mdbook() -> Result<Option<PathBuf>> {
    let is_ours = |path: &PathBuf| {
        let output = Command::new(path).arg("--version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(MDBOOK))
    };
    let folder = target().join("mdbook");
    for path in [PathBuf::from("mdbook"), folder.join("bin/mdbook")] {
        if is_ours(&path) {
            return Ok(Some(path));
        }
    }
    eprintln!("\nmdbook {MDBOOK} is not installed: it is built now, which takes minutes");
    let mut install = cargo("install --quiet --locked mdbook --version");
    install.arg(MDBOOK).arg("--root").arg(&folder);
    if answers(&mut install) {
        return Ok(Some(folder.join("bin/mdbook")));
    }
    if std::env::var_os("CI").is_some() {
        bail!("mdbook {MDBOOK} cannot be installed");
    }
    eprintln!("skipped: rendering, because mdbook {MDBOOK} cannot be installed");
    Ok(None)
}
