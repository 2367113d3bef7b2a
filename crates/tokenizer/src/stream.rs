//! Turning tokens into text as they come, in whole characters.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Deref;

use super::{DecodeOptions, Tokenizer};

/// Puts bytes together to characters: what is complete comes out, what is not waits. Bytes that can no longer become a
/// character come out as U+FFFD, as the standard library's lossy conversion has it.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// At most three bytes: the beginning of a character.
    pending: Vec<u8>,
    out: String,
}

impl Utf8Stream {
    /// Takes bytes and gives the text they complete.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.pending.extend_from_slice(bytes);
        self.complete()
    }

    /// Gives what the bytes complete that have come.
    fn complete(&mut self) -> &str {
        self.out.clear();
        let mut used = 0;
        for chunk in self.pending.utf8_chunks() {
            self.out.push_str(chunk.valid());
            used += chunk.valid().len();
            let invalid = chunk.invalid();
            let last = used + invalid.len() == self.pending.len();
            if invalid.is_empty() || (last && may_continue(invalid)) {
                break;
            }
            self.out.push(char::REPLACEMENT_CHARACTER);
            used += invalid.len();
        }
        self.pending.drain(..used);
        &self.out
    }

    /// The stream is over: gives U+FFFD if it ends inside a character, else nothing.
    pub fn finish(&mut self) -> &str {
        self.out.clear();
        if !self.pending.is_empty() {
            self.pending.clear();
            self.out.push(char::REPLACEMENT_CHARACTER);
        }
        &self.out
    }
}

/// Whether these bytes are the beginning of a character.
fn may_continue(bytes: &[u8]) -> bool {
    core::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Bytes that hardly any token has more of.
const LONG: usize = 64;

/// Decodes tokens one at a time, with a borrowed tokenizer or a shared one.
///
/// Unlike [`Tokenizer::decode`] it keeps the space that a SentencePiece vocabulary puts in front: in the middle of a text,
/// where answers begin, it belongs there.
#[derive(Clone, Debug)]
pub struct StreamDecoder<T> {
    tokenizer: T,
    options: DecodeOptions,
    /// Control tokens that are shown all the same.
    spelled: Vec<u32>,
    stream: Utf8Stream,
}

impl<T: Deref<Target = Tokenizer>> StreamDecoder<T> {
    /// A decoder at the beginning of a stream.
    pub fn new(tokenizer: T, options: DecodeOptions) -> Self {
        StreamDecoder {
            tokenizer,
            options,
            spelled: Vec::new(),
            stream: Utf8Stream {
                pending: Vec::with_capacity(LONG),
                out: String::with_capacity(LONG),
            },
        }
    }

    /// Shows these control tokens too, for a reader who looks for them.
    #[must_use]
    pub fn spelling(mut self, tokens: &[u32]) -> Self {
        self.spelled = tokens.to_vec();
        self
    }

    /// Takes a token and gives the text it completes: whole characters only, perhaps none.
    pub fn push(&mut self, id: u32) -> &str {
        let shown = self.tokenizer.is_shown(id, self.options) || self.spelled.contains(&id);
        if shown {
            self.tokenizer.append_bytes(id, &mut self.stream.pending);
        }
        self.stream.complete()
    }

    /// The stream is over: gives U+FFFD if it ends inside a character, else nothing.
    pub fn finish(&mut self) -> &str {
        self.stream.finish()
    }

    /// Forgets the beginning of a character whose rest will not come.
    pub fn drop_incomplete(&mut self) {
        self.stream.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_of_any_bytes_gives_the_lossy_text() {
        let samples: [&[u8]; 6] = [
            "añ漢🦙".as_bytes(),
            b"\xf0\x9f\xa6",
            b"\xf0\x9fA\xff\xfe",
            b"\xe2\x82\xe2\x82\xac",
            b"\xed\xa0\x80x\xc0\x80",
            b"\xf4\x90\x80\x80",
        ];
        for bytes in samples {
            for step in 1..=bytes.len() {
                let mut stream = Utf8Stream::default();
                let mut text = String::new();
                for chunk in bytes.chunks(step) {
                    text.push_str(stream.push(chunk));
                    assert!(stream.pending.len() < 4);
                }
                text.push_str(stream.finish());
                assert_eq!(text, String::from_utf8_lossy(bytes), "{bytes:x?} by {step}");
            }
        }
    }

    #[test]
    fn a_character_comes_out_with_its_last_byte() {
        let mut stream = Utf8Stream::default();
        let emitted: Vec<String> = "🦙".bytes().map(|b| stream.push(&[b]).into()).collect();
        assert_eq!(emitted, ["", "", "", "🦙"]);
        assert_eq!(stream.finish(), "");
    }
}
