//! Vectors of texts, and documents in the order of their scores.

use crate::program::{command, fails, finish, strata};
use serde_json::Value;

/// A tiny random model with the letters as its vocabulary.
fn model(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/golden_states");
    format!("{folder}/{name}.gguf")
}

fn vectors(arguments: &[&str]) -> Vec<Vec<f32>> {
    let text = strata(&[&["embed"], arguments].concat()).text();
    let lines = text.lines();
    lines
        .map(|line| line.split(' ').map(|x| x.parse().unwrap()).collect())
        .collect()
}

const TEXTS: [&str; 4] = ["the cat sat", "on a mat", "x", "and then it slept a while"];

#[test]
fn a_text_has_the_same_vector_alone_and_among_others() {
    for name in [
        "bert",
        "nomic-bert",
        "jina-bert-v2",
        "xlm-roberta",
        "qwen3-last",
    ] {
        let model = model(name);
        let together = vectors(&[&[model.as_str()], &TEXTS[..]].concat());
        assert_eq!(together.len(), TEXTS.len());
        for (text, vector) in TEXTS.iter().zip(&together) {
            assert_eq!(
                vectors(&[&model, text, "--threads", "1"])[0],
                *vector,
                "{name}"
            );
            let length: f32 = vector.iter().map(|x| x * x).sum();
            assert!((length - 1.0).abs() < 1e-5, "{name}: {length}");
        }
        assert!(together.windows(2).all(|pair| pair[0] != pair[1]));
        let mut other = command();
        other.args(["embed", &model, "--batch", "5"]).args(TEXTS);
        other.env("STRATA_ISA", "scalar");
        let plain = finish(other).text();
        let lines: Vec<String> = together
            .iter()
            .map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(plain.lines().collect::<Vec<_>>(), lines, "{name}");
    }
}

#[test]
fn vectors_are_pooled_as_asked() {
    let model = model("bert");
    let rows =
        |pooling: &str| vectors(&[&model, "a cat", "--normalize", "none", "--pooling", pooling]);
    // [CLS] a c a t [SEP]
    let states = rows("none");
    assert_eq!(states.len(), 6);
    assert_eq!(rows("cls"), states[..1]);
    assert_eq!(rows("last"), states[5..]);
    let mean = &rows("mean")[0];
    assert_eq!(*mean, vectors(&[&model, "a cat", "--normalize", "none"])[0]);
    for (column, mean) in mean.iter().enumerate() {
        let sum: f32 = states.iter().map(|state| state[column]).sum();
        assert!((mean - sum / 6.0).abs() < 1e-5);
    }
    let json = strata(&["embed", &model, "a cat", "--pooling", "none", "--json"]).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["texts"][0]["tokens"], 6);
    assert_eq!(json["texts"][0]["embedding"].as_array().unwrap().len(), 6);
}

#[test]
fn texts_are_set_between_the_tokens_that_their_model_wants() {
    for (name, first, last) in [("bert", "[CLS]", "[SEP]"), ("xlm-roberta", "<s>", "</s>")] {
        let listed = strata(&["tokenize", &model(name), "a cat"]).text();
        let mut lines = listed.lines();
        assert!(lines.next().unwrap().contains(first), "{listed}");
        assert!(lines.next_back().unwrap().contains(last), "{listed}");
    }
}

#[test]
fn documents_are_sorted_by_score() {
    let model = model("bert-rank");
    let documents = ["a dog", "the sky", "a cat", "blue"];
    let arguments = [&["rerank", &model, "what is a cat"], &documents[..]].concat();
    let json = strata(&[&arguments[..], &["--json"]].concat()).text();
    let json: Value = serde_json::from_str(&json).unwrap();
    let results = json["results"].as_array().unwrap();
    let order: Vec<usize> = results
        .iter()
        .map(|result| result["index"].as_u64().unwrap() as usize)
        .collect();
    let mut all = order.clone();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    let score = |i: usize| results[i]["score"].as_f64().unwrap();
    assert!((1..4).all(|i| score(i - 1) > score(i)), "{json}");
    let lines = strata(&arguments).text();
    for (line, &index) in lines.lines().zip(&order) {
        assert!(line.ends_with(documents[index]), "{lines}");
    }
    // A document's score does not depend on the others.
    let alone = strata(&[
        "rerank",
        &model,
        "what is a cat",
        documents[order[0]],
        "--json",
    ])
    .text();
    let alone: Value = serde_json::from_str(&alone).unwrap();
    assert_eq!(alone["results"][0]["score"], results[0]["score"]);
}

#[test]
fn what_a_model_cannot_do_is_said() {
    let (bert, labels) = (model("bert"), model("xlm-roberta-rank"));
    fails(
        2,
        &["no classifier", "reranker"],
        &["rerank", &bert, "a", "b"],
    );
    fails(2, &["3 classes"], &["rerank", &labels, "a", "b"]);
    fails(2, &["no classifier"], &["rerank", "tale", "a", "b"]);
    let long = "a ".repeat(81);
    fails(
        2,
        &["text 2", "83 tokens", "80"],
        &["embed", &bert, "a", &long],
    );
    fails(2, &["encoder", "strata embed"], &["run", &bert, "a"]);
    fails(2, &["encoder"], &["logits", &bert, "--text", "a"]);
}
