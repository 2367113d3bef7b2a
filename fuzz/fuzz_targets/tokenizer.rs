//! Tokenizers: a vocabulary is refused with an error, or it encodes any text, and decodes any ids.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_tokenizer::{DecodeOptions, EncodeOptions, Tokenizer};
use strata_weights::Gguf;

fuzz_target!(|input: (&[u8], &str)| {
    let (bytes, text) = input;
    let Ok(gguf) = Gguf::parse(bytes) else { return };
    let Ok(tokenizer) = Tokenizer::from_gguf(gguf.metadata()) else {
        return;
    };
    for special in [false, true] {
        let options = EncodeOptions {
            add_special: special,
            parse_special: special,
        };
        let ids = tokenizer.encode(text, options);
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
        let options = DecodeOptions {
            show_special: special,
        };
        tokenizer.decode(&ids, options);
        let mut stream = tokenizer.stream(options);
        for &id in &ids {
            stream.push(id);
        }
        stream.finish();
    }
});
