//! The program that a reader of parts 1 to 4 has typed: assembled from the chapters, compiled alone, and run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{repository, tale};

/// The chapters whose listings make the program, in the book's order.
fn chapters() -> Vec<PathBuf> {
    let folder = repository().join("learn/book/src");
    let summary = std::fs::read_to_string(folder.join("SUMMARY.md")).expect("the summary");
    let links = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    links
        .filter(|link| {
            ["numbers/", "arithmetic/", "pieces/", "transformer/"]
                .iter()
                .any(|part| link.starts_with(part))
        })
        .map(|link| folder.join(link))
        .collect()
}

/// The lines between an anchor's comments, without those of other anchors.
fn listing(path: &Path, anchor: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines();
    let (start, end) = (
        format!("// ANCHOR: {anchor}"),
        format!("// ANCHOR_END: {anchor}"),
    );
    assert!(
        lines.any(|line| line.trim() == start),
        "{}: {anchor}",
        path.display()
    );
    let inside = lines.take_while(|line| line.trim() != end);
    let code = inside.filter(|line| !line.trim().starts_with("// ANCHOR"));
    code.flat_map(|line| [line, "\n"]).collect()
}

/// The listings of a chapter's plain `rust` blocks; others are excerpts of what is shown elsewhere.
fn listings(chapter: &Path) -> String {
    let text = std::fs::read_to_string(chapter).expect("the chapter is there");
    let folder = chapter.parent().expect("a folder");
    let mut code = String::new();
    let mut lines = text.lines();
    while lines.any(|line| line == "```rust") {
        for line in lines.by_ref().take_while(|line| *line != "```") {
            let include = line
                .strip_prefix("{{#include ")
                .and_then(|rest| rest.strip_suffix("}}"));
            let include = include.unwrap_or_else(|| panic!("{}: {line}", chapter.display()));
            let (path, anchor) = include.rsplit_once(':').expect("a path and an anchor");
            code.push_str(&listing(&folder.join(path), anchor));
            code.push('\n');
        }
    }
    code
}

#[test]
fn chapters_1_to_4_are_a_program_that_tells_the_story() {
    let Some(_) = tale() else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("next_token.rs"), folder.join("next_token"));
    let code: String = chapters().iter().map(|chapter| listings(chapter)).collect();
    std::fs::write(&source, code).expect("a file");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let status = Command::new(rustc)
        .args(["--edition", "2024", "-O", "-A", "dead_code", "-o"])
        .args([&program, &source])
        .status();
    assert!(status.expect("rustc starts").success());
    let output = Command::new(program)
        .arg(repository().join("models/tale/tale-q4_k_m.gguf"))
        .args(["64", "2050", "693", "261", "550"])
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8(output.stdout).expect("text");
    // `strata run tale --raw --temp 0 -n 64 "Once upon a time"` prints the second part.
    let path = repository().join("learn/book/src/output/story.txt");
    assert_eq!(told, std::fs::read_to_string(path).expect("the story"));
}
