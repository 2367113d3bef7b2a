//! A string that is stored inline where it is short, as the text of a token is.

use alloc::string::String;
use core::fmt;
use core::ops::Deref;

/// Bytes stored inline.
const SHORT: usize = 38;

/// A string. A short one is stored inline, so that an event about a token allocates nothing.
#[derive(Clone)]
pub struct SmallString(Kind);

#[derive(Clone)]
enum Kind {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(String),
}

impl SmallString {
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

impl Default for SmallString {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for SmallString {
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

impl From<String> for SmallString {
    fn from(text: String) -> Self {
        if text.len() > SHORT {
            Self(Kind::Long(text))
        } else {
            Self::from(text.as_str())
        }
    }
}

impl From<SmallString> for String {
    fn from(text: SmallString) -> Self {
        match text.0 {
            Kind::Long(text) => text,
            Kind::Short { .. } => text.as_str().into(),
        }
    }
}

impl Deref for SmallString {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for SmallString {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SmallString {}

impl fmt::Debug for SmallString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for SmallString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_its_text_whatever_its_length() {
        for text in [
            "",
            "a",
            "漢字🦙",
            "long enough to need memory of its own: éééé",
        ] {
            let repeated = text.repeat(3);
            for text in [text, &repeated] {
                assert_eq!(SmallString::from(text).as_str(), text);
                assert_eq!(&*SmallString::from(String::from(text)), text);
                assert_eq!(String::from(SmallString::from(text)), text);
            }
        }
        for len in SHORT - 1..=SHORT + 1 {
            let text = "x".repeat(len);
            assert_eq!(
                SmallString::from(text.clone()),
                SmallString::from(text.as_str())
            );
            assert_eq!(SmallString::from(text.as_str()).len(), len);
        }
    }
}
