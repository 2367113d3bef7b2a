//! White space in JSON. Small models are fond of it, so there is little: a space, or a newline with its indentation where
//! the model lays its answer out in lines. It decides that where it opens the first object or list: a newline there
//! allows one in every gap, anything else allows none.

use crate::vocabulary::Words;
use alloc::sync::Arc;
use strata_engine::TokenMask;

/// White space between the tokens of JSON in one line.
pub const ONE_LINE: &str = "[ ]";
/// The same in an answer that may have lines. Deeper indentation than this is of no use to readers.
pub const LINES: &str = r"[ ]|\n(?:[ ]{0,16}|\t{0,8})";

/// The layout of an answer that is being written.
#[derive(Clone, Debug)]
pub struct Layout {
    state: State,
    words: Arc<Words>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nothing has been opened.
    Start,
    /// The first object or list has just been opened.
    Opened,
    Lines,
    OneLine,
}

impl State {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Start, b'{' | b'[') => Self::Opened,
            (Self::Opened, b'\n') => Self::Lines,
            (Self::Opened, _) => Self::OneLine,
            (state, _) => state,
        }
    }
}

impl Layout {
    /// The layout of an answer that has not begun.
    pub fn new(words: Arc<Words>) -> Self {
        Self {
            state: State::Start,
            words,
        }
    }

    /// Whether the layout has no room for a token. A newline cannot stand within a string of JSON, so that every token
    /// that has one breaks the line.
    pub fn bans(&self, token: u32) -> bool {
        let word = self.words.newlines().get(token as usize / 32);
        self.state == State::OneLine && word.is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Takes the tokens that the layout has no room for out of those allowed.
    pub fn restrict(&self, mask: &mut TokenMask) {
        if self.state == State::OneLine {
            let words = mask.words_mut().iter_mut();
            for (word, newlines) in words.zip(self.words.newlines()) {
                *word &= !newlines;
            }
        }
    }

    /// Goes on behind a token.
    pub fn accept(&mut self, token: u32) {
        if matches!(self.state, State::Start | State::Opened) {
            let bytes = self.words.tokenizer().token_bytes(token);
            let bytes = bytes.unwrap_or_default();
            self.state = bytes
                .iter()
                .fold(self.state, |state, &byte| state.after(byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn the_first_bracket_decides() {
        let state = |text: &str| text.bytes().fold(State::Start, State::after);
        for (text, expected) in [
            ("", State::Start),
            ("12", State::Start),
            ("{", State::Opened),
            (" [", State::Opened),
            ("{\n", State::Lines),
            ("{\n \"a\": {", State::Lines),
            ("{\"a\":", State::OneLine),
            ("{ ", State::OneLine),
            ("[]", State::OneLine),
        ] {
            assert_eq!(state(text), expected, "{text:?}");
        }
    }
}
