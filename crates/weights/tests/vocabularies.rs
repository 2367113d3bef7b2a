//! Published vocabularies (files of metadata alone) read, take almost no memory, and are written the same.

mod content;
mod peak_memory;

use content::rewrite;
use peak_memory::peak_of;
use strata_weights::gguf::{Gguf, ValueType};

#[test]
fn published_vocabularies_read_and_write() {
    let Some(fixtures) = std::env::var_os("STRATA_FIXTURES") else {
        eprintln!("skipped: STRATA_FIXTURES is not set");
        return;
    };
    let folder = std::path::Path::new(&fixtures).join("tokenizers");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).expect("the fixtures") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a fixture");
        let (gguf, peak) = peak_of(|| Gguf::parse(&bytes));
        let gguf = gguf.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(peak < 64 << 10, "{}: took {peak} bytes", path.display());

        let tokens = gguf.metadata().array("tokenizer.ggml.tokens");
        let tokens = tokens.expect("an array").expect("a vocabulary");
        assert_eq!(tokens.element_type(), ValueType::Str);
        assert!(tokens.strs().expect("strings").count() == tokens.len() && tokens.len() > 30_000);

        // Without tensors a file may end before its padding.
        let written = rewrite(&gguf);
        assert_eq!(written[4..8], 3u32.to_le_bytes());
        let (head, padding) = written.split_at(bytes.len());
        assert!(
            head[8..] == bytes[8..],
            "{} is written otherwise",
            path.display()
        );
        assert!(padding.len() < 32 && padding.iter().all(|&byte| byte == 0));
        read += 1;
    }
    assert!(read >= 7, "only {read} vocabularies were found");
}
