//! Splitters over all the names: nothing is lost, nothing is slow, and the pieces of some known texts.

use alloc::string::String;
use alloc::vec::Vec;

use super::{PreTokenizer, split};

fn pieces<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
    let pre = PreTokenizer::by_name(name).expect("a known name");
    let mut ends = Vec::new();
    let mut end = 0;
    split(pre.stages, text, &mut |piece| {
        end += piece.len();
        ends.push((end - piece.len(), end));
    });
    ends.into_iter()
        .map(|(start, end)| &text[start..end])
        .collect()
}

/// A small generator of numbers; the tests are the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }

    fn char(&mut self) -> char {
        let points = match self.below(6) {
            0 => 0x20..0x7f,
            1 => 0x00..0x300,
            2 => 0x300..0x3000,
            3 => 0x3000..0xd800,
            4 => 0x1f000..0x1fb00,
            _ => 0..0x110000,
        };
        let point = points.start + self.below(points.end - points.start);
        char::from_u32(point).unwrap_or('\n')
    }

    fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.below(40) {
            let (c, times) = (self.char(), 1 + self.below(4) * self.below(2));
            text.extend((0..times).map(|_| c));
        }
        text
    }
}

#[test]
fn pieces_concatenate_to_the_text() {
    let mut random = Random(1);
    for _ in 0..2000 {
        let text = random.text();
        for pre in PreTokenizer::all() {
            let mut joined = String::new();
            split(pre.stages, &text, &mut |piece| {
                assert!(!piece.is_empty(), "{} {text:?}", pre.name());
                joined.push_str(piece);
            });
            if pre.name() == "whitespace" {
                assert_eq!(joined, text.split_whitespace().collect::<String>());
            } else {
                assert_eq!(joined, text, "{}", pre.name());
            }
        }
    }
}

#[test]
fn known_texts_split_as_the_patterns_say() {
    for (name, text, expected) in [
        ("gpt-2", "I'll  go\n", &["I", "'ll", " ", " go", "\n"][..]),
        (
            "llama-bpe",
            "12345 it'S\n\n x",
            &["123", "45", " it", "'S", "\n\n", " x"],
        ),
        ("qwen2", "a123!\n\nb", &["a", "1", "2", "3", "!\n\n", "b"]),
        ("gpt-4o", "HTTPServer's ÉCole", &["HTTPServer's", " ÉCole"]),
        (
            "gpt-4o",
            "camelCase ABCひDE",
            &["camel", "Case", " ABCひ", "DE"],
        ),
        ("tekken", "it's/\n/x", &["it", "'s", "/\n/", "x"]),
        (
            "deepseek-v3",
            "x.foo 中文a",
            &["x", ".foo", " ", "中文", "a"],
        ),
        (
            "tiny_aya",
            "1234567 1234x",
            &["1", "234", "567", " ", "123", "4", "x"],
        ),
        (
            "superbpe",
            "a b 1234567.",
            &["a b ", "1", "234", "567", "."],
        ),
        ("jais-2", "       x", &["    ", "  ", " x"]),
        ("gemma4", "a b\n\nc", &["a b", "\n\n", "c"]),
        ("whitespace", " a  b ", &["a", "b"]),
    ] {
        if name == "whitespace" {
            let mut kept = Vec::new();
            let pre = PreTokenizer::by_name(name).expect("a known name");
            split(pre.stages, text, &mut |piece| {
                kept.push(String::from(piece));
            });
            assert_eq!(kept, expected);
        } else {
            assert_eq!(pieces(name, text), expected, "{name}");
        }
    }
}

#[test]
fn names_are_unique_and_unknown_ones_are_not_guessed() {
    let mut names: Vec<_> = PreTokenizer::all().iter().map(PreTokenizer::name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(PreTokenizer::by_name("llama-bpe2").is_none());
    assert!(PreTokenizer::by_name("").is_none());
}
