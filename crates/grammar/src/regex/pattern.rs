//! Regular expressions in the notation of Rust's `regex`.

use super::{Arena, ByteSet, ENDLESS, Expr};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look};
use regex_syntax::utf8::{Utf8Range, Utf8Sequence, Utf8Sequences};
use thiserror::Error;

/// How a pattern is meant.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It matches all of a text, and classes are Unicode's.
    Whole,
    /// It matches somewhere in a text; `\d` and `\w` are ASCII's, as in JavaScript.
    Search,
}

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PatternError {
    #[error("the regular expression {pattern:?} is wrong: {reason}")]
    Syntax { pattern: String, reason: String },
    #[error(
        "the regular expression {pattern:?} looks around: only ^ at its beginning and $ at its end are supported"
    )]
    Look { pattern: String },
    #[error("the regular expression {pattern:?} names a group \"stop\", which is not supported")]
    Stop { pattern: String },
}

/// Where a part of a pattern stands.
#[derive(Copy, Clone)]
struct Place {
    at_start: bool,
    at_end: bool,
    /// Whether the pattern is looked for in a text.
    search: bool,
    /// Whether an anchor stands before it, or after it.
    anchored: (bool, bool),
}

/// What a part has become, and whether it is anchored at its beginning and at its end.
type Part = (Expr, (bool, bool));

enum Problem {
    Look,
    Stop,
}

impl Arena {
    /// Reads a pattern.
    pub(crate) fn pattern(
        &mut self,
        pattern: &str,
        reading: Reading,
    ) -> Result<Expr, PatternError> {
        let source = normalized(pattern, reading);
        // What is nested more deeply was refused before.
        let parsed = ParserBuilder::new().nest_limit(200).build().parse(&source);
        let parsed = parsed.map_err(|error| PatternError::Syntax {
            pattern: pattern.to_string(),
            reason: match error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                _ => "it cannot be read".to_string(),
            },
        })?;
        let place = Place {
            at_start: true,
            at_end: true,
            search: reading == Reading::Search,
            anchored: (false, false),
        };
        let (expr, anchored) = self.part(&parsed, place).map_err(|problem| {
            let pattern = pattern.to_string();
            match problem {
                Problem::Look => PatternError::Look { pattern },
                Problem::Stop => PatternError::Stop { pattern },
            }
        })?;
        Ok(match reading {
            Reading::Whole => expr,
            Reading::Search => self.open(expr, (!anchored.0, !anchored.1)),
        })
    }

    /// Any character.
    pub(crate) fn any_character(&mut self) -> Expr {
        let mut all = ClassUnicode::empty();
        all.negate();
        self.class(&all)
    }

    /// Any text, with one character at least if `least` is 1.
    pub(crate) fn any_text(&mut self, least: u32) -> Expr {
        let any = self.any_character();
        self.repeat(any, least, ENDLESS)
    }

    /// A set of characters, given by ranges that hold no surrogates.
    pub(crate) fn characters(&mut self, ranges: &[(char, char)]) -> Expr {
        let ranges = ranges
            .iter()
            .map(|(from, to)| regex_syntax::hir::ClassUnicodeRange::new(*from, *to));
        self.class(&ClassUnicode::new(ranges))
    }

    /// Lets any text come before and after.
    fn open(&mut self, expr: Expr, (before, after): (bool, bool)) -> Expr {
        let any = self.any_text(0);
        let mut expr = expr;
        if after {
            expr = self.seq(expr, any);
        }
        if before {
            expr = self.seq(any, expr);
        }
        expr
    }

    fn part(&mut self, hir: &Hir, place: Place) -> Result<Part, Problem> {
        let Place {
            at_start,
            at_end,
            anchored,
            ..
        } = place;
        let inner = Place {
            at_start: false,
            at_end: false,
            anchored: (false, false),
            ..place
        };
        Ok(match hir.kind() {
            HirKind::Empty => (Self::EMPTY, anchored),
            HirKind::Literal(literal) => (self.literal(&literal.0), anchored),
            HirKind::Class(Class::Unicode(class)) => (self.class(class), anchored),
            HirKind::Class(Class::Bytes(class)) => {
                let ranges = class.ranges().iter();
                let bytes: Vec<u8> = ranges.flat_map(|r| r.start()..=r.end()).collect();
                (self.bytes_of(ByteSet::of(&bytes)), anchored)
            }
            HirKind::Look(Look::Start) if at_start => (Self::EMPTY, (true, anchored.1)),
            HirKind::Look(Look::End) if at_end => (Self::EMPTY, (anchored.0, true)),
            HirKind::Look(_) => return Err(Problem::Look),
            HirKind::Repetition(repetition) => {
                let (expr, _) = self.part(&repetition.sub, inner)?;
                let most = repetition.max.unwrap_or(ENDLESS);
                (self.repeat(expr, repetition.min, most), anchored)
            }
            HirKind::Capture(capture) => {
                if capture.name.as_deref() == Some("stop") {
                    return Err(Problem::Stop);
                }
                let kept = (at_start && anchored.0, at_end && anchored.1);
                let place = Place {
                    anchored: kept,
                    ..place
                };
                self.part(&capture.sub, place)?
            }
            HirKind::Concat(parts) => self.sequence(parts, place)?,
            HirKind::Alternation(parts) => self.branches(parts, place)?,
        })
    }

    fn sequence(&mut self, parts: &[Hir], place: Place) -> Result<Part, Problem> {
        let is = |part: &Hir, look| matches!(part.kind(), HirKind::Look(l) if *l == look);
        let first = parts.iter().position(|part| !is(part, Look::Start));
        let last = parts.iter().rposition(|part| !is(part, Look::End));
        let mut exprs = Vec::with_capacity(parts.len());
        let mut anchored = (false, false);
        for (i, part) in parts.iter().enumerate() {
            let leads = first.is_none_or(|first| i <= first);
            let ends = last.is_none_or(|last| i >= last);
            let before = place.anchored.0 || (i > 0 && leads);
            let after = place.anchored.1 || (i + 1 < parts.len() && ends);
            let at = Place {
                at_start: place.at_start && leads,
                at_end: place.at_end && ends,
                search: place.search,
                anchored: (place.at_start && before, place.at_end && after),
            };
            let (expr, found) = self.part(part, at)?;
            exprs.push(expr);
            if i == 0 {
                anchored.0 = found.0;
            }
            anchored.1 = found.1;
        }
        Ok((self.seq_of(&exprs), anchored))
    }

    fn branches(&mut self, parts: &[Hir], place: Place) -> Result<Part, Problem> {
        let at = Place {
            anchored: (
                place.at_start && place.anchored.0,
                place.at_end && place.anchored.1,
            ),
            ..place
        };
        let mut branches = Vec::with_capacity(parts.len());
        for part in parts {
            branches.push(self.part(part, at)?);
        }
        let some = branches
            .iter()
            .fold((false, false), |(a, b), (_, (c, d))| (a | c, b | d));
        let mut anchored = place.anchored;
        if place.search && (place.at_start || place.at_end) && (some.0 || some.1) {
            anchored = some;
            // Where one branch has an anchor, those without one say what its absence means.
            for (expr, own) in &mut branches {
                *expr = self.open(*expr, (some.0 && !own.0, some.1 && !own.1));
            }
        }
        let exprs = branches.into_iter().map(|(expr, _)| expr).collect();
        Ok((self.or(exprs), anchored))
    }

    fn class(&mut self, class: &ClassUnicode) -> Expr {
        let mut sequences: Vec<Utf8Sequence> = Vec::new();
        for range in class.ranges() {
            sequences.extend(Utf8Sequences::new(range.start(), range.end()));
        }
        self.work += sequences.len() as u64;
        let slices: Vec<&[Utf8Range]> = sequences.iter().map(Utf8Sequence::as_slice).collect();
        self.spellings(&slices)
    }

    /// Sequences of ranges of bytes, those with the same beginning taken together.
    fn spellings(&mut self, all: &[&[Utf8Range]]) -> Expr {
        let mut branches = Vec::new();
        let mut rest = all;
        while let [first, ..] = rest {
            let Some((head, _)) = first.split_first() else {
                branches.push(Self::EMPTY);
                rest = &rest[1..];
                continue;
            };
            let same = rest.iter().take_while(|one| one.first() == Some(head));
            let (group, others) = rest.split_at(same.count());
            rest = others;
            let tails: Vec<&[Utf8Range]> = group.iter().map(|one| &one[1..]).collect();
            let tail = self.spellings(&tails);
            let head = self.bytes_of(ByteSet::range(head.start, head.end));
            branches.push(self.seq(head, tail));
        }
        self.or(branches)
    }
}

