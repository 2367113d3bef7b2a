//! The vocabularies of llama.cpp's repository with the ids that Hugging Face gave for its test texts.

use std::path::{Path, PathBuf};

use strata_tokenizer::{EncodeOptions, ModelKind, Tokenizer};
use strata_weights::Gguf;

/// The fixture files `*.gguf`; none, with a note, when there are no fixtures.
fn vocabularies() -> Vec<PathBuf> {
    let Some(root) = std::env::var_os("STRATA_FIXTURES") else {
        eprintln!("skipped: STRATA_FIXTURES is not set");
        return Vec::new();
    };
    let folder =
        std::fs::read_dir(Path::new(&root).join("tokenizers")).expect("the fixtures' folder");
    let mut files: Vec<_> = folder
        .map(|entry| entry.expect("a fixture").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "gguf")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no vocabulary among the fixtures");
    files
}

fn load(path: &Path) -> Tokenizer {
    let bytes = std::fs::read(path).expect("a readable vocabulary");
    let gguf = Gguf::parse(&bytes).expect("a good GGUF file");
    Tokenizer::from_gguf(gguf.metadata()).expect("a good vocabulary")
}

/// The texts beside a vocabulary with their ids.
fn cases(path: &Path) -> Vec<(String, Vec<u32>)> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        std::fs::read_to_string(name).expect("a text file beside the vocabulary")
    };
    let (texts, ids) = (beside(".inp"), beside(".out"));
    let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
    let ids: Vec<Vec<u32>> = ids
        .lines()
        .map(|line| {
            line.split_whitespace()
                .map(|id| id.parse().expect("an id"))
                .collect()
        })
        .collect();
    // The texts end with a separator, so the last one is empty and has no ids.
    assert_eq!(texts.len() - 1, ids.len(), "{}", path.display());
    texts.into_iter().map(str::to_owned).zip(ids).collect()
}

#[test]
fn fixtures_encode_to_the_recorded_ids() {
    for path in vocabularies() {
        let tokenizer = load(&path);
        for (text, ids) in cases(&path) {
            let got = tokenizer.encode(&text, EncodeOptions::default());
            assert_eq!(got, ids, "{} {text:?}", path.display());
        }
    }
}

#[test]
fn fixtures_decode_to_their_texts() {
    for path in vocabularies() {
        let tokenizer = load(&path);
        if tokenizer.model_kind() == ModelKind::WordPiece {
            continue;
        }
        for (text, ids) in cases(&path) {
            assert_eq!(
                tokenizer.decode(&ids, Default::default()),
                text,
                "{}",
                path.display()
            );
            let mut stream = tokenizer.stream(Default::default());
            let mut streamed: String = ids.iter().map(|id| stream.push(*id).to_owned()).collect();
            streamed.push_str(stream.finish());
            let space = if tokenizer.model_kind() == ModelKind::Spm && !text.is_empty() {
                " "
            } else {
                ""
            };
            assert_eq!(streamed, format!("{space}{text}"), "{}", path.display());
        }
    }
}
