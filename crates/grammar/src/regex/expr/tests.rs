//! Derivatives along texts.

use super::*;

fn matches(arena: &mut Arena, expr: Expr, text: &str) -> bool {
    let end = text.bytes().fold(expr, |e, byte| arena.derivative(e, byte));
    arena.is_nullable(end)
}

#[test]
fn derivatives_follow_a_text() {
    let mut arena = Arena::new();
    let a = arena.literal(b"a");
    let b = arena.literal(b"b");
    let ab = arena.or(vec![a, b]);
    let some = arena.repeat(ab, 2, 3);
    let bb = arena.literal(b"bb");
    let other = arena.not(bb);
    let both = arena.and(vec![some, other]);
    for (text, expected) in [
        ("", false),
        ("a", false),
        ("ab", true),
        ("bb", false),
        ("bba", true),
        ("abab", false),
    ] {
        assert_eq!(matches(&mut arena, both, text), expected, "{text}");
    }
}

#[test]
fn multiples_are_told_from_other_numbers() {
    let mut arena = Arena::new();
    let sevens = arena.multiple(7, 0);
    let quarters = arena.multiple(25, 2);
    for number in 0..500u32 {
        let text = alloc::format!("{number}");
        assert_eq!(matches(&mut arena, sevens, &text), number % 7 == 0);
    }
    for (text, expected) in [
        ("1.25", true),
        ("1.50", true),
        ("1.5", false),
        ("3", true),
        ("1.3", false),
        ("0.10", false),
        ("", false),
    ] {
        assert_eq!(matches(&mut arena, quarters, text), expected, "{text}");
    }
}

#[test]
fn a_long_sequence_takes_no_stack() {
    let mut arena = Arena::new();
    let a = arena.literal(b"a");
    let maybe = arena.repeat(a, 0, 1);
    let parts = vec![maybe; 2000];
    let all = arena.seq_of(&parts);
    assert!(matches(&mut arena, all, "aaa"));
}
