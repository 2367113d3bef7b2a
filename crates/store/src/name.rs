//! Names of models: `host/namespace/model:tag`, with Ollama's defaults and no room for paths that climb.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The registry of names that have no host.
pub const DEFAULT_HOST: &str = "registry.ollama.ai";
const DEFAULT_NAMESPACE: &str = "library";
const DEFAULT_TAG: &str = "latest";

/// A complete name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    host: String,
    namespace: String,
    model: String,
    tag: String,
}

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Nothing where a part should be.
    #[error("the name {name:?} has no {part}")]
    Empty {
        /// The text.
        name: String,
        /// What is missing.
        part: Part,
    },
    /// A part is too long.
    #[error("the {part} of the name {name:?} has more than {} characters", part.longest())]
    Long {
        /// The text.
        name: String,
        /// The part.
        part: Part,
    },
    /// A part has a character that it may not have.
    #[error("the {part} of the name {name:?} cannot have {character:?} there")]
    Character {
        /// The text.
        name: String,
        /// The part.
        part: Part,
        /// The character.
        character: char,
    },
    /// There are more parts than names have.
    #[error("the name {0:?} has more parts than host/namespace/model:tag")]
    Parts(String),
}

/// A part of a name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Part {
    Host,
    Namespace,
    Model,
    Tag,
}

impl Part {
    fn longest(self) -> usize {
        match self {
            Self::Host => 350,
            Self::Namespace | Self::Model | Self::Tag => 80,
        }
    }

    /// The first character is never one of these, so that no part is `.` or `..` or looks like a flag.
    fn may_have(self, character: char) -> bool {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => true,
            '.' => self != Self::Namespace,
            ':' => self == Self::Host,
            _ => false,
        }
    }

    fn check(self, text: &str, name: &str) -> Result<(), NameError> {
        let name = || name.chars().take(400).collect::<String>();
        let part = self;
        let Some(first) = text.chars().next() else {
            return Err(NameError::Empty { name: name(), part });
        };
        if text.len() > self.longest() {
            return Err(NameError::Long { name: name(), part });
        }
        let bad = match first {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => text.chars().find(|&c| !self.may_have(c)),
            _ => Some(first),
        };
        match bad {
            None => Ok(()),
            Some(character) => Err(NameError::Character {
                name: name(),
                part,
                character,
            }),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Namespace => "namespace",
            Self::Model => "model",
            Self::Tag => "tag",
        })
    }
}

impl Name {
    /// Puts a name together from its parts, each checked.
    pub fn new(host: &str, namespace: &str, model: &str, tag: &str) -> Result<Self, NameError> {
        let whole = format!("{host}/{namespace}/{model}:{tag}");
        Part::Host.check(host, &whole)?;
        Part::Namespace.check(namespace, &whole)?;
        Part::Model.check(model, &whole)?;
        Part::Tag.check(tag, &whole)?;
        Ok(Self {
            host: host.into(),
            namespace: namespace.into(),
            model: model.into(),
            tag: tag.into(),
        })
    }

    /// The registry.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whose it is.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Which of its variants.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Where its manifest is under `manifests`.
    pub(crate) fn path(&self) -> PathBuf {
        [&self.host, &self.namespace, &self.model, &self.tag]
            .iter()
            .collect()
    }

    /// Whether the two differ at most in upper and lower case, which some file systems do not tell apart.
    pub(crate) fn same_letters(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host)
            && self.namespace.eq_ignore_ascii_case(&other.namespace)
            && self.model.eq_ignore_ascii_case(&other.model)
            && self.tag.eq_ignore_ascii_case(&other.tag)
    }
}

impl FromStr for Name {
    type Err = NameError;

    /// Reads a name; what is left out is `registry.ollama.ai`, `library` and `latest`.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let (path, tag) = match text.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, tag),
            _ => (text, DEFAULT_TAG),
        };
        let mut parts = path.rsplitn(4, '/');
        let model = parts.next().unwrap_or_default();
        let namespace = parts.next();
        let host = parts.next();
        if parts.next().is_some() {
            return Err(NameError::Parts(text.chars().take(400).collect()));
        }
        let check = |part: Part, value: &str| part.check(value, text);
        let host = host.unwrap_or(DEFAULT_HOST);
        let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
        check(Part::Host, host)?;
        check(Part::Namespace, namespace)?;
        check(Part::Model, model)?;
        check(Part::Tag, tag)?;
        Ok(Self {
            host: host.into(),
            namespace: namespace.into(),
            model: model.into(),
            tag: tag.into(),
        })
    }
}

impl fmt::Display for Name {
    /// As short as it can be read back, with its tag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host != DEFAULT_HOST {
            write!(f, "{}/{}/", self.host, self.namespace)?;
        } else if self.namespace != DEFAULT_NAMESPACE {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}:{}", self.model, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> [String; 4] {
        let name: Name = text.parse().unwrap();
        [name.host, name.namespace, name.model, name.tag]
    }

    #[test]
    fn what_is_left_out_has_defaults() {
        let host = DEFAULT_HOST;
        for (text, expected) in [
            ("llama3.2", [host, "library", "llama3.2", "latest"]),
            ("llama3.2:1b", [host, "library", "llama3.2", "1b"]),
            ("me/thing", [host, "me", "thing", "latest"]),
            (
                "localhost:5000/me/thing:x",
                ["localhost:5000", "me", "thing", "x"],
            ),
            (
                "localhost:5000/me/thing",
                ["localhost:5000", "me", "thing", "latest"],
            ),
            ("hf.co/u/r-GGUF:Q4_K_M", ["hf.co", "u", "r-GGUF", "Q4_K_M"]),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_shown_as_short_as_they_are_read_back() {
        for text in ["a:b", "n/a:b", "h.x:80/library/a:b", "hf.co/n/a:latest"] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
        }
        let name: Name = "registry.ollama.ai/library/a".parse().unwrap();
        assert_eq!(name.to_string(), "a:latest");
    }

    #[test]
    fn nothing_climbs_or_hides() {
        for text in [
            "",
            ":",
            "a:",
            ":a",
            "/a",
            "a/",
            "..",
            "../a",
            "a/..",
            "a/../b",
            "../../etc/passwd",
            "a:..",
            "-a",
            ".a",
            "a b",
            "a\0b",
            "a\\b",
            "a/b/c/d",
            "a//b",
            "é",
            "a:b:c",
            "a.b/c",
            "x/a@sha256",
            "%2e%2e/a",
            "a\n",
        ] {
            assert!(text.parse::<Name>().is_err(), "{text:?}");
        }
        assert!(format!("{}:x", "a".repeat(81)).parse::<Name>().is_err());
        assert!(format!("{}:x", "a".repeat(80)).parse::<Name>().is_ok());
    }
}
