//! Markdown for a terminal, while it comes: headings, lists, quotes, emphasis and code. What might be a mark is held
//! back until it is clear. Control characters of the model are left out: it must not steer the terminal.

use std::io::{self, Write};

const BOLD: (&str, &str) = ("\x1b[1m", "\x1b[22m");
const ITALIC: (&str, &str) = ("\x1b[3m", "\x1b[23m");
const CODE: (&str, &str) = ("\x1b[36m", "\x1b[39m");

/// Turns a text into what a terminal shows.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    /// Columns of the terminal, if lines are broken between words.
    width: Option<usize>,
    column: usize,
    /// Blanks that are shown before the next word, unless that goes to the next line.
    blanks: String,
    /// A word that may have to go to the next line, and its columns.
    word: String,
    word_width: usize,
    /// What is not clear yet.
    held: String,
    place: LineState,
    bold: bool,
    italic: bool,
    code: bool,
    heading: bool,
    /// The last character that was shown: marks look at what is before them.
    before: char,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum LineState {
    /// At the beginning of a line.
    #[default]
    Start,
    Inline,
    /// At the beginning of a line of a block of code, and in one.
    FenceStart,
    Fence,
    /// After the marks of a block of code, up to the end of the line.
    Info {
        opens: bool,
    },
}

impl Markdown {
    pub(crate) fn new(width: Option<usize>) -> Self {
        Self {
            // Narrower ones are broken by the terminal.
            width: width.filter(|&width| width >= 20),
            ..Self::default()
        }
    }

    /// Shows what can be shown after some more text.
    pub(crate) fn push(&mut self, text: &str, out: &mut impl Write) -> io::Result<()> {
        let mut shown = String::new();
        for c in text.chars() {
            if !c.is_control() || matches!(c, '\n' | '\t') {
                self.take(c, &mut shown);
            }
        }
        // Without line breaks of ours nothing has to wait for the end of its word.
        if self.width.is_none() {
            self.flush_word(&mut shown);
        }
        out.write_all(shown.as_bytes())
    }

