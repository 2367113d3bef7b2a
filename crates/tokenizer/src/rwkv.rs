//! RWKV's "world" tokenizer: the longest token from the left, over bytes.

use alloc::vec::Vec;

use super::error::TokenizerError;
use super::table::TokenTable;
use super::trie::Trie;
use super::vocab::Vocab;

#[derive(Clone, Debug)]
pub(crate) struct Rwkv {
    trie: Trie,
    unknown: Option<u32>,
}

impl Rwkv {
    pub(crate) fn new(vocab: &Vocab) -> Result<Self, TokenizerError> {
        let tokens: &TokenTable = &vocab.tokens;
        let mut blob = Vec::new();
        let mut ends = Vec::new();
        for id in tokens.ids().filter(|id| tokens.is_spelled(*id)) {
            unescape(tokens.text(id).unwrap_or(""), &mut blob);
            ends.push((blob.len(), id));
        }
        let starts = core::iter::once(0).chain(ends.iter().map(|(end, _)| *end));
        let entries = starts
            .zip(&ends)
            .map(|(start, (end, id))| (blob.get(start..*end).unwrap_or(&[]), *id));
        Ok(Rwkv {
            trie: Trie::new(entries.collect())?,
            unknown: vocab.special.unk,
        })
    }

    pub(crate) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let taken = match self.trie.prefixes(rest).last() {
                Some((len, id)) => {
                    out.push(id);
                    len
                }
                None => {
                    out.extend(self.unknown);
                    1
                }
            };
            rest = rest.get(taken..).unwrap_or(&[]);
        }
    }
}

/// Appends the bytes that an escaped token stands for: `\t`, `\n`, `\r`, `\xHH`, and any other character after `\` as
/// itself. Hexadecimal digits that are none count as zero.
pub(crate) fn unescape(token: &str, out: &mut Vec<u8>) {
    let mut bytes = token.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b't') => out.push(b'\t'),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b'x') => {
                let mut digit = || {
                    bytes
                        .next()
                        .and_then(|b| char::from(b).to_digit(16))
                        .unwrap_or(0) as u8
                };
                let high = digit();
                out.push(high << 4 | digit());
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_bytes() {
        for (token, bytes) in [
            ("a\\tb", &b"a\tb"[..]),
            ("\\n\\r\\\\\\'", b"\n\r\\'"),
            ("\\xff\\x0A", b"\xff\x0a"),
            ("é", "é".as_bytes()),
            ("\\", b""),
            ("\\xg", b"\0"),
        ] {
            let mut out = Vec::new();
            unescape(token, &mut out);
            assert_eq!(out, bytes, "{token}");
        }
    }
}