/// A pattern whose white space means what it is, and whose classes are those of its reading.
fn normalized(pattern: &str, reading: Reading) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut escaped = false;
    for c in pattern.chars() {
        let ascii = match c {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            'w' => "[0-9a-zA-Z_]",
            'W' => "[^0-9a-zA-Z_]",
            _ => "",
        };
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '/' => out.push_str("\\/"),
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            _ if escaped && !ascii.is_empty() && reading == Reading::Search => {
                out.push_str(ascii);
            }
            c => {
                if escaped {
                    out.push('\\');
                }
                out.push(c);
            }
        }
        escaped = false;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, reading: Reading, text: &str) -> bool {
        let mut arena = Arena::new();
        let expr = arena.pattern(pattern, reading).unwrap();
        let end = text.bytes().fold(expr, |e, byte| arena.derivative(e, byte));
        arena.is_nullable(end)
    }

    #[test]
    fn a_pattern_matches_the_whole_or_somewhere() {
        for (pattern, text, whole, search) in [
            ("ab+", "abb", true, true),
            ("ab+", "xabby", false, true),
            ("^ab+", "xabb", false, false),
            ("^ab+", "abbx", false, true),
            ("^(a|b)$", "b", true, true),
            ("^a|b$", "axx", false, true),
            ("^a|b$", "xxb", false, true),
            ("^a|b$", "xax", false, false),
            ("a/b", "a/b", true, true),
            (r"[^\d]", "1", false, false),
            ("äö?", "ä", true, true),
            (r"\w", "ä", true, false),
        ] {
            assert_eq!(
                matches(pattern, Reading::Whole, text),
                whole,
                "{pattern} {text}"
            );
            assert_eq!(
                matches(pattern, Reading::Search, text),
                search,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let mut arena = Arena::new();
        for (pattern, word) in [
            ("(a", "unclosed group"),
            (r"a\b", "looks around"),
            ("(^a)*", "looks around"),
            ("(?P<stop>a)", "stop"),
            (r"(a)\1", "backreferences"),
        ] {
            let refused = arena.pattern(pattern, Reading::Whole).unwrap_err();
            assert!(refused.to_string().contains(word), "{refused}");
        }
    }
}
