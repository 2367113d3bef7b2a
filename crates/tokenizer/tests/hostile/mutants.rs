//! Vocabularies with random damage.

use super::*;

/// A small generator of numbers; the mutants are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }

    /// A text as it was, or another one of the vocabulary, or something odd.
    fn text(&mut self, texts: &[&str], at: usize) -> String {
        match self.below(200) {
            0 => String::new(),
            1 => "\u{301}▁ \\x\\".into(),
            2 => texts[at].repeat(self.below(50)),
            3 => texts[self.below(texts.len())].into(),
            4 => format!("<0x{:02X}>", self.below(256)),
            5 => ["<|im_end|>", "</s>", "<|end|>", "<|call|>", "<|return|>"][self.below(5)].into(),
            _ => texts[at].into(),
        }
    }

    fn number(&mut self) -> i32 {
        [0, 1, 2, 3, 4, 5, 6, -1, i32::MAX, i32::MIN][self.below(10)]
    }

    /// The value or a changed one, under the same key.
    fn put(&mut self, builder: &mut Builder, key: &str, value: Value<'_>) {
        let changed = match (value, self.below(8)) {
            (_, 0) => Ok(&mut *builder),
            (Value::Array(array), _) if array.strs().is_some() => {
                let texts: Vec<&str> = array.strs().expect("strings").collect();
                let kept = texts.len()
                    - if self.below(4) == 0 {
                        self.below(texts.len())
                    } else {
                        0
                    };
                builder.set_array(key, (0..kept).map(|at| self.text(&texts, at)))
            }
            (Value::Array(array), 1) if array.f32s().is_some() => {
                let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e30];
                builder.set_array(
                    key,
                    array
                        .f32s()
                        .expect("floats")
                        .map(|score| match self.below(9) {
                            0 => odd[self.below(odd.len())],
                            _ => score,
                        }),
                )
            }
            (Value::Array(array), 1..4) if array.i32s().is_some() => builder.set_array(
                key,
                array
                    .i32s()
                    .expect("integers")
                    .map(|kind| match self.below(9) {
                        0 => self.number(),
                        _ => kind,
                    }),
            ),
            (Value::Array(array), 1..6) if array.u8s().is_some() => builder.set_array(
                key,
                array
                    .u8s()
                    .expect("bytes")
                    .map(|byte| match self.below(50) {
                        0 => self.below(256) as u8,
                        _ => byte,
                    }),
            ),
            (Value::U32(_), 1..4) => builder.set(key, self.number() as u32),
            (Value::Bool(flag), 1..4) => builder.set(key, !flag),
            (Value::Str(_), 1) => builder.set(key, PreTokenizer::all()[self.below(80)].name()),
            (Value::Str(_), 2) => builder.set(
                key,
                ["llama", "gpt2", "bert", "t5", "rwkv", "gemma4"][self.below(6)],
            ),
            _ => builder.set_value(key, value),
        };
        changed.expect("a key of the original");
    }
}

/// The metadata of good files changed key by key: each mutant loads or is refused, and works if it loads.
#[test]
fn mutated_vocabularies_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut random = Random(7);
    let (mut refused, mut loaded) = (0, 0);
    for name in [
        "bytes",
        "gemma",
        "spm_bare",
        "unigram",
        "unigram_bytes",
        "wordpiece",
        "rwkv",
    ] {
        let original =
            std::fs::read(folder.join(format!("{name}.gguf"))).expect("a committed vocabulary");
        let original = Gguf::parse(&original).expect("a good GGUF file");
        for _ in 0..100 {
            let mutant = file(|builder| {
                for (key, value) in original.metadata().iter() {
                    random.put(builder, key, value);
                }
            });
            match load(&mutant) {
                Ok(tokenizer) => {
                    loaded += 1;
                    exercise(&tokenizer);
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().len() > 10);
                }
            }
        }
    }
    assert!(
        loaded > 100 && refused > 100,
        "{loaded} loaded, {refused} refused"
    );
}

#[test]
fn merges_by_id_may_name_no_tokens() {
    let mut tokens = TokenTable::default();
    for text in ["a", "b"] {
        tokens.push(text, TokenKind::Normal, 0.0).expect("room");
    }
    let mut vocab = Vocab::new(ModelKind::Bpe, tokens);
    vocab.pre = PreTokenizer::by_name("gpt-2").expect("a known name");
    vocab.merges.push(strata_tokenizer::Merge {
        left: 0,
        right: 1,
        joined: 77,
    });
    vocab.merges.push(strata_tokenizer::Merge {
        left: u32::MAX,
        right: u32::MAX,
        joined: 0,
    });
    let tokenizer = Tokenizer::from_vocab(vocab).expect("a tokenizer");
    let ids = tokenizer.encode("ab cc", EncodeOptions::default());
    assert_eq!(ids, [0, 1]);
}
