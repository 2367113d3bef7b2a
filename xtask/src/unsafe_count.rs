//! A test of how much `unsafe` the bare machine has: as much as its documentation says, each place with its reason.

use crate::command::root;
use std::fs;
use std::path::{Path, PathBuf};

/// What counts, at the beginning of a line or behind other words.
const PLACES: [&str; 5] = [
    "unsafe {",
    "unsafe fn ",
    "unsafe impl",
    "unsafe extern \"C\" {",
    "#[unsafe(",
];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "tests" && name != "target" {
            sources(&path, out);
        } else if path.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs" {
            out.push(path);
        }
    }
}

fn count(text: &str) -> usize {
    let program = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = program.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.starts_with("//"));
    code.map(|line| {
        PLACES
            .iter()
            .map(|place| line.matches(place).count())
            .sum::<usize>()
    })
    .sum()
}

#[test]
fn the_bare_machine_has_as_much_unsafe_as_it_says() {
    let mut files = Vec::new();
    sources(&root().join("crates/unikernel"), &mut files);
    let texts = files
        .iter()
        .map(|path| fs::read_to_string(path).expect("a source"));
    let found: usize = texts.map(|text| count(&text)).sum();
    let document = fs::read_to_string(root().join("docs/bare-metal.md")).expect("the document");
    let said = document
        .split_once("`unsafe` stands in ")
        .expect("the sentence")
        .1;
    let said: usize = said
        .split(' ')
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a number");
    assert_eq!(found, said, "docs/bare-metal.md gives the number of places");
}
