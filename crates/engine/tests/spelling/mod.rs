//! A small constraint: only some tokens, in runs of a fixed length between fixed tokens.
#![allow(dead_code, reason = "no test uses all of it")]

use strata_engine::{Constraint, ConstraintError, TokenMask};

/// Every fourth token must be `comma`; the others must leave a rest of 1 when divided by 3. Ends after `length` tokens.
#[derive(Clone)]
pub(crate) struct Rhythm {
    pub(crate) comma: u32,
    pub(crate) length: usize,
    pub(crate) taken: usize,
    /// Whether it tells that commas are forced, or leaves that to the mask.
    pub(crate) forces: bool,
    /// The token after which it fails, and how.
    pub(crate) fault: Option<(usize, Fault)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    Error,
    Nothing,
    Nonsense,
}

impl Rhythm {
    pub(crate) fn new(length: usize) -> Self {
        Self {
            comma: 44,
            length,
            taken: 0,
            forces: true,
            fault: None,
        }
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
            .filter(|(after, _)| self.taken >= *after)
            .map(|(_, fault)| fault)
    }

    pub(crate) fn holds(&self, tokens: &[u32]) -> bool {
        tokens.iter().enumerate().all(|(i, &token)| match i % 4 {
            3 => token == self.comma,
            _ => token % 3 == 1,
        })
    }
}

impl Constraint for Rhythm {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        match self.fault() {
            Some(Fault::Error) => return Err(ConstraintError::DeadEnd),
            Some(Fault::Nothing) => return Ok(()),
            _ => {}
        }
        match self.taken % 4 {
            3 => mask.allow(self.comma),
            _ => (0..mask.vocabulary() as u32)
                .filter(|token| token % 3 == 1)
                .for_each(|token| mask.allow(token)),
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        let right = match self.taken % 4 {
            3 => token == self.comma,
            _ => token % 3 == 1,
        };
        if !right {
            return Err(ConstraintError::Token { token });
        }
        self.taken += 1;
        Ok(())
    }

    fn forced(&mut self, out: &mut Vec<u32>) -> Result<(), ConstraintError> {
        if self.fault() == Some(Fault::Nonsense) {
            out.push(u32::MAX);
        } else if self.forces && self.taken % 4 == 3 {
            out.push(self.comma);
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.taken >= self.length
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}
