//! The kernel's command line: words `key=value` or `key`, where quotes keep spaces.

use core::fmt;

/// Longer ones are cut off.
const CAPACITY: usize = 2048;

/// The options that the program was started with.
#[derive(Clone)]
pub struct CommandLine {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl CommandLine {
    /// No options.
    pub const fn new() -> Self {
        Self {
            bytes: [0; CAPACITY],
            len: 0,
        }
    }

    /// Takes a copy, up to the first zero or the first byte that is no UTF-8, and at most 2048 bytes.
    pub fn copy(text: &[u8]) -> Self {
        let mut line = Self::new();
        let end = text.iter().position(|&byte| byte == 0);
        let text = &text[..end.unwrap_or(text.len()).min(CAPACITY)];
        let valid = match core::str::from_utf8(text) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        line.bytes[..valid].copy_from_slice(&text[..valid]);
        line.len = valid;
        line
    }

    /// These options and then others, which count more where both name a key.
    pub fn and(&self, others: &Self) -> Self {
        let mut line = self.clone();
        for text in [" ", others.as_str()] {
            let (end, room) = (line.len, CAPACITY - line.len);
            let cut = text.floor_char_boundary(room);
            line.bytes[end..end + cut].copy_from_slice(&text.as_bytes()[..cut]);
            line.len += cut;
        }
        line
    }

    /// All of it.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    /// The value of the last `key=value`; of a bare `key` it is empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).last()
    }

    /// The values of all `key=value`, in order.
    pub fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        words(self.as_str()).filter_map(move |word| match word.split_once('=') {
            Some((name, value)) => (name == key).then(|| unquote(value)),
            None => (word == key).then_some(""),
        })
    }
}

impl Default for CommandLine {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c: char| {
        quoted ^= c == '"';
        !quoted && c.is_whitespace()
    })
    .filter(|word| !word.is_empty())
}

fn unquote(value: &str) -> &str {
    let inner = value.strip_prefix('"').unwrap_or(value);
    inner.strip_suffix('"').unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_by_name() {
        let line = CommandLine::copy(
            b"quiet prompt=\"Once upon a time\" n=32  temp=0 n=64 empty= =odd\0junk",
        );
        assert_eq!(line.get("quiet"), Some(""));
        assert_eq!(line.get("prompt"), Some("Once upon a time"));
        assert_eq!(line.get("n"), Some("64"));
        assert!(line.all("n").eq(["32", "64"]));
        assert_eq!(line.get("empty"), Some(""));
        assert_eq!(line.get("temp"), Some("0"));
        assert_eq!(line.get("upon"), None);
        assert_eq!(line.get("junk"), None);
    }

    #[test]
    fn later_options_count_more() {
        let line = CommandLine::copy(b"key=one n=1").and(&CommandLine::copy(b"n=2"));
        assert_eq!((line.get("key"), line.get("n")), (Some("one"), Some("2")));
        let long = CommandLine::copy(&[b'x'; 2047]).and(&CommandLine::copy("é".as_bytes()));
        assert_eq!(long.as_str().len(), 2048);
    }

    #[test]
    fn odd_text_is_cut_off_not_refused() {
        assert_eq!(CommandLine::copy(b"a=1 \xff b=2").get("b"), None);
        assert_eq!(CommandLine::copy(&[b'x'; 9000]).as_str().len(), 2048);
        let mut cut = [b'x'; 2049];
        cut[2047..].copy_from_slice("é".as_bytes());
        assert_eq!(CommandLine::copy(&cut).as_str().len(), 2047);
        assert_eq!(
            CommandLine::copy(b"p=\"open end").get("p"),
            Some("open end")
        );
        assert_eq!(CommandLine::copy(b"p=\"").get("p"), Some(""));
    }
}
