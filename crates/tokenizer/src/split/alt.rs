//! The alternatives of a pattern, and the scanner that tries them in order.

use super::super::unicode::{HAN, L, LL, LM, LO, LT, LU, M, N, ND, NEWLINE, WS, mask};
use super::Set;

/// One alternative of a pattern. The regular expression it stands for is given for each.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Alt {
    /// `lead set{min,max} tail`: a run of one class with what may or must come before and after it.
    Run {
        lead: Lead,
        set: Set,
        min: u32,
        max: u32,
        tail: Set,
        tail_max: u32,
    },
    /// `'s|'t|'re|'ve|'m|'ll|'d`
    Contraction(Case),
    /// `[^\r\n\p{L}\p{N}]?U*V+(?i:contraction)?|[^\r\n\p{L}\p{N}]?U+V*(?i:contraction)?` where U is any letter or mark
    /// but a lower-case one and V any but an upper-case or title-case one.
    CasedWord { contraction: bool, han: Han },
    /// `[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`: words, and the single spaces between them.
    Phrase,
    /// `\p{N}{1,3}` counted from the end of the run.
    DigitsFromEnd(Boundary),
    /// `\s*[\r\n]+`
    LineEnd,
    /// `\s+(?!\S)`
    SpaceBeforeSpace,
    /// `\s+`
    Spaces,
    /// `\s+$`
    SpacesAtEnd,
    /// `\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`
    SpaceLadder,
    /// The literal text.
    Literal(&'static str),
    /// `open set{1,max} close`: a literal, a short run, a literal.
    Tag {
        open: &'static str,
        set: Set,
        max: u32,
        close: &'static str,
    },
}

/// What comes before a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lead {
    None,
    /// `[set]?`
    Maybe(Set),
    /// `[set]`
    Must(Set),
}

/// Whether contractions match in both cases; then `ſ` is an `s`, as case folding has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Exact,
    Folded,
}

/// Whether words may hold Han characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Han {
    Letters,
    Apart,
}

/// What must follow a run of digits for it to be grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    Any,
    /// `\b`, and only decimal digits count.
    Word,
}

impl Alt {
    /// `set+`
    pub(crate) const fn run(set: Set) -> Self {
        Alt::Run {
            lead: Lead::None,
            set,
            min: 1,
            max: u32::MAX,
            tail: Set::EMPTY,
            tail_max: u32::MAX,
        }
    }

    /// `set{min,max}`
    pub(crate) const fn group(set: Set, min: u32, max: u32) -> Self {
        Alt::Run {
            lead: Lead::None,
            set,
            min,
            max,
            tail: Set::EMPTY,
            tail_max: 0,
        }
    }

    /// `lead set+`
    pub(crate) const fn led(lead: Lead, set: Set) -> Self {
        Alt::tailed(lead, set, Set::EMPTY)
    }

    /// `lead set+ tail*`
    pub(crate) const fn tailed(lead: Lead, set: Set, tail: Set) -> Self {
        Alt::Run {
            lead,
            set,
            min: 1,
            max: u32::MAX,
            tail,
            tail_max: u32::MAX,
        }
    }
}

/// What is part of a word for Oniguruma's `\b` beside alphabetic characters, marks and digits: connector punctuation and,
/// of the other numbers, those of Latin-1.
const WORD: &[(char, char)] = &[
    ('_', '_'),
    ('²', '³'),
    ('¹', '¹'),
    ('¼', '¾'),
    ('‿', '⁀'),
    ('⁔', '⁔'),
    ('︳', '︴'),
    ('﹍', '﹏'),
    ('＿', '＿'),
];

/// A run of characters found once and remembered, so that alternatives which look over the whole of it but take only
/// a part stay linear.
#[derive(Clone, Copy, Default)]
struct Span {
    start: usize,
    end: usize,
    /// End of the last newline of a white-space run; 0 when there is none. Characters in a run of digits.
    mark: usize,
}

