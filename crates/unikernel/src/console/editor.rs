//! A line that is being typed, with a history and completion.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const LONGEST: usize = 1000;
const REMEMBERED: usize = 32;

/// A line editor.
#[derive(Debug, Default)]
pub struct Editor {
    line: String,
    history: Vec<String>,
    /// The line of the history that is shown; past its end is the new one.
    shown: usize,
    /// Bytes of an escape sequence so far.
    escape: Vec<u8>,
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
pub enum Key {
    /// Nothing to see.
    Nothing,
    /// This is to be shown.
    Show(String),
    /// The line is complete.
    Line(String),
}

impl Editor {
    /// Takes a byte that was typed. `words` are those that the tabulator completes.
    pub fn key(&mut self, byte: u8, words: &[&str]) -> Key {
        if !self.escape.is_empty() {
            return self.continue_escape(byte);
        }
        match byte {
            b'\r' | b'\n' => {
                let line = core::mem::take(&mut self.line);
                if !line.trim().is_empty() && self.history.last() != Some(&line) {
                    if self.history.len() == REMEMBERED {
                        self.history.remove(0);
                    }
                    self.history.push(line.clone());
                }
                self.shown = self.history.len();
                Key::Line(line)
            }
            8 | 0x7f => match self.line.pop() {
                Some(_) => Key::Show("\x08 \x08".into()),
                None => Key::Nothing,
            },
            // Control-C and control-U.
            3 | 0x15 => self.replace(String::new()),
            b'\t' => self.complete(words),
            0x1b => {
                self.escape.push(byte);
                Key::Nothing
            }
            // Characters beyond ASCII come in several bytes; prompts in other scripts are for the API.
            0x20..0x7f if self.line.len() < LONGEST => {
                self.line.push(char::from(byte));
                Key::Show(String::from(char::from(byte)))
            }
            _ => Key::Nothing,
        }
    }

    fn continue_escape(&mut self, byte: u8) -> Key {
        self.escape.push(byte);
        match self.escape[1..] {
            [b'[' | b'O'] => return Key::Nothing,
            [b'[' | b'O', end] if !end.is_ascii_alphabetic() && self.escape.len() < 8 => {
                return Key::Nothing;
            }
            _ => {}
        }
        self.escape.clear();
        let to = match byte {
            b'A' => self.shown.saturating_sub(1),
            b'B' => (self.shown + 1).min(self.history.len()),
            _ => return Key::Nothing,
        };
        self.shown = to;
        let line = self.history.get(to).cloned().unwrap_or_default();
        self.replace(line)
    }

    /// Shows another line in place of this one.
    fn replace(&mut self, line: String) -> Key {
        let mut text = "\x08 \x08".repeat(self.line.len());
        text.push_str(&line);
        self.line = line;
        Key::Show(text)
    }

    /// Completes the line as far as all fitting words agree; lists them where that adds nothing.
    fn complete(&mut self, words: &[&str]) -> Key {
        let fitting = || words.iter().filter(|word| word.starts_with(&self.line));
        let mut common = match fitting().next() {
            Some(first) => *first,
            None => return Key::Nothing,
        };
        for word in fitting() {
            let same = common.bytes().zip(word.bytes()).take_while(|(a, b)| a == b);
            common = &common[..same.count()];
        }
        let mut added = String::from(&common[self.line.len()..]);
        match fitting().count() {
            1 => added.push(' '),
            _ if added.is_empty() => {
                let list: Vec<&str> = fitting().copied().collect();
                return Key::Show(format!("\n{}\n> {}", list.join("  "), self.line));
            }
            _ => {}
        }
        self.line.push_str(&added);
        Key::Show(added)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut editor = Editor::default();
        let words = ["help", "info", "ip"];
        let keys = bytes.iter().map(|&byte| editor.key(byte, &words));
        keys.filter_map(|key| match key {
            Key::Line(line) => Some(line),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn lines_are_typed_corrected_and_completed() {
        assert_eq!(lines(b"ab\x7fc\r"), ["ac"]);
        assert_eq!(lines(b"junk\x15ip\n"), ["ip"]);
        assert_eq!(lines(b"h\t\r"), ["help "]);
        assert_eq!(lines(b"i\tn\t\r"), ["info "]);
        assert_eq!(lines(b"x\t\r"), ["x"]);
    }

    #[test]
    fn the_tabulator_lists_what_it_cannot_choose_from() {
        let mut editor = Editor::default();
        let words = ["help", "info", "ip"];
        let shown = |text: &str| Key::Show(text.into());
        assert_eq!(editor.key(b'\t', &words), shown("\nhelp  info  ip\n> "));
        editor.key(b'i', &words);
        assert_eq!(editor.key(b'\t', &words), shown("\ninfo  ip\n> i"));
    }

    #[test]
    fn earlier_lines_come_back() {
        assert_eq!(lines(b"one\rtwo\r\x1b[A\x1b[A\r"), ["one", "two", "one"]);
        assert_eq!(lines(b"one\r\x1b[A\x1b[B\x1b[3~new\r"), ["one", "new"]);
    }

    #[test]
    fn whatever_is_typed_the_editor_goes_on() {
        let mut editor = Editor::default();
        let mut state = 1u32;
        for _ in 0..200_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            editor.key((state >> 24) as u8, &["help"]);
            assert!(editor.line.len() <= LONGEST + 8 && editor.history.len() <= REMEMBERED);
        }
    }
}
