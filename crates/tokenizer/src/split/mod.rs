//! Pre-tokenizers: how byte-level BPE cuts text into words before it merges.
//!
//! Published models describe this as regular expressions with look-ahead. Here each is data: a list of [`Stage`]s,
//! every one cutting the pieces of the one before, and a stage is mostly an ordered list of alternatives ([`Alt`]) of
//! which the first that matches wins, as in a regular expression. What no alternative matches becomes a piece of its
//! own. Each alternative is matched by hand in time linear in what it consumes, so that no text is slow.
//!
//! Where the pattern a model publishes and llama.cpp's rewrite of it differ (upper and lower case beyond ASCII in
//! o200k and tekken, `ſ` in contractions), the published one is followed.

mod alt;
mod family;
mod name;

#[cfg(test)]
mod tests;

pub use name::PreTokenizer;
pub(crate) use name::{Alphabet, WholeWords};

use super::unicode::{self, mask};
pub(crate) use alt::Alt;
use alt::Scanner;

/// A set of characters: categories or properties, less some, more or less explicit ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    any: u32,
    none: u32,
    plus: &'static [(char, char)],
    minus: &'static [(char, char)],
}

impl Set {
    pub(crate) const EMPTY: Set = Set::of(0);
    pub(crate) const SPACE: Set = Set::ranges(&[(' ', ' ')]);
    pub(crate) const WS: Set = Set::of(unicode::WS);
    pub(crate) const NEWLINE: Set = Set::of(unicode::NEWLINE);

    pub(crate) const fn of(any: u32) -> Self {
        Set {
            any,
            none: 0,
            plus: &[],
            minus: &[],
        }
    }

    pub(crate) const fn not(none: u32) -> Self {
        Set {
            none,
            ..Set::of(unicode::ANY)
        }
    }

    pub(crate) const fn ranges(plus: &'static [(char, char)]) -> Self {
        Set { plus, ..Set::of(0) }
    }

    pub(crate) const fn with(self, plus: &'static [(char, char)]) -> Self {
        Set { plus, ..self }
    }

    pub(crate) const fn without(self, minus: &'static [(char, char)]) -> Self {
        Set { minus, ..self }
    }

    pub(crate) const fn except(self, none: u32) -> Self {
        Set {
            none: self.none | none,
            ..self
        }
    }

    #[inline]
    pub(crate) fn has(&self, c: char) -> bool {
        let mask = mask(c);
        if mask & self.any != 0 && mask & self.none == 0 {
            self.minus.is_empty() || !within(self.minus, c)
        } else {
            !self.plus.is_empty() && within(self.plus, c)
        }
    }
}

/// Whether a character lies in one of some sorted ranges.
fn within(ranges: &[(char, char)], c: char) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= c);
    after
        .checked_sub(1)
        .and_then(|i| ranges.get(i))
        .is_some_and(|(_, last)| c <= *last)
}

/// One pass over the pieces of the pass before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    /// The first alternative that matches makes a piece; what lies between matches makes pieces too.
    Match(&'static [Alt]),
    /// Like `Match`, but what lies between matches is dropped.
    Keep(&'static [Alt]),
    /// Cuts before each group of three in a run of decimal digits, counted from its end.
    Thousands,
}

/// Calls `emit` with each piece of `text`, in order. Unless a stage drops text, the pieces concatenate to it.
pub(crate) fn split(stages: &[Stage], text: &str, emit: &mut dyn FnMut(&str)) {
    match stages.split_first() {
        None if text.is_empty() => {}
        None => emit(text),
        Some((Stage::Match(alts), rest)) => {
            Scanner::new(text).pieces(alts, &mut |piece, _| split(rest, piece, emit));
        }
        Some((Stage::Keep(alts), rest)) => {
            Scanner::new(text).pieces(alts, &mut |piece, matched| {
                if matched {
                    split(rest, piece, emit);
                }
            });
        }
        Some((Stage::Thousands, rest)) => {
            alt::thousands(text, &mut |piece| split(rest, piece, emit));
        }
    }
}
