//! Stop strings over texts cut into pieces in every way.

use super::*;
use crate::random::{Random, Stream};
use alloc::vec::Vec;
use std::string::ToString;

/// What a caller would show, and which stop string ended it.
fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<usize>) {
    let mut matcher = StopMatcher::new(stops);
    let mut shown = String::new();
    for piece in pieces {
        shown.push_str(matcher.push(piece).text);
    }
    let stopped = matcher.stopped();
    shown.push_str(matcher.finish());
    (shown, stopped)
}

/// The same by trying every prefix of the text, shortest first.
fn oracle(stops: &[&str], text: &str) -> (String, Option<usize>) {
    for end in 1..=text.len() {
        let ended = stops
            .iter()
            .enumerate()
            .filter(|(_, stop)| {
                !stop.is_empty() && text.as_bytes()[..end].ends_with(stop.as_bytes())
            })
            .max_by_key(|(index, stop)| (stop.len(), usize::MAX - index));
        if let Some((index, stop)) = ended {
            return (text[..end - stop.len()].to_string(), Some(index));
        }
    }
    (text.to_string(), None)
}

#[test]
fn a_stop_string_across_pieces_is_never_shown() {
    let mut matcher = StopMatcher::new(&["</end>"]);
    assert_eq!(matcher.push("Hello <").text, "Hello ");
    assert_eq!(matcher.push("/").text, "");
    assert_eq!(matcher.held(), "</");
    let last = matcher.push("end> and more");
    assert_eq!((last.text, last.stopped), ("", Some(0)));
    assert_eq!(matcher.push("even more").text, "");
    assert_eq!(matcher.finish(), "");
}

#[test]
fn what_only_looked_like_a_stop_comes_out() {
    let mut matcher = StopMatcher::new(&["aab"]);
    assert_eq!(matcher.push("xaa").text, "x");
    assert_eq!(matcher.push("a").text, "a");
    assert_eq!(matcher.push("c").text, "aac");
    assert_eq!(matcher.push("aa").text, "");
    assert_eq!(matcher.finish(), "aa");
    assert_eq!(matcher.push("aab").stopped, Some(0));
}

#[test]
fn the_first_completed_wins_and_then_the_longest() {
    assert_eq!(run(&["bc", "abcd"], &["xabcd"]), ("xa".into(), Some(0)));
    assert_eq!(
        run(&["c", "abc", "bc"], &["xa", "bcd"]),
        ("x".into(), Some(1))
    );
    assert_eq!(run(&["end", "end"], &["the end"]), ("the ".into(), Some(0)));
    // The longer one fails in its last byte, after the shorter one inside it was passed over.
    assert_eq!(run(&["abcx", "bcd"], &["abcd"]), ("a".into(), Some(1)));
}

#[test]
fn empty_lists_and_empty_strings_stop_nothing() {
    assert_eq!(run(&[], &["a", "", "b"]), ("ab".into(), None));
    assert_eq!(run(&["", "z"], &["ab", "yz"]), ("aby".into(), Some(1)));
    assert_eq!(run(&["a"], &[""]), (String::new(), None));
}

#[test]
fn characters_of_several_bytes_stay_whole() {
    // é and è share their first byte; so do the two emoji their first three.
    assert_eq!(
        run(&["é!"], &["cafè", "é", "é", "!"]),
        ("cafèé".into(), Some(0))
    );
    assert_eq!(
        run(&["😀😁"], &["😀", "😂", "😀", "😁"]),
        ("😀😂".into(), Some(0))
    );
}

#[test]
fn random_texts_in_random_pieces_match_the_oracle() {
    let mut random = Random::new(1, Stream::Token);
    let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
    let letters = ["a", "b", "é", "è", "😀"];
    for round in 0..20_000 {
        let mut word = |min: usize, max: usize| -> String {
            (0..min + below(max - min + 1))
                .map(|_| letters[below(2 + round % 4)])
                .collect()
        };
        let stops: Vec<String> = (0..round % 5).map(|_| word(1, 5)).collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let text = word(0, 30);
        let (expected, stop) = oracle(&stops, &text);

        let mut matcher = StopMatcher::new(&stops);
        let mut shown = String::new();
        let mut rest = text.as_str();
        while !rest.is_empty() && matcher.stopped().is_none() {
            let mut cut = 1 + below(rest.len());
            while !rest.is_char_boundary(cut) {
                cut += 1;
            }
            shown.push_str(matcher.push(&rest[..cut]).text);
            assert!(
                expected.starts_with(&shown),
                "{stops:?} {text} showed {shown}"
            );
            rest = &rest[cut..];
        }
        assert_eq!(matcher.stopped(), stop, "{stops:?} {text}");
        shown.push_str(matcher.finish());
        assert_eq!(shown, expected, "{stops:?} {text}");
    }
}

#[test]
fn no_more_is_held_back_than_needed() {
    let mut random = Random::new(2, Stream::Token);
    let stops = ["abab", "baa"];
    let mut matcher = StopMatcher::new(&stops);
    let mut text = String::new();
    for _ in 0..10_000 {
        let letter = if random.next_u64().is_multiple_of(3) {
            "a"
        } else {
            "b"
        };
        text.push_str(letter);
        if matcher.push(letter).stopped.is_some() {
            matcher.finish();
            text.clear();
            continue;
        }
        let longest = (0..4).rev().find(|&n| {
            text.len() >= n && stops.iter().any(|s| s.starts_with(&text[text.len() - n..]))
        });
        assert_eq!(Some(matcher.held().len()), longest);
    }
}

/// Naive matching would compare 10¹⁰ times.
#[test]
fn repetitive_text_takes_linear_time() {
    let stop = "a".repeat(100_000) + "b";
    let mut matcher = StopMatcher::new(&[stop]);
    for _ in 0..400 {
        matcher.push(&"a".repeat(1000));
    }
    assert_eq!(matcher.push("c").text.len(), 100_001);
}
