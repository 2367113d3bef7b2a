//! Embeddings and rankings.

use crate::support::{open, tale};
use std::path::{Path, PathBuf};
use strata::chat_types::Embed;
use strata::{ErrorKind, Options, PromptPart};

fn golden_states(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden_states");
    tests.join(name)
}

#[test]
fn texts_become_vectors_of_length_one_whatever_stands_beside_them() {
    let texts = ["a fox", "an owl in a tree", "the sea"];
    let together = tale().embed(texts).unwrap();
    for (text, vector) in texts.into_iter().zip(&together) {
        assert_eq!(vector.len(), tale().facts().embedding);
        let length: f32 = vector.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
        assert_eq!(&tale().embed([text]).unwrap()[0], vector);
    }
    assert_ne!(together[0], together[1]);
}

#[test]
fn a_request_says_how_much_of_a_vector_it_wants() {
    let request = Embed {
        model: String::new(),
        inputs: vec![vec![PromptPart::Text("a fox".into())]],
        dimensions: Some(16),
        pooling: None,
        normalize: true,
        truncate: false,
        keep_alive: None,
        context: None,
    };
    let embeddings = tale().embed_request(&request).unwrap();
    assert_eq!(embeddings.rows[0][0].len(), 16);
    assert_eq!(embeddings.tokens, tale().tokenize("a fox").len());
    let more = Embed {
        dimensions: Some(1 << 20),
        ..request
    };
    assert_eq!(
        tale().embed_request(&more).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn only_a_classifier_ranks() {
    let documents = ["a fox", "an owl"];
    let refused = tale().rerank("which animal?", documents).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let ranker = open(golden_states("bert-rank.gguf"), Options::default()).unwrap();
    let scores = ranker.rerank("which animal?", documents).unwrap();
    assert_eq!(scores.len(), 2);
    assert!(scores.iter().all(|score| score.is_finite()));
    // It reads texts and writes none.
    let refused = ranker.complete("a").text().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(ranker.embed(["a"]).unwrap().len(), 1);
}