    /// Shows the rest and ends all that is open.
    pub(crate) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut shown = String::new();
        let held = std::mem::take(&mut self.held);
        match self.place {
            LineState::Info { .. } => {}
            LineState::Inline if held.starts_with(['*', '_']) => {
                self.emphasis(&held, '\n', &mut shown);
            }
            _ => held.chars().for_each(|c| self.show(c, &mut shown)),
        }
        if matches!(
            self.place,
            LineState::Fence | LineState::FenceStart | LineState::Info { opens: false }
        ) {
            self.style(CODE.1);
        }
        self.plain();
        self.flush_line(&mut shown);
        *self = Self::new(self.width);
        out.write_all(shown.as_bytes())
    }

    fn take(&mut self, c: char, out: &mut String) {
        match self.place {
            LineState::Info { opens } => {
                if c == '\n' {
                    self.style(if opens { CODE.0 } else { CODE.1 });
                    self.place = if opens {
                        LineState::FenceStart
                    } else {
                        LineState::Start
                    };
                }
            }
            LineState::Start => self.start(c, out),
            LineState::FenceStart => {
                self.held.push(c);
                match self.held.trim_start() {
                    "" if c != '\n' => {}
                    "`" | "``" => {}
                    "```" => self.fence(false),
                    _ => {
                        self.place = LineState::Fence;
                        self.let_go(out);
                    }
                }
            }
            LineState::Fence => self.code_line(c, out),
            LineState::Inline => self.inline(c, out),
        }
    }

    fn fence(&mut self, opens: bool) {
        self.held.clear();
        self.place = LineState::Info { opens };
    }

    /// Takes what was held as what it turned out to be.
    fn let_go(&mut self, out: &mut String) {
        for c in std::mem::take(&mut self.held).chars() {
            match self.place {
                LineState::Fence | LineState::FenceStart => self.code_line(c, out),
                _ => self.inline(c, out),
            }
        }
    }

    fn code_line(&mut self, c: char, out: &mut String) {
        self.show(c, out);
        self.place = match c {
            '\n' => LineState::FenceStart,
            _ => LineState::Fence,
        };
    }

    /// The beginning of a line: as long as it may be a mark, it is held.
    fn start(&mut self, c: char, out: &mut String) {
        self.held.push(c);
        let line = self.held.trim_start_matches(' ');
        let indent = self.held.len() - line.len();
        let hashes = line.bytes().take_while(|&byte| byte == b'#').count();
        let shown = match line {
            "" | "-" | "*" | "+" | ">" | "`" | "``" => return,
            "```" => return self.fence(true),
            "- " | "* " | "+ " => "• ",
            "> " => "│ ",
            _ if hashes == line.len() && hashes <= 6 => return,
            _ if hashes > 0 && hashes <= 6 && &line[hashes..] == " " => {
                self.held.clear();
                self.place = LineState::Inline;
                self.heading = true;
                self.style(BOLD.0);
                return;
            }
            _ => {
                self.place = LineState::Inline;
                return self.let_go(out);
            }
        };
        self.held.clear();
        self.place = LineState::Inline;
        (0..indent).for_each(|_| self.show(' ', out));
        shown.chars().for_each(|c| self.show(c, out));
    }

    fn inline(&mut self, c: char, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        match (held.as_str(), c) {
            ("", '*' | '_') if !self.code => self.held.push(c),
            ("", '\\') if !self.code => self.held.push(c),
            ("", '`') => {
                self.code = !self.code;
                self.style(if self.code { CODE.0 } else { CODE.1 });
            }
            ("", c) => self.letter(c, out),
            ("\\", c) => {
                if !c.is_ascii_punctuation() {
                    self.show('\\', out);
                }
                match c {
                    '\n' => self.letter(c, out),
                    c => self.show(c, out),
                }
            }
            ("*", '*') | ("_", '_') => self.held.push_str(if c == '*' { "**" } else { "__" }),
            _ => {
                self.emphasis(&held, c, out);
                self.inline(c, out);
            }
        }
    }

    /// Marks of emphasis, now that what follows is known.
    fn emphasis(&mut self, marks: &str, after: char, out: &mut String) {
        let strong = marks.len() == 2;
        let open = if strong { self.bold } else { self.italic };
        let inside_word = marks.starts_with('_') && self.before.is_alphanumeric();
        let may_open = !after.is_whitespace() && !inside_word;
        let may_close = !self.before.is_whitespace() && self.before != '\0';
        let closes = open && may_close;
        if !closes && (open || !may_open) {
            marks.chars().for_each(|c| self.show(c, out));
            return;
        }
        let (on, off) = if strong { BOLD } else { ITALIC };
        if strong {
            self.bold = !open;
        } else {
            self.italic = !open;
        }
        // A heading is bold all along.
        if !(strong && self.heading) {
            self.style(if closes { off } else { on });
        }
    }

    fn letter(&mut self, c: char, out: &mut String) {
        if c == '\n' {
            self.plain();
        }
        self.show(c, out);
        if c == '\n' {
            self.place = LineState::Start;
        }
    }

    /// Ends what a line began: a mark that is never closed must not reach further.
    fn plain(&mut self) {
        if self.bold || self.heading {
            self.style(BOLD.1);
        }
        if self.italic {
            self.style(ITALIC.1);
        }
        if self.code {
            self.style(CODE.1);
        }
        (self.bold, self.italic, self.code, self.heading) = (false, false, false, false);
    }

    fn style(&mut self, code: &str) {
        self.word.push_str(code);
    }

    fn show(&mut self, c: char, out: &mut String) {
        self.before = c;
        match c {
            '\n' => {
                self.flush_line(out);
                out.push('\n');
                self.column = 0;
                self.before = '\0';
            }
            ' ' | '\t' => {
                self.flush_word(out);
                self.blanks.push(c);
            }
            c => {
                self.word.push(c);
                self.word_width += columns(c);
            }
        }
    }

    /// Shows what is left of a line, without the blanks at its end.
    fn flush_line(&mut self, out: &mut String) {
        self.flush_word(out);
        self.blanks.clear();
        self.flush_word(out);
    }

    fn flush_word(&mut self, out: &mut String) {
        if self.word_width == 0 && !self.blanks.is_empty() {
            // A style belongs to the word that it begins, after the blanks.
            return;
        }
        if self.word_width > 0 {
            let blanks = std::mem::take(&mut self.blanks);
            let end = self.column + blanks.len() + self.word_width;
            let breaks = |width| self.column > 0 && end > width;
            let in_code = matches!(self.place, LineState::Fence | LineState::FenceStart);
            if !in_code && self.width.is_some_and(breaks) {
                // The blanks would begin a line, or make one of their own after a line that is just full.
                out.push('\n');
                self.column = 0;
            } else {
                out.push_str(&blanks);
                self.column += blanks.len();
            }
        }
        self.column += std::mem::take(&mut self.word_width);
        out.push_str(&std::mem::take(&mut self.word));
    }
}

