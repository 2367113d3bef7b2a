//! Canonical decomposition (NFD, Unicode Standard Annex #15): characters as letters and marks, the marks in order.

use super::decomposition_table::{CLASSES, PAIRS};
use alloc::vec::Vec;

const BITS: u32 = 21;
const MASK: u64 = (1 << BITS) - 1;

/// Korean syllables are computed: where they begin, their number, and that of vowels times ends, and of ends.
const SYLLABLES: u32 = 0xac00;
const COUNT: u32 = 11_172;
const VOWELS: u32 = 588;
const ENDS: u32 = 28;

/// Gives the parts of all characters, in canonical order.
pub(crate) fn decompose(text: impl Iterator<Item = char>, mut out: impl FnMut(char)) {
    // The marks since the last character that is none.
    let mut marks: Vec<(u64, char)> = Vec::new();
    for c in text {
        parts(c, &mut |part| match class(part) {
            0 => {
                flush(&mut marks, &mut out);
                out(part);
            }
            class => marks.push((class, part)),
        });
    }
    flush(&mut marks, &mut out);
}

/// Marks of the same class keep their order.
fn flush(marks: &mut Vec<(u64, char)>, out: &mut impl FnMut(char)) {
    marks.sort_by_key(|(class, _)| *class);
    marks.drain(..).for_each(|(_, mark)| out(mark));
}

fn parts(c: char, out: &mut impl FnMut(char)) {
    let code = u32::from(c);
    if c.is_ascii() {
        return out(c);
    }
    if let Some(index) = code.checked_sub(SYLLABLES).filter(|index| *index < COUNT) {
        let end = index % ENDS;
        let jamo = [
            0x1100 + index / VOWELS,
            0x1161 + index % VOWELS / ENDS,
            0x11a7 + end,
        ];
        let jamo = &jamo[..if end == 0 { 2 } else { 3 }];
        return jamo
            .iter()
            .copied()
            .filter_map(char::from_u32)
            .for_each(out);
    }
    match PAIRS.binary_search_by_key(&u64::from(code), |pair| pair >> (2 * BITS)) {
        Ok(at) => {
            let field = |shift: u32| char::from_u32((PAIRS[at] >> shift & MASK) as u32);
            // What a character begins with may have parts itself; its mark has none.
            field(BITS).into_iter().for_each(|first| parts(first, out));
            field(0)
                .filter(|mark| *mark != '\0')
                .into_iter()
                .for_each(out);
        }
        Err(_) => out(c),
    }
}

/// The canonical combining class: 0 for all that are no marks, and for some that are.
fn class(c: char) -> u64 {
    let code = u64::from(u32::from(c));
    let after = CLASSES.partition_point(|run| run >> (2 * BITS) <= code);
    match after.checked_sub(1).map(|at| CLASSES[at]) {
        Some(run) if code <= run >> BITS & MASK => run & MASK,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::HashMap;
    use std::format;
    use std::println;
    use std::string::String;
    use unicode_normalization::UnicodeNormalization;
    use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

    fn ours(text: &str) -> String {
        let mut out = String::new();
        decompose(text.chars(), |c| out.push(c));
        out
    }

    #[test]
    fn every_character_has_its_parts() {
        for c in '\0'..=char::MAX {
            let text = String::from(c);
            assert_eq!(ours(&text), text.nfd().collect::<String>(), "{c:?}");
            assert_eq!(class(c), u64::from(canonical_combining_class(c)), "{c:?}");
        }
    }

    #[test]
    fn marks_are_put_in_order() {
        let interesting: Vec<char> = ('\0'..=char::MAX)
            .filter(|c| canonical_combining_class(*c) > 0)
            .chain("aé가각ǖ".chars())
            .collect();
        let mut dice = 7u64;
        for _ in 0..20_000 {
            let text: String = (0..8)
                .map(|_| {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    interesting[(dice >> 33) as usize % interesting.len()]
                })
                .collect();
            assert_eq!(ours(&text), text.nfd().collect::<String>(), "{text:?}");
        }
    }

    /// Prints `decomposition_table.rs`: `cargo test -p strata-tokenizer --lib print_the_table -- --ignored --nocapture`.
    #[test]
    #[ignore = "prints a source file"]
    fn print_the_table() {
        let syllable = |c: char| u32::from(c).wrapping_sub(SYLLABLES) < COUNT;
        let full = |c: char| {
            let mut parts = Vec::new();
            decompose_canonical(c, |part| parts.push(part));
            parts
        };
        let all = ('\0'..=char::MAX).filter(|c| !syllable(*c));
        let all = all
            .map(|c| (c, full(c)))
            .filter(|(c, parts)| parts[..] != [*c]);
        let all: Vec<_> = all.collect();
        let mut names = HashMap::new();
        for (c, parts) in all.iter().filter(|(_, parts)| parts.len() > 1) {
            names.entry(parts.as_slice()).or_insert(*c);
        }
        let pack =
            |a: u32, b: u32, c: u32| (u64::from(a) << BITS | u64::from(b)) << BITS | u64::from(c);
        let pairs = all.iter().map(|(c, parts)| {
            let (first, mark) = match &parts[..] {
                [first] => (*first, '\0'),
                [first, mark] => (*first, *mark),
                [front @ .., mark] => (names[front], *mark),
                [] => unreachable!("every character has parts"),
            };
            pack((*c).into(), first.into(), mark.into())
        });
        let mut runs: Vec<(u32, u32, u32)> = Vec::new();
        for c in '\0'..=char::MAX {
            let (code, class) = (u32::from(c), canonical_combining_class(c).into());
            match runs.last_mut() {
                Some(run) if run.1 + 1 == code && run.2 == class => run.1 = code,
                _ if class > 0 => runs.push((code, code, class)),
                _ => {}
            }
        }
        let classes = runs
            .into_iter()
            .map(|(first, last, class)| pack(first, last, class));
        for (name, list) in [
            ("PAIRS", pairs.collect::<Vec<_>>()),
            ("CLASSES", classes.collect()),
        ] {
            println!("pub(super) static {name}: [u64; {}] = [", list.len());
            for row in list.chunks(6) {
                let row: Vec<_> = row.iter().map(|value| format!("{value:#018x},")).collect();
                println!("    {}", row.join(" "));
            }
            println!("];");
        }
    }
}
