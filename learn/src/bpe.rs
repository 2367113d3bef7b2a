//! A byte-level BPE tokenizer: learned from a text, and read from a file.

use std::collections::HashMap;

use crate::gguf::{ModelFile, Value};
use crate::text::byte_of;

// ANCHOR: train
/// Learns merges from words: again and again, the pair of neighbours that occurs most often becomes a symbol.
pub fn train(words: &[&str], count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut words: Vec<Vec<Vec<u8>>> = words
        .iter()
        .map(|word| word.bytes().map(|byte| vec![byte]).collect())
        .collect();
    let mut merges = Vec::new();
    while merges.len() < count {
        let mut counts: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
        for word in &words {
            for pair in word.windows(2) {
                *counts.entry((&pair[0], &pair[1])).or_default() += 1;
            }
        }
        // Of equally frequent pairs the smallest, so that the result does not depend on the map's order.
        let best = counts
            .into_iter()
            .max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some(((left, right), _)) = best else {
            break;
        };
        let merge = (left.to_vec(), right.to_vec());
        for word in &mut words {
            merge_pair(word, &merge.0, &merge.1);
        }
        merges.push(merge);
    }
    merges
}

/// Joins every place where `right` follows `left`.
fn merge_pair(symbols: &mut Vec<Vec<u8>>, left: &[u8], right: &[u8]) {
    let mut i = 0;
    while i + 1 < symbols.len() {
        if symbols[i] == left && symbols[i + 1] == right {
            let second = symbols.remove(i + 1);
            symbols[i].extend(second);
        }
        i += 1;
    }
}
// ANCHOR_END: train

// ANCHOR: bpe
/// A vocabulary and the order of its merges.
#[derive(Clone, Debug)]
pub struct Bpe {
    ids: HashMap<Vec<u8>, u32>,
    ranks: HashMap<(Vec<u8>, Vec<u8>), usize>,
}

impl Bpe {
    /// The tokenizer of a file whose vocabulary is spelled in GPT-2's alphabet.
    pub fn from_file(file: &ModelFile<'_>) -> Option<Bpe> {
        let texts = |key: &str| match file.metadata.get(key) {
            Some(Value::List(list)) => Some(list.iter().filter_map(|value| match value {
                Value::Text(text) => Some(*text),
                _ => None,
            })),
            _ => None,
        };
        let bytes = |text: &str| text.chars().filter_map(byte_of).collect::<Vec<u8>>();
        let ids = texts("tokenizer.ggml.tokens")?;
        let merges = texts("tokenizer.ggml.merges")?;
        let merges = merges.filter_map(|merge| merge.split_once(' '));
        Some(Bpe {
            ids: ids.map(bytes).zip(0..).collect(),
            ranks: merges
                .map(|(left, right)| (bytes(left), bytes(right)))
                .zip(0..)
                .collect(),
        })
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let words = split(text);
        words.into_iter().flat_map(|word| self.word(word)).collect()
    }

    /// The tokens of a word: the earliest merge that applies, until none does.
    fn word(&self, word: &str) -> Vec<u32> {
        let mut symbols: Vec<Vec<u8>> = word.bytes().map(|byte| vec![byte]).collect();
        loop {
            let pairs = symbols.windows(2);
            let ranked = pairs.filter_map(|pair| {
                let pair = (pair[0].clone(), pair[1].clone());
                Some((*self.ranks.get(&pair)?, pair))
            });
            let Some((_, (left, right))) = ranked.min_by_key(|ranked| ranked.0) else {
                break;
            };
            merge_pair(&mut symbols, &left, &right);
        }
        let ids = symbols.iter().filter_map(|symbol| self.ids.get(symbol));
        ids.copied().collect()
    }
}
// ANCHOR_END: bpe

// ANCHOR: split
/// Cuts a text into words as GPT-2 does: a space belongs to the word behind it, and letters, digits and other signs do
/// not mix.
pub fn split(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(word_len(rest));
        words.push(word);
        rest = after;
    }
    words
}

/// The length of the first word.
fn word_len(text: &str) -> usize {
    for ending in ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"] {
        if text.starts_with(ending) {
            return ending.len();
        }
    }
    let body = text.strip_prefix(' ').unwrap_or(text);
    let space = text.len() - body.len();
    if let Some(first) = body.chars().next().filter(|c| !c.is_whitespace()) {
        let kind = kind_of(first);
        let end = body.find(|c| kind_of(c) != kind).unwrap_or(body.len());
        return space + end;
    }
    // White space: all of it at the end of the text, otherwise all but the last, which may belong to a word.
    let end = text.find(|c: char| !c.is_whitespace());
    let Some(end) = end else { return text.len() };
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    if end > last { end - last } else { end }
}

/// Letters, digits, space, and the rest.
fn kind_of(c: char) -> u8 {
    match c {
        c if c.is_numeric() => 1,
        c if c.is_alphabetic() => 0,
        c if c.is_whitespace() => 2,
        _ => 3,
    }
}
// ANCHOR_END: split