/// Columns that a character takes: East Asian ones and pictures take two.
fn columns(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff => 2,
        0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, width: Option<usize>, piece: usize) -> String {
        let mut markdown = Markdown::new(width);
        let mut out = Vec::new();
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(piece) {
            let piece: String = piece.iter().collect();
            markdown.push(&piece, &mut out).unwrap();
        }
        markdown.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn marks_become_styles_however_the_text_is_cut() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a **b** c", "a \x1b[1mb\x1b[22m c"),
            ("*i* and _j_", "\x1b[3mi\x1b[23m and \x1b[3mj\x1b[23m"),
            ("2 * 3 * 4", "2 * 3 * 4"),
            ("snake_case_name", "snake_case_name"),
            ("`a*b*`", "\x1b[36ma*b*\x1b[39m"),
            ("# Title\nx", "\x1b[1mTitle\x1b[22m\nx"),
            ("#hash", "#hash"),
            ("- one\n  * two", "• one\n  • two"),
            ("1. one", "1. one"),
            ("> said", "│ said"),
            ("---\n", "---\n"),
            (
                "```rust\nlet *a*;\n```\n**b**",
                "\x1b[36mlet *a*;\n\x1b[39m\x1b[1mb\x1b[22m",
            ),
            ("```\nopen", "\x1b[36mopen\x1b[39m"),
            ("```\na\n```", "\x1b[36ma\n"),
            ("\\*no\\*", "*no*"),
            ("**open\nnext", "\x1b[1mopen\x1b[22m\nnext"),
            ("a\x1b]0;evil\x07b", "a]0;evilb"),
            ("**", "**"),
        ] {
            for piece in [1, 2, 3, 100] {
                let made = shown(text, None, piece);
                // What is left open at the end is closed.
                let made = made.strip_suffix("\x1b[39m").unwrap_or(&made);
                let expected = expected.strip_suffix("\x1b[39m").unwrap_or(expected);
                assert_eq!(made, expected, "{text:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "one two three four five six seven";
        assert_eq!(
            shown(text, Some(20), 5),
            "one two three four\nfive six seven"
        );
        // A line that is just as wide as the terminal is broken once.
        let full = "one two three fourty five";
        assert_eq!(shown(full, Some(20), 3), "one two three fourty\nfive");
        assert_eq!(
            shown("one two three fourty\nfive", Some(20), 3),
            "one two three fourty\nfive"
        );
        assert_eq!(shown(text, Some(10), 5), text, "that is no terminal");
        let code = format!("```\n{}\n", "long ".repeat(10));
        assert_eq!(shown(&code, Some(20), 7).matches('\n').count(), 1);
    }
}
