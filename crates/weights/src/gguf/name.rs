//! A key or tensor name quoted in an error.

use alloc::boxed::Box;
use core::fmt;

/// The most bytes of a name that an error keeps.
const KEPT: usize = 80;

/// A name out of a file, cut to at most 80 bytes. Shown in quotes with control characters escaped, so a
/// hostile name cannot write to a terminal or a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Name(Box<str>);

impl Name {
    /// Keeps the beginning of a name.
    pub fn new(name: &str) -> Name {
        Name(name[..name.floor_char_boundary(KEPT)].into())
    }

    /// What was kept of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
