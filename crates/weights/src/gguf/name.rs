//! A key or tensor name quoted in an error.

use alloc::boxed::Box;
use core::fmt::{self, Write};

/// The most bytes of a name that an error keeps, and the most characters that it shows.
const KEPT: usize = 80;

/// A name out of a file, cut to at most 80 bytes. Shown in quotes with control characters escaped, so a
/// hostile name cannot write to a terminal or a log, and in about 80 characters, escapes included.
#[derive(Clone, PartialEq, Eq)]
pub struct Name {
    kept: Box<str>,
    cut: bool,
}

impl Name {
    /// Keeps the beginning of a name.
    pub fn new(name: &str) -> Name {
        let kept = &name[..name.floor_char_boundary(KEPT)];
        Name {
            kept: kept.into(),
            cut: kept.len() < name.len(),
        }
    }

    /// What was kept of the name.
    pub fn as_str(&self) -> &str {
        &self.kept
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let (mut shown, mut cut) = (0, self.cut);
        for escape in self.kept.chars().map(char::escape_debug) {
            shown += escape.len();
            if shown > KEPT {
                cut = true;
                break;
            }
            write!(f, "{escape}")?;
        }
        f.write_str(if cut { "…\"" } else { "\"" })
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::Name;

    #[test]
    fn names_are_shown_short_and_escaped() {
        assert_eq!(Name::new("blk.0.été").to_string(), "\"blk.0.été\"");
        assert_eq!(Name::new("a\n\"\x1b").to_string(), r#""a\n\"\u{1b}""#);
        let long = Name::new(&"é".repeat(1000)).to_string();
        assert!(
            long.ends_with("é…\"") && long.chars().count() == 43,
            "{long}"
        );
        let escapes = Name::new(&"\x1d".repeat(80)).to_string();
        assert!(
            escapes.ends_with("\\u{1d}…\"") && escapes.len() < 100,
            "{escapes}"
        );
    }
}
