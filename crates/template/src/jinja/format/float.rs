//! Floats as Python writes and reads them.
use alloc::format;
use alloc::string::String;

/// Python's `repr(float)`: the shortest digits that read back the same.
pub(crate) fn python_float(number: f64) -> String {
    if let Some(word) = special(number) {
        return word.into();
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = split_exponent(&scientific) else {
        return scientific;
    };
    if !(-4..16).contains(&exponent) {
        return scientific_text(digits, exponent, 'e');
    }
    let plain = format!("{number}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

/// The words for what is not a number.
pub(super) fn special(number: f64) -> Option<&'static str> {
    match number {
        n if n.is_nan() => Some("nan"),
        f64::INFINITY => Some("inf"),
        f64::NEG_INFINITY => Some("-inf"),
        _ => None,
    }
}

/// The digits and the exponent of Rust's `1.5e2`.
pub(super) fn split_exponent(text: &str) -> Option<(&str, i32)> {
    let (digits, exponent) = text.split_once('e')?;
    Some((digits, exponent.parse().ok()?))
}

/// `1.5e+02`, with at least two digits of exponent.
pub(super) fn scientific_text(digits: &str, exponent: i32, e: char) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    let size = exponent.unsigned_abs();
    format!("{digits}{e}{sign}{size:02}")
}

/// Python's `float(text)`.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(crate::jinja::lexer::is_space);
    let digit = |c: char| c.is_ascii_digit();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_word = ["inf", "infinity", "nan"]
        .iter()
        .any(|word| unsigned.eq_ignore_ascii_case(word));
    if !is_word && !unsigned.starts_with(|c| digit(c) || c == '.') {
        return None;
    }
    let mut plain = String::with_capacity(text.len().min(1024));
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        if c == '_' {
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            let between = [before, bytes.get(at + 1)];
            if !between.iter().all(|b| b.is_some_and(u8::is_ascii_digit)) {
                return None;
            }
        } else {
            plain.push(c);
        }
    }
    plain.parse().ok()
}

/// Python's `round(number, digits)`.
pub(crate) fn round_half_even(number: f64, digits: i64) -> f64 {
    if !number.is_finite() || digits > 340 {
        return number;
    }
    if let Ok(digits) = usize::try_from(digits) {
        return format!("{number:.digits$}").parse().unwrap_or(number);
    }
    let Ok(shift) = i32::try_from(-digits) else {
        return 0.0 * number;
    };
    if shift > 308 {
        return 0.0 * number;
    }
    let scale = libm::pow(10.0, f64::from(shift));
    libm::rint(number / scale) * scale
}
