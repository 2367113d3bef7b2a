//! Lines of Rust that are compiled in: no comments, no blank lines, nothing behind a `cfg` that is off.

use std::collections::HashSet;
use std::ops::Range;

/// How many lines of a file are code, with these features on.
pub(super) fn lines(text: &str, features: &HashSet<String>) -> usize {
    let tokens = tokens(text);
    let cuts = cuts(text, &tokens, features);
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .collect();
    let mut seen = HashSet::new();
    for token in &tokens {
        if cuts.iter().any(|cut| cut.contains(&token.start)) {
            continue;
        }
        let first = starts.partition_point(|start| *start <= token.start);
        let last = starts.partition_point(|start| *start < token.end);
        let filled = |line: &usize| {
            let end = starts.get(*line).copied().unwrap_or(text.len());
            !text[starts[line - 1]..end].trim().is_empty()
        };
        seen.extend((first..=last).filter(filled));
    }
    seen.len()
}

/// Words, literals and single characters, without comments.
fn tokens(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let len = match bytes[at] {
            b'/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("/*") => {
                at += block_comment(rest);
                continue;
            }
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'"' => string(rest),
            b'\'' => quote(rest),
            byte if word(byte) => literal_or_word(rest),
            _ => 1,
        };
        found.push(at..at + len);
        at += len;
    }
    found
}

fn word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// The length of a comment that may have others in it.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a text in quotes.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character, or of the mark of a lifetime.
fn quote(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            let end = characters.skip(1).find(|(_, c)| *c == '\'');
            end.map_or(text.len(), |(at, _)| at + 1)
        }
        Some(_) => match characters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// The length of a word, or of the text that `r`, `b`, `c` and their like stand before.
fn literal_or_word(text: &str) -> usize {
    let bytes = text.as_bytes();
    let len = bytes.iter().take_while(|byte| word(**byte)).count();
    let raw = matches!(&text[..len], "r" | "br" | "cr");
    let hashes = bytes[len..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    if raw && bytes.get(len + hashes) == Some(&b'"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let from = len + hashes + 1;
        let found = text[from..].find(&end);
        return found.map_or(text.len(), |at| from + at + end.len());
    }
    match (&text[..len], bytes.get(len)) {
        ("b" | "c", Some(b'"')) => len + string(&text[len..]),
        ("b", Some(b'\'')) => len + quote(&text[len..]),
        _ => len,
    }
}

/// What is left out: everything that an attribute turns off.
fn cuts(text: &str, tokens: &[Range<usize>], features: &HashSet<String>) -> Vec<Range<usize>> {
    let at = |index: usize| tokens.get(index).map_or("", |token| &text[token.clone()]);
    let mut cuts = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let inner = at(index + 1) == "!";
        let open = index + 1 + usize::from(inner);
        if at(index) != "#" || at(open) != "[" {
            index += 1;
            continue;
        }
        let close = closing(tokens, text, open);
        let off = at(open + 1) == "cfg" && {
            let condition = &text[tokens[open + 2].start..tokens[close].start];
            evaluate(condition.trim(), features) == Some(false)
        };
        if !off {
            index = close + 1;
            continue;
        }
        if inner {
            return std::iter::once(0..text.len()).collect();
        }
        let end = item_end(tokens, text, close + 1);
        cuts.push(tokens[index].start..tokens[end.min(tokens.len() - 1)].end);
        index = end + 1;
    }
    cuts
}

/// The token that closes what the one at `open` opens.
fn closing(tokens: &[Range<usize>], text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match &text[token.clone()] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len() - 1
}

