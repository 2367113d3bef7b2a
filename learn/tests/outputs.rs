//! The outputs and pictures that the book shows are those of its programs.
//!
//! `STRATA_RECORD=1 cargo test -p strata-learn outputs` writes them again.

use std::path::Path;

use strata_learn::demos::{NAMES, show};
use strata_learn::gguf::ModelFile;
use strata_learn::pictures::{self, picture};

use crate::{repository, tale};

/// Compares a file of the book with what it should be.
fn compare(path: &Path, made: &str) {
    if std::env::var_os("STRATA_RECORD").is_some() {
        std::fs::write(path, made).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == made, "{} is out of date:\n{made}", path.display());
}

#[test]
fn the_book_shows_what_its_programs_print() {
    let Some(bytes) = tale() else { return };
    let file = ModelFile::parse(&bytes).expect("a valid file");
    for name in NAMES {
        let path = repository().join(format!("learn/book/src/output/{name}.txt"));
        compare(&path, &show(name, &file).expect("an output"));
    }
}

#[test]
fn the_pictures_are_those_of_the_code() {
    let Some(bytes) = tale() else { return };
    let file = ModelFile::parse(&bytes).expect("a valid file");
    for name in pictures::NAMES {
        let path = repository().join(format!("learn/book/src/pictures/{name}.svg"));
        compare(&path, &picture(name, &file).expect("a picture"));
    }
}
