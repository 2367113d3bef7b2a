//! The book's GGUF reader against the product's, and on damaged files.

use strata_learn::blocks::values;
use strata_learn::gguf::ModelFile;
use strata_quant::dequantize;
use strata_weights::Gguf;

use crate::{repository, tale};

#[test]
fn reads_what_the_product_reads() {
    let Some(bytes) = tale() else { return };
    let (ours, theirs) = (
        ModelFile::parse(&bytes).expect("a valid file"),
        Gguf::parse(&bytes).expect("a valid file"),
    );
    assert_eq!(ours.tensors.len(), theirs.tensors().len());
    for theirs in theirs.tensors() {
        let ours = &ours.tensors[theirs.name];
        assert_eq!(ours.dims, theirs.dims.to_vec(), "{}", theirs.name);
        assert_eq!(ours.kind, theirs.ty.id());
        assert_eq!(ours.data, theirs.data);
        let numbers = values(ours).expect("a kind that the book reads");
        let mut expected = vec![0.0; numbers.len()];
        dequantize(theirs.ty, theirs.data, &mut expected).expect("whole blocks");
        assert!(numbers == expected, "{}", theirs.name);
    }
    let metadata = theirs.metadata();
    let layers = metadata.u32("llama.block_count").expect("a number");
    assert_eq!(ours.number("llama.block_count"), layers.map(f64::from));
}

#[test]
fn damaged_files_are_errors() {
    let path = repository().join("crates/model/tests/golden/llama.gguf");
    let file = std::fs::read(path).expect("the golden file is there");
    ModelFile::parse(&file).expect("a valid file");
    for len in 0..file.len().min(20_000) {
        assert!(ModelFile::parse(&file[..len]).is_err(), "{len} bytes");
    }
    let mut other = file.clone();
    other[0] = b'g';
    let error = ModelFile::parse(&other).expect_err("a refusal").to_string();
    assert_eq!(error, "byte 0: no GGUF file");
    // A byte at a time: it may be read as something else, but nothing panics.
    for at in 0..2000.min(file.len()) {
        let mut other = file.clone();
        other[at] ^= 0xff;
        _ = ModelFile::parse(&other);
    }
}
