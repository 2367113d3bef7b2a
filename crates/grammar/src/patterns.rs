//! Bounds of regular expressions, which are found before anything is made of them.

use crate::error::CompileError;
use crate::limits::Limits;
use alloc::string::ToString;
use alloc::vec;

/// Where a regular expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regexes {
    /// In a schema: it is looked for in the text.
    Schema,
    /// By itself or in a grammar: it matches all of the text.
    Whole,
}

/// Bounds the nesting and the repetitions of a regular expression.
pub fn check_regex(
    regex: &str,
    place: &str,
    limits: &Limits,
    kind: Regexes,
) -> Result<(), CompileError> {
    let mut class = false;
    // For each open group, how often what is in it repeats; and how often what came last does.
    let mut groups = vec![1u64];
    let mut last = 1;
    let mut chars = regex.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                last = 1;
            }
            '[' => class = true,
            ']' => class = false,
            _ if class => last = 1,
            '(' => groups.push(1),
            ')' if groups.len() > 1 => last = groups.pop().unwrap_or(1),
            '{' => {
                let rest = regex.get(at + 1..).unwrap_or_default();
                let is_count = |c: char| c.is_ascii_digit() || matches!(c, ',' | ' ');
                let end = rest.find(|c| !is_count(c)).unwrap_or(rest.len());
                last = check_repeats(&rest[..end], last, place, limits)?;
            }
            '}' | '*' | '+' | '?' => {}
            c if c.is_ascii_digit() || c == ',' => {}
            _ => last = 1,
        }
        if let Some(group) = groups.last_mut() {
            *group = last.max(*group);
        }
        if groups.len() > limits.depth + 1 {
            return Err(CompileError::TooDeep {
                place: place.to_string(),
                limit: limits.depth,
            });
        }
    }
    let longest = match kind {
        Regexes::Schema => limits.source / 4,
        Regexes::Whole => limits.source,
    };
    if regex.len() > longest {
        Err(CompileError::TooLong {
            bytes: regex.len(),
            limit: longest,
        })
    } else {
        Ok(())
    }
}

/// How often something repeats with these counts on top of its own.
pub fn check_repeats(
    counts: &str,
    inner: u64,
    place: &str,
    limits: &Limits,
) -> Result<u64, CompileError> {
    let counts = counts.split(|c: char| !c.is_ascii_digit());
    let counts = counts.filter(|count| !count.is_empty());
    let most = counts.map(|count| count.parse().unwrap_or(u64::MAX)).max();
    let count = inner.saturating_mul(most.unwrap_or(1).max(1));
    if count > limits.repeats {
        Err(CompileError::TooManyRepeats {
            place: place.to_string(),
            count,
            limit: limits.repeats,
        })
    } else {
        Ok(count)
    }
}

/// The whole text: anchors at the ends say nothing more, and the library knows none.
pub fn without_anchors(regex: &str) -> &str {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    let Some(rest) = regex.strip_suffix('$') else {
        return regex;
    };
    let escapes = rest.len() - rest.trim_end_matches('\\').len();
    // In `a|b$` the anchor belongs to one branch; that is for the library to refuse.
    if escapes % 2 == 0 && !rest.contains('|') {
        rest
    } else {
        regex
    }
}

/// The line and the column of a byte, from 1.
pub fn position(source: &str, at: usize) -> (usize, usize) {
    let before = source.get(..at).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
