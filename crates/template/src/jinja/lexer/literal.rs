//! Numbers, names and string literals inside tags.
use super::TokenKind;
use alloc::string::String;

/// A number at the start of `text` and its length; the token is absent when it does not fit 64 bits.
pub(super) fn number(text: &str, after_dot: bool) -> Option<(Option<TokenKind>, usize)> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if !after_dot && let Some(len) = float_len(text) {
        let digits: String = text.get(..len)?.chars().filter(|&c| c != '_').collect();
        return Some((digits.parse().ok().map(TokenKind::Float), len));
    }
    let (radix, prefix, len) = integer(text);
    let digits: String = text
        .get(prefix..len)?
        .chars()
        .filter(|&c| c != '_')
        .collect();
    let value = i64::from_str_radix(&digits, radix).ok();
    Some((value.map(TokenKind::Int), len))
}

/// Digits with single underscores between them.
fn digits_len(text: &str, is_digit: fn(u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut len = 0;
    while let Some(&b) = bytes.get(len) {
        let joined = b == b'_' && len > 0 && bytes.get(len + 1).is_some_and(|&b| is_digit(b));
        if !is_digit(b) && !joined {
            break;
        }
        len += 1;
    }
    len
}

fn is_decimal(b: u8) -> bool {
    b.is_ascii_digit()
}

fn float_len(text: &str) -> Option<usize> {
    let mut len = digits_len(text, is_decimal);
    let mut is_float = false;
    let rest = text.get(len..)?;
    if let Some(rest) = rest.strip_prefix('.') {
        let fraction = digits_len(rest, is_decimal);
        if fraction > 0 {
            len += 1 + fraction;
            is_float = true;
        }
    }
    let rest = text.get(len..)?;
    if let Some(rest) = rest.strip_prefix(['e', 'E']) {
        let signed = usize::from(rest.starts_with(['+', '-']));
        let exponent = digits_len(rest.get(signed..)?, is_decimal);
        if exponent > 0 {
            len += 1 + signed + exponent;
            is_float = true;
        }
    }
    is_float.then_some(len)
}

/// The radix, the length of the prefix and the length of an integer.
fn integer(text: &str) -> (u32, usize, usize) {
    let radix = match text.get(..2) {
        Some("0b" | "0B") => Some((2, (|b| matches!(b, b'0' | b'1')) as fn(u8) -> bool)),
        Some("0o" | "0O") => Some((8, (|b| matches!(b, b'0'..=b'7')) as fn(u8) -> bool)),
        Some("0x" | "0X") => Some((16, (|b| b.is_ascii_hexdigit()) as fn(u8) -> bool)),
        _ => None,
    };
    if let Some((radix, is_digit)) = radix {
        let rest = text.get(2..).unwrap_or("");
        let joined = usize::from(rest.starts_with('_'));
        let len = digits_len(rest.get(joined..).unwrap_or(""), is_digit);
        if len > 0 {
            return (radix, 2, 2 + joined + len);
        }
    }
    if text.starts_with('0') {
        return (10, 0, digits_len(text, |b| b == b'0'));
    }
    (10, 0, digits_len(text, is_decimal))
}

/// The length of an identifier at the start of `text`.
pub(super) fn name(text: &str) -> Option<usize> {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    if !text.starts_with(is_part) {
        return None;
    }
    Some(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// The length of a string literal with both its quotes.
pub(super) fn string_len(text: &str) -> Option<usize> {
    let quote = *text.as_bytes().first()?;
    let mut escaped = false;
    for (at, b) in text.bytes().enumerate().skip(1) {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if b == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The text of a literal's body, with Python's escapes; nothing when one stands for no character.
pub(super) fn unescape(body: &str) -> Option<String> {
    let mut text = String::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next()? {
            '\n' => {}
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'a' => text.push('\x07'),
            'b' => text.push('\x08'),
            'f' => text.push('\x0c'),
            'v' => text.push('\x0b'),
            c @ ('\\' | '\'' | '"') => text.push(c),
            'x' => text.push(hex(&mut chars, 2)?),
            'u' => text.push(hex(&mut chars, 4)?),
            'U' => text.push(hex(&mut chars, 8)?),
            'N' => return None,
            c @ '0'..='7' => text.push(octal(&mut chars, c)?),
            // Python turns these into an escaped backslash and the escape's letters.
            c if !c.is_ascii() => {
                let escape = match u32::from(c) {
                    code @ ..0x100 => alloc::format!("\\x{code:02x}"),
                    code @ ..0x1_0000 => alloc::format!("\\u{code:04x}"),
                    code => alloc::format!("\\U{code:08x}"),
                };
                text.push_str(&escape);
            }
            c => {
                text.push('\\');
                text.push(c);
            }
        }
    }
    Some(text)
}

fn hex(chars: &mut core::str::Chars<'_>, digits: usize) -> Option<char> {
    let mut code = 0_u32;
    for _ in 0..digits {
        code = code
            .checked_mul(16)?
            .checked_add(chars.next()?.to_digit(16)?)?;
    }
    char::from_u32(code)
}

fn octal(chars: &mut core::str::Chars<'_>, first: char) -> Option<char> {
    let mut code = first.to_digit(8)?;
    for _ in 0..2 {
        let Some(digit) = chars.clone().next().and_then(|c| c.to_digit(8)) else {
            break;
        };
        chars.next();
        code = code * 8 + digit;
    }
    char::from_u32(code)
}
