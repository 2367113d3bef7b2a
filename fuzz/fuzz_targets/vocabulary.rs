//! Any bytes as tokenizer.json, as tokenizer.model, and as the configs beside them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_tokenizer::Tokenizer;
use strata_tokenizer::vocabulary::{Files, Vocabulary};
use strata_weights::Gguf;
use strata_weights::gguf::Builder;

fuzz_target!(|bytes: &[u8]| {
    let json = Files {
        tokenizer_json: Some(bytes),
        ..Files::default()
    };
    let model = Files {
        sentencepiece: Some(bytes),
        tokenizer_config: Some(bytes),
        ..Files::default()
    };
    for files in [json, model] {
        let Ok(Some(vocabulary)) = Vocabulary::read(&files) else {
            continue;
        };
        let mut builder = Builder::new();
        vocabulary.write(&mut builder).expect("keys that are set once");
        let header = builder.finish().expect("a header").header;
        let gguf = Gguf::parse(&header).expect("a header that was just written");
        let _ = Tokenizer::from_gguf(gguf.metadata());
    }
});
