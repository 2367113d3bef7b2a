//! The tests of the book's programs.

mod decoder;
mod exercises;
mod gguf;
mod kernels;
mod machine;
mod models;
mod outputs;
mod program;
mod sampling;
mod serving;
mod template;

use std::path::{Path, PathBuf};

/// The repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The built-in model, where it is checked out.
fn tale() -> Option<Vec<u8>> {
    let path = repository().join("models/tale/tale-q4_k_m.gguf");
    let file = std::fs::read(path).ok();
    if file.is_none() {
        eprintln!("skipped: models/tale/tale-q4_k_m.gguf is not there");
    }
    file
}