impl Span {
    fn covers(&self, at: usize) -> bool {
        self.start <= at && at < self.end
    }
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    space: Span,
    digits: Span,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Scanner {
            text,
            space: Span::default(),
            digits: Span::default(),
        }
    }

    /// Calls `emit` with each piece and whether an alternative matched it.
    pub(super) fn pieces(&mut self, alts: &[Alt], emit: &mut dyn FnMut(&'a str, bool)) {
        let (mut at, mut gap) = (0, 0);
        while let Some(c) = self.char_at(at) {
            match alts.iter().find_map(|alt| self.match_at(alt, at)) {
                Some(end) if end > at => {
                    if gap < at {
                        emit(self.slice(gap, at), false);
                    }
                    emit(self.slice(at, end), true);
                    (at, gap) = (end, end);
                }
                _ => at += c.len_utf8(),
            }
        }
        if gap < at {
            emit(self.slice(gap, at), false);
        }
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or("")
    }

    fn rest(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or("")
    }

    #[inline]
    fn char_at(&self, at: usize) -> Option<char> {
        self.rest(at).chars().next()
    }

    fn mask_at(&self, at: usize) -> u32 {
        self.char_at(at).map_or(0, mask)
    }

    fn match_at(&mut self, alt: &Alt, at: usize) -> Option<usize> {
        match alt {
            Alt::Run {
                lead,
                set,
                min,
                max,
                tail,
                tail_max,
            } => {
                let end = self.led_run(*lead, set, (*min, *max), at)?;
                Some(self.run(tail, *tail_max, end).0)
            }
            Alt::Contraction(case) => self.contraction(*case, at),
            Alt::CasedWord { contraction, han } => self.cased_word(*contraction, *han, at),
            Alt::Phrase => self.phrase(at),
            Alt::DigitsFromEnd(boundary) => self.digits_from_end(*boundary, at),
            Alt::LineEnd => self.spaces(at).map(|run| run.mark).filter(|end| *end > at),
            Alt::SpaceBeforeSpace => self.space_before_space(at),
            Alt::Spaces => self.spaces(at).map(|run| run.end),
            Alt::SpacesAtEnd => self
                .spaces(at)
                .map(|run| run.end)
                .filter(|end| *end == self.text.len()),
            Alt::SpaceLadder => self.space_ladder(at),
            Alt::Literal(literal) => self.literal(literal, at),
            Alt::Tag {
                open,
                set,
                max,
                close,
            } => {
                let start = self.literal(open, at)?;
                let (end, count) = self.run(set, *max, start);
                if count == 0 {
                    return None;
                }
                self.literal(close, end)
            }
        }
    }

    fn literal(&self, literal: &str, at: usize) -> Option<usize> {
        self.rest(at)
            .starts_with(literal)
            .then(|| at + literal.len())
    }

    /// The end of the run of `set` from `at` on, and how many characters it has.
    #[inline]
    fn run(&self, set: &Set, max: u32, at: usize) -> (usize, u32) {
        let (mut end, mut count) = (at, 0);
        if *set != Set::EMPTY {
            for c in self.rest(at).chars() {
                if count == max || !set.has(c) {
                    break;
                }
                end += c.len_utf8();
                count += 1;
            }
        }
        (end, count)
    }

    fn led_run(&self, lead: Lead, set: &Set, (min, max): (u32, u32), at: usize) -> Option<usize> {
        let counted = |start| {
            let (end, count) = self.run(set, max, start);
            (count >= min).then_some(end)
        };
        let c = self.char_at(at)?;
        match lead {
            Lead::None => counted(at),
            Lead::Must(before) => before.has(c).then(|| counted(at + c.len_utf8())).flatten(),
            Lead::Maybe(before) => before
                .has(c)
                .then(|| counted(at + c.len_utf8()))
                .flatten()
                .or_else(|| counted(at)),
        }
    }

    fn contraction(&self, case: Case, at: usize) -> Option<usize> {
        let mut chars = self.rest(at).strip_prefix('\'')?.chars();
        let mut next = || {
            let c = chars.next()?;
            let folded = match (case, c) {
                (Case::Exact, _) => c,
                (Case::Folded, 'ſ') => 's',
                (Case::Folded, _) => c.to_ascii_lowercase(),
            };
            Some((folded, c.len_utf8()))
        };
        let (first, len) = next()?;
        match first {
            's' | 't' | 'm' | 'd' => Some(at + 1 + len),
            'r' | 'v' | 'l' => {
                let wanted = if first == 'l' { 'l' } else { 'e' };
                (next()?.0 == wanted).then_some(at + 3)
            }
            _ => None,
        }
    }

    /// Both branches of the pattern in one walk. Letters without case belong to both sides, so the first branch may
    /// have to give back the tail of the upper-case run: it ends after the last character both sides share.
    fn cased_word(&self, contraction: bool, han: Han, at: usize) -> Option<usize> {
        let without = if han == Han::Apart { HAN } else { 0 };
        let upper = Set::of(LU | LT | LM | LO | M).except(without);
        let lower = Set::of(LL | LM | LO | M).except(without);
        let branch = |start: usize, first: bool| {
            let (mut end, mut shared) = (start, None);
            for c in self.rest(start).chars() {
                if !upper.has(c) {
                    break;
                }
                end += c.len_utf8();
                if lower.has(c) {
                    shared = Some(end);
                }
            }
            let lowered = self.run(&lower, u32::MAX, end).0;
            match (first, lowered > end) {
                (true, true) => Some(lowered),
                (true, false) => shared,
                (false, _) => (end > start).then_some(lowered),
            }
        };
        let c = self.char_at(at)?;
        let lead = Set::not(NEWLINE | L | N).has(c).then(|| at + c.len_utf8());
        let end = [true, false].into_iter().find_map(|first| {
            lead.and_then(|start| branch(start, first))
                .or_else(|| branch(at, first))
        })?;
        Some(if contraction {
            self.contraction(Case::Folded, end).unwrap_or(end)
        } else {
            end
        })
    }

    fn phrase(&self, at: usize) -> Option<usize> {
        let letter = |at: usize| (self.mask_at(at) & L != 0).then_some(at);
        let c = self.char_at(at)?;
        let lead = Set::not(NEWLINE | L | N).has(c).then(|| at + c.len_utf8());
        let mut end = lead.and_then(letter).or_else(|| letter(at))?;
        loop {
            end = self.run(&Set::of(L), 1, end).0;
            end = self.run(&Set::of(M), u32::MAX, end).0;
            let spaced = self.literal(" ", end).and_then(letter);
            match letter(end).or(spaced) {
                Some(next) => end = next,
                None => return Some(end),
            }
        }
    }

    fn digits_from_end(&mut self, boundary: Boundary, at: usize) -> Option<usize> {
        let set = match boundary {
            Boundary::Any => Set::of(N),
            Boundary::Word => Set::of(ND),
        };
        if !self.digits.covers(at) {
            let (end, count) = self.run(&set, u32::MAX, at);
            self.digits = Span {
                start: at,
                end,
                mark: count as usize,
            };
        }
        let run = self.digits;
        let word = Set::of(M | ND).with(WORD);
        let inside = self
            .char_at(run.end)
            .is_some_and(|c| c.is_alphabetic() || word.has(c));
        if !run.covers(at) || (boundary == Boundary::Word && inside) {
            return None;
        }
        let take = (run.mark - 1) % 3 + 1;
        let end = self.run(&set, take as u32, at).0;
        self.digits = Span {
            start: end,
            mark: run.mark - take,
            ..run
        };
        Some(end)
    }

    /// The run of white space at `at`; only its end and its last newline matter, whatever part is already taken.
    fn spaces(&mut self, at: usize) -> Option<Span> {
        if !self.space.covers(at) {
            if self.mask_at(at) & WS == 0 {
                return None;
            }
            let mut run = Span {
                start: at,
                end: at,
                mark: 0,
            };
            for c in self.rest(at).chars() {
                let mask = mask(c);
                if mask & WS == 0 {
                    break;
                }
                run.end += c.len_utf8();
                if mask & NEWLINE != 0 {
                    run.mark = run.end;
                }
            }
            self.space = run;
        }
        Some(self.space)
    }

    fn space_before_space(&mut self, at: usize) -> Option<usize> {
        let run = self.spaces(at)?;
        if run.end == self.text.len() {
            return Some(run.end);
        }
        let last = self.slice(at, run.end).chars().next_back()?;
        Some(run.end - last.len_utf8()).filter(|end| *end > at)
    }

    fn space_ladder(&mut self, at: usize) -> Option<usize> {
        let run = self.spaces(at)?;
        // A step matches when what comes after it is white space too or the end of the text.
        let free = if run.end == self.text.len() {
            run.end
        } else {
            self.space_before_space(at).unwrap_or(at)
        };
        let reach = self.run(&Set::WS, 512, at).0.min(free);
        let available = self.slice(at, reach).chars().count() as u32;
        let take = (0..10)
            .map(|power| 512 >> power)
            .find(|step| *step <= available)
            .unwrap_or(1);
        Some(self.run(&Set::WS, take, at).0)
    }
}

/// `(?=(\d{3})+(?!\d))`: cuts in front of each group of three decimal digits counted from the end of their run.
pub(super) fn thousands<'a>(text: &'a str, emit: &mut dyn FnMut(&'a str)) {
    let digit = |c: char| mask(c) & ND != 0;
    let mut piece = 0;
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if !digit(c) {
            at += c.len_utf8();
            continue;
        }
        let run = text.get(at..).unwrap_or("");
        let count = run.chars().take_while(|c| digit(*c)).count();
        for (i, c) in run.chars().take(count).enumerate() {
            if (count - i).is_multiple_of(3) && at > piece {
                emit(text.get(piece..at).unwrap_or(""));
                piece = at;
            }
            at += c.len_utf8();
        }
    }
    if at > piece {
        emit(text.get(piece..at).unwrap_or(""));
    }
}
