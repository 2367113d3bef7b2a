//! Embeds the unikernel that `STRATA_UNIKERNEL` names, for `strata image` and `strata boot`: the file
//! `target/unikernel/kernel.elf` that `cargo xtask unikernel` makes. And the book of `learn/book`, for `strata learn`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded_unikernel)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=STRATA_UNIKERNEL");
    embed_book();
    let Some(path) = std::env::var_os("STRATA_UNIKERNEL") else {
        return;
    };
    let path = match std::path::absolute(&path) {
        Ok(path) if path.is_file() => path,
        _ => panic!(
            "STRATA_UNIKERNEL names {}, which is no file",
            path.display()
        ),
    };
    println!("cargo::rerun-if-changed={}", path.display());
    println!("cargo::rustc-env=STRATA_UNIKERNEL_FILE={}", path.display());
    println!("cargo::rustc-cfg=embedded_unikernel");
}

/// Writes `book.rs`: the chapters' names and their text, with what they include.
fn embed_book() {
    let folder = |name: &str| PathBuf::from(std::env::var_os(name).expect("cargo sets it"));
    let book = folder("CARGO_MANIFEST_DIR").join("../../learn/book/src");
    let summary = read(&book.join("SUMMARY.md"));
    let mut table = String::from("&[\n");
    _ = writeln!(table, "(\"SUMMARY.md\", {summary:?}),");
    for rest in summary.split("](").skip(1) {
        let name = rest.split(')').next().unwrap_or_default();
        let path = book.join(name);
        let text = included(&read(&path), path.parent().unwrap_or(&book));
        _ = writeln!(table, "({name:?}, {text:?}),");
    }
    table.push(']');
    let out = folder("OUT_DIR").join("book.rs");
    std::fs::write(&out, table).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

fn read(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A chapter with the files that it includes, or the parts of them between the comments of an anchor.
fn included(chapter: &str, folder: &Path) -> String {
    let mut text = String::new();
    for line in chapter.lines() {
        let include = line.strip_prefix("{{#include ");
        let Some(include) = include.and_then(|rest| rest.strip_suffix("}}")) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let (path, anchor) = include.rsplit_once(':').unwrap_or((include, ""));
        let source = read(&folder.join(path));
        let (start, end) = (
            format!("// ANCHOR: {anchor}"),
            format!("// ANCHOR_END: {anchor}"),
        );
        let mut inside = anchor.is_empty();
        for line in source.lines() {
            let mark = line.trim();
            if mark == end {
                inside = false;
            }
            if inside && !mark.starts_with("// ANCHOR") {
                text.push_str(line);
                text.push('\n');
            }
            if mark == start {
                inside = true;
            }
        }
    }
    text
}
