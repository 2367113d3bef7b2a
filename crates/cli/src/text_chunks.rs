//! A text's tokens in chunks of a context's size, as llama.cpp cuts them to measure on.
//!
//! What is left over is dropped. Each chunk is a sequence of its own that begins with BOS where the model wants one, in
//! the place of its first token.

use crate::failure::{Failure, Kind};
use std::path::Path;
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// The chunks of a text.
pub(crate) struct TextChunks {
    tokens: Vec<u32>,
    size: usize,
    count: usize,
}

impl TextChunks {
    /// Reads a text, which must have so many chunks at least; those beyond the most are dropped.
    pub(crate) fn read(
        path: &Path,
        tokenizer: &Tokenizer,
        size: usize,
        (least, most): (usize, usize),
    ) -> Result<Self, Failure> {
        let text =
            std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))?;
        let options = EncodeOptions {
            add_special: true,
            parse_special: false,
        };
        let mut tokens = tokenizer.encode(&text, options);
        let count = (tokens.len() / size).min(most);
        if count < least {
            let needed = match least {
                1 => format!("a chunk needs {size}"),
                _ => format!("{least} chunks of {size} are needed"),
            };
            let (path, count) = (path.display(), tokens.len());
            let sentence = format_args!("{path} has {count} tokens, and {needed}");
            return Err(
                Failure::new(Kind::Usage, sentence).hint("use a longer text or a smaller --ctx")
            );
        }
        if let Some(bos) = tokenizer.special().bos.filter(|_| tokenizer.added().bos) {
            for chunk in tokens.chunks_exact_mut(size) {
                chunk[0] = bos;
            }
        }
        Ok(Self {
            tokens,
            size,
            count,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.tokens.chunks_exact(self.size).take(self.count)
    }
}
