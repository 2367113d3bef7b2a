//! Numbers that lie between bounds, and those that do not.

use super::*;
use alloc::string::String;

fn matches(arena: &mut Arena, expr: Expr, text: &str) -> bool {
    let end: Expr = text.bytes().fold(expr, |e, byte| arena.derivative(e, byte));
    arena.is_nullable(end)
}

#[test]
fn integers_lie_between_their_bounds() {
    let bounds = [
        (Some(0), Some(9)),
        (Some(13), Some(170)),
        (Some(199), Some(201)),
        (Some(-72), Some(13)),
        (Some(-30), Some(-7)),
        (None, Some(23)),
        (None, Some(-17)),
        (Some(33), None),
        (Some(-329), None),
        (None, None),
    ];
    for (least, most) in bounds {
        let mut arena = Arena::new();
        let expr = arena.integers(least, most).unwrap();
        for number in -1500i64..1500 {
            let expected = least.is_none_or(|l| l <= number) && most.is_none_or(|m| number <= m);
            let text: String = number.to_string();
            assert_eq!(
                matches(&mut arena, expr, &text),
                expected,
                "{least:?} {most:?} {text}"
            );
        }
    }
}

#[test]
fn decimals_lie_between_their_bounds() {
    for (least, most) in [
        (0.5, 2.25),
        (-1.5, 0.75),
        (0.125, 0.2),
        (3.0, 12.0),
        (-2.5, -0.5),
    ] {
        let mut arena = Arena::new();
        let expr = arena
            .decimals((Some(least), true), (Some(most), true))
            .unwrap();
        for thousandths in -13_000..13_000i64 {
            let value = thousandths as f64 / 1000.0;
            let text = format!("{value}");
            let expected = least <= value && value <= most;
            // Not every way to write a number is taken, but none is that is outside.
            let zero = value == 0.0;
            let taken = matches(&mut arena, expr, &text);
            assert!(zero || expected || !taken, "{least} {most} {text}");
        }
    }
}
