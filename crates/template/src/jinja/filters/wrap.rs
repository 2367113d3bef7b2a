//! The filter `wordwrap`: Python's `textwrap.wrap` for each line, with breaks at spaces and after hyphens.
use crate::jinja::arguments::{Arguments, flag, int, text};
use crate::jinja::error::{Fault, Run, bad_value, not};
use crate::jinja::eval::Interp;
use crate::jinja::lexer::is_space;
use crate::jinja::limits::Buffer;
use crate::jinja::methods::text::split_lines;
use crate::jinja::value::{Str, Value};
use alloc::vec::Vec;

pub(super) fn apply(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let names = [
        "width",
        "break_long_words",
        "wrapstring",
        "break_on_hyphens",
    ];
    let [width, long, separator, hyphens] = args.bind("wordwrap", names)?;
    let width = int(width, "wordwrap")?.unwrap_or(79);
    let Ok(width @ 1..) = usize::try_from(width) else {
        return bad_value("wordwrap", "the width must be positive");
    };
    let wrap = Wrap {
        width,
        break_long: flag(long, true),
        hyphens: flag(hyphens, true),
        separator: text(separator, "wordwrap")?.unwrap_or_else(|| "\n".into()),
    };
    let Value::Str(of) = value else {
        return match value {
            Value::Undefined(missing) => Err(Fault::Undefined(missing.why.clone())),
            other => not(other.type_name(), "a string"),
        };
    };
    interp.scan(of.len().saturating_mul(16))?;
    let _room = interp.meter.charge(of.len().saturating_mul(20))?;
    let mut buffer = interp.buffer_of(of.len())?;
    for (nth, line) in split_lines(of, false).enumerate() {
        if nth > 0 {
            buffer.push_str(&wrap.separator)?;
        }
        wrap.paragraph(&mut buffer, line)?;
    }
    Ok(Value::Str(Str::from_buffer(buffer)))
}

struct Wrap {
    width: usize,
    break_long: bool,
    hyphens: bool,
    separator: Str,
}

impl Wrap {
    fn paragraph(&self, buffer: &mut Buffer, text: &str) -> Run<()> {
        let mut chunks = self.chunks(text);
        chunks.reverse();
        let mut first = true;
        while !chunks.is_empty() {
            let mut line: Vec<&str> = Vec::new();
            let mut used = 0;
            let blank = |chunk: &&str| chunk.chars().all(is_space);
            if !first && chunks.last().is_some_and(blank) {
                chunks.pop();
            }
            while let Some(chunk) = chunks.last().copied() {
                let len = chunk.chars().take(self.width + 1).count();
                if used + len > self.width {
                    break;
                }
                line.push(chunk);
                used += len;
                chunks.pop();
            }
            if let Some(chunk) = chunks.last().copied()
                && chunk.chars().nth(self.width).is_some()
            {
                self.long_word(&mut chunks, &mut line, chunk, self.width - used);
            }
            if line.last().is_some_and(blank) {
                line.pop();
            }
            if !line.is_empty() {
                if !first {
                    buffer.push_str(&self.separator)?;
                }
                first = false;
                for chunk in line {
                    buffer.push_str(chunk)?;
                }
            }
        }
        Ok(())
    }

    /// Puts what fits of a word that is longer than a line.
    fn long_word<'s>(
        &self,
        chunks: &mut Vec<&'s str>,
        line: &mut Vec<&'s str>,
        chunk: &'s str,
        room: usize,
    ) {
        if self.break_long {
            let mut end = chunk
                .char_indices()
                .nth(room)
                .map_or(chunk.len(), |(at, _)| at);
            let fitting = chunk.get(..end).unwrap_or(chunk);
            if self.hyphens
                && let Some(hyphen) = fitting.rfind('-')
                && fitting.bytes().take(hyphen).any(|b| b != b'-')
            {
                end = hyphen + 1;
            }
            // Nothing may fit; the empty piece then stands in for the space before it.
            let (head, tail) = chunk.split_at_checked(end).unwrap_or((chunk, ""));
            line.push(head);
            chunks.pop();
            if !tail.is_empty() {
                chunks.push(tail);
            }
        } else if line.is_empty() {
            chunks.pop();
            line.push(chunk);
        }
    }

    /// Words and the spaces between them; a hyphen between letters ends a word.
    fn chunks<'s>(&self, text: &'s str) -> Vec<&'s str> {
        let mut chunks = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let space = is_space(first);
            let mut end = rest.find(|c| is_space(c) != space).unwrap_or(rest.len());
            if !space && self.hyphens {
                let word = rest.get(..end).unwrap_or(rest);
                end = hyphen_end(word).unwrap_or(end);
            }
            let (chunk, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            chunks.push(chunk);
            rest = after;
        }
        chunks
    }
}

/// Where a word may break: after a hyphen that has two letters before it and letters after it.
fn hyphen_end(word: &str) -> Option<usize> {
    let letter = |c: char| c.is_alphabetic() || c == '_';
    for (at, _) in word.match_indices('-') {
        let before = word
            .get(..at)?
            .chars()
            .rev()
            .take(2)
            .filter(|&c| letter(c))
            .count();
        let after = word
            .get(at + 1..)?
            .chars()
            .take(2)
            .filter(|&c| letter(c))
            .count();
        if before == 2 && after == 2 {
            return Some(at + 1);
        }
    }
    None
}
