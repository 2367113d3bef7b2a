//! A text that the model must say, chosen token by token like any other: random weights would never repeat a prompt.

use strata_engine::{Constraint, ConstraintError, TokenMask};

/// One of so many tokens differs from the prompt, as in a text that was edited.
const EDITED: usize = 16;

/// The text, and how much of it was said.
#[derive(Clone)]
pub(super) struct Recital {
    text: Vec<u32>,
    said: usize,
}

impl Recital {
    /// `tokens` tokens that repeat the prompt, from its start on and again, with some changed.
    pub(super) fn new(prompt: &[u32], tokens: usize, vocabulary: usize) -> Self {
        let edit = |(at, &token): (usize, &u32)| match (at + 1) % EDITED {
            0 => (token + 1) % vocabulary as u32,
            _ => token,
        };
        let repeated = prompt.iter().cycle().take(tokens);
        Self {
            text: repeated.enumerate().map(edit).collect(),
            said: 0,
        }
    }
}

impl Constraint for Recital {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        match self.text.get(self.said) {
            Some(&token) => mask.allow(token),
            None => mask.allow_all(),
        }
        Ok(())
    }

    fn accept(&mut self, _: u32) -> Result<(), ConstraintError> {
        self.said += 1;
        Ok(())
    }

    // What is forced would not be computed.
    fn forced(&mut self, _: &mut Vec<u32>) -> Result<(), ConstraintError> {
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recital_repeats_its_prompt_but_for_the_edits() {
        let prompt: Vec<u32> = (100..130).collect();
        let recital = Recital::new(&prompt, 64, 200);
        let same = |&(at, token): &(usize, &u32)| *token == prompt[at % prompt.len()];
        assert_eq!(recital.text.iter().enumerate().filter(same).count(), 60);
        assert!(recital.text.iter().all(|&token| token < 200));
    }
}
