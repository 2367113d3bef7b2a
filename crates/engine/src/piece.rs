//! A piece of text that owns its bytes, in itself where it is short, as that of a token is.

use alloc::string::String;
use core::fmt;
use core::ops::Deref;

/// Bytes that need no memory beside the piece itself.
const SHORT: usize = 38;

/// A piece of text. A short one takes no memory elsewhere, so that telling of a token allocates nothing.
#[derive(Clone)]
pub struct Piece(Kind);

#[derive(Clone)]
enum Kind {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(String),
}

impl Piece {
    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            // They were a text's bytes when they were put there.
            Kind::Short { len, bytes } => {
                core::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default()
            }
            Kind::Long(text) => text,
        }
    }
}

impl Default for Piece {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for Piece {
    fn from(text: &str) -> Self {
        let mut bytes = [0; SHORT];
        Self(match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Kind::Short {
                    len: text.len() as u8,
                    bytes,
                }
            }
            None => Kind::Long(text.into()),
        })
    }
}

impl From<String> for Piece {
    fn from(text: String) -> Self {
        match text.len() > SHORT {
            true => Self(Kind::Long(text)),
            false => Self::from(text.as_str()),
        }
    }
}

impl From<Piece> for String {
    fn from(piece: Piece) -> Self {
        match piece.0 {
            Kind::Long(text) => text,
            Kind::Short { .. } => piece.as_str().into(),
        }
    }
}

impl Deref for Piece {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Piece {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Piece {}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_its_text_whatever_its_length() {
        for text in [
            "",
            "a",
            "漢字🦙",
            "long enough to need memory of its own: éééé",
        ] {
            let repeated = text.repeat(3);
            for text in [text, &repeated] {
                assert_eq!(Piece::from(text).as_str(), text);
                assert_eq!(&*Piece::from(String::from(text)), text);
                assert_eq!(String::from(Piece::from(text)), text);
            }
        }
        for len in SHORT - 1..=SHORT + 1 {
            let text = "x".repeat(len);
            assert_eq!(Piece::from(text.clone()), Piece::from(text.as_str()));
            assert_eq!(Piece::from(text.as_str()).len(), len);
        }
    }
}