/// The last token of the item, field or statement that begins at `index`.
fn item_end(tokens: &[Range<usize>], text: &str, mut index: usize) -> usize {
    let (mut item, mut statement) = (false, false);
    while let Some(token) = tokens.get(index) {
        match &text[token.clone()] {
            "(" | "[" => index = closing(tokens, text, index),
            "{" if statement => index = closing(tokens, text, index),
            "{" => return closing(tokens, text, index),
            ";" => return index,
            "," if !item => return index,
            ")" | "]" | "}" => return index.saturating_sub(1),
            "use" | "let" | "static" | "type" if !item => (item, statement) = (true, true),
            "fn" | "struct" | "enum" | "impl" | "trait" | "mod" | "const" => item = true,
            _ => {}
        }
        index += 1;
    }
    tokens.len().saturating_sub(1)
}

/// Whether a condition holds, if that is known.
fn evaluate(condition: &str, features: &HashSet<String>) -> Option<bool> {
    let condition = condition.trim().trim_end_matches(',').trim();
    if let Some((name, rest)) = condition.split_once('(') {
        let inside = rest.trim_end().strip_suffix(')')?;
        let parts = || {
            parts(inside)
                .into_iter()
                .map(|part| evaluate(part, features))
        };
        return match name.trim() {
            // The attribute's own brackets.
            "" => evaluate(inside, features),
            "not" => parts().next()?.map(|value| !value),
            "all" if parts().any(|value| value == Some(false)) => Some(false),
            "all" => parts().all(|value| value == Some(true)).then_some(true),
            "any" if parts().any(|value| value == Some(true)) => Some(true),
            "any" => parts().all(|value| value == Some(false)).then_some(false),
            _ => None,
        };
    }
    if let Some((key, value)) = condition.split_once('=') {
        let value = value.trim().trim_matches('"');
        return match key.trim() {
            "feature" => Some(features.contains(value)),
            "target_arch" => Some(value == "x86_64"),
            "target_os" => Some(value == "linux"),
            "target_endian" => Some(value == "little"),
            "target_pointer_width" => Some(value == "64"),
            _ => None,
        };
    }
    match condition {
        "test" | "doc" | "docsrs" | "miri" | "loom" | "fuzzing" | "kani" | "debug_assertions"
        | "windows" => Some(false),
        "unix" => Some(true),
        _ => None,
    }
}

/// Splits at the commas that are not inside of brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let split = text.split(move |c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    split.filter(|part| !part.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        lines(text, &HashSet::from(["on".to_owned()]))
    }

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let text =
            "//! what\n\nfn a() { // why\n    /* x /* y */\n z */ b('\"', '\\'', \"// no\")\n}\n";
        assert_eq!(count(text), 3);
        assert_eq!(
            count("let a = r#\"one // \"\n\n three\"#;\nlet b: &'static str;"),
            3
        );
        assert_eq!(count("let a = b\"\\\"/*\"; // */\nlet b = 'x';"), 2);
    }

    #[test]
    fn what_is_off_does_not_count() {
        let tests = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(count(tests), 2);
        assert_eq!(count("#[cfg(feature = \"on\")]\nfn a() {}\n"), 2);
        assert_eq!(
            count("#[cfg(not(feature = \"on\"))]\n#[inline]\nfn a<A, B>() {\n}\n"),
            0
        );
        assert_eq!(
            count("#[cfg(all(feature = \"off\", unknown))]\nuse a::{b, c};\nuse d;\n"),
            1
        );
        assert_eq!(
            count("#[cfg(any(feature = \"off\", unknown))]\nuse a;\n"),
            2
        );
        assert_eq!(
            count("enum A {\n#[cfg(feature = \"off\")]\nB(u8),\nC,\n}\n"),
            3
        );
        assert_eq!(count("#![cfg(windows)]\nfn a() {}\n"), 0);
        assert_eq!(count("f(#[cfg(test)] a)\n"), 1);
    }

    #[test]
    fn odd_text_is_survived() {
        for text in [
            "\"",
            "'",
            "r#\"",
            "/*",
            "#[",
            "#[cfg(",
            "#[cfg(test)]",
            "}",
            "#![cfg(test)]",
        ] {
            count(text);
        }
    }
}
