//! A test of the order of crates: each depends only on those above it in ARCHITECTURE.md, in its tests too.

use crate::command::root;
use std::fs;

/// The folders of the crates, in the document's order.
fn order() -> Vec<String> {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the document");
    let rows = document
        .lines()
        .skip_while(|line| !line.starts_with("| crate"));
    rows.skip(2)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(String::from)
        .collect()
}

/// The package that a folder's manifest is of.
fn package(folder: &str) -> String {
    match folder.strip_prefix("crates/") {
        Some("strata") => "strata".into(),
        Some(name) => format!("strata-{name}"),
        None => format!("strata-{folder}"),
    }
}

#[test]
fn crates_depend_only_on_those_above_them() {
    let order = order();
    let members: Vec<&String> = order.iter().filter(|f| f.starts_with("crates/")).collect();
    let folders = fs::read_dir(root().join("crates")).expect("the crates");
    assert_eq!(members.len(), folders.count(), "crates that have no row");
    for (place, folder) in order.iter().enumerate() {
        let path = root().join(folder).join("Cargo.toml");
        let Ok(manifest) = fs::read_to_string(path) else {
            continue;
        };
        for below in order[place + 1..].iter().map(|folder| package(folder)) {
            let depends = manifest.lines().any(|line| {
                let name = line.split(['.', ' ', '=']).next();
                name == Some(below.as_str())
            });
            assert!(!depends, "{folder} depends on {below}, which is below it");
        }
    }
}
