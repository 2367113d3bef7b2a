//! The options: words `key=value` or `key` of the kernel's command line, where quotes keep spaces; where it does not say,
//! what `strata.toml` says; and else those that are part of the image.

use core::fmt;
use strata_image::settings;

/// Longer ones are cut off.
const CAPACITY: usize = 4096;

#[derive(Clone)]
struct Text {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl Text {
    const fn new() -> Self {
        Self {
            bytes: [0; CAPACITY],
            len: 0,
        }
    }

    /// Up to the first zero or the first byte that is no UTF-8.
    fn copy(text: &[u8]) -> Self {
        let mut copy = Self::new();
        let end = text.iter().position(|&byte| byte == 0);
        let text = &text[..end.unwrap_or(text.len()).min(CAPACITY)];
        let valid = match core::str::from_utf8(text) {
            Ok(text) => text.len(),
            Err(error) => error.valid_up_to(),
        };
        copy.bytes[..valid].copy_from_slice(&text[..valid]);
        copy.len = valid;
        copy
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

/// The options that the program was started with.
#[derive(Clone)]
pub struct CommandLine {
    line: Text,
    file: Text,
    image: Text,
}

impl CommandLine {
    /// No options.
    pub const fn new() -> Self {
        Self {
            line: Text::new(),
            file: Text::new(),
            image: Text::new(),
        }
    }

    /// Takes a copy, up to the first zero or the first byte that is no UTF-8, and at most 4096 bytes.
    pub fn copy(text: &[u8]) -> Self {
        Self {
            line: Text::copy(text),
            ..Self::new()
        }
    }

    /// Takes the text of `strata.toml` for what the line does not say.
    pub fn set_file(&mut self, text: &[u8]) {
        self.file = Text::copy(text);
    }

    /// Others, which count more where both name a key, and these of the image.
    pub fn and(&self, others: &Self) -> Self {
        Self {
            image: self.line.clone(),
            ..others.clone()
        }
    }

    /// The text of `strata.toml`.
    pub fn file(&self) -> &str {
        self.file.as_str()
    }

    /// The line itself.
    pub fn as_str(&self) -> &str {
        self.line.as_str()
    }

    /// The value of the last `key=value`; of a bare `key` it is empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        let pairs = settings::pairs(self.file());
        let in_file = || Some(pairs.flatten().filter(|(name, _)| *name == key).last()?.1);
        let in_image = || values(self.image.as_str(), key).last();
        self.all(key).last().or_else(in_file).or_else(in_image)
    }

    /// The values of all `key=value` of the line, in order.
    pub fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        values(self.as_str(), key)
    }

    /// The keys of the line, also of bare ones.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        words(self.as_str()).map(|word| word.split_once('=').map_or(word, |(key, _)| key))
    }

    /// Forgets the words of the line that have other keys.
    pub fn keep_only(&mut self, keys: &[&str]) {
        let mut kept = Text::new();
        let known =
            |word: &&str| keys.contains(&word.split_once('=').map_or(*word, |(key, _)| key));
        for word in words(self.line.as_str()).filter(known) {
            for piece in [word, " "] {
                // It was there before, with a blank or an end behind it.
                let end = (kept.len + piece.len()).min(CAPACITY);
                kept.bytes[kept.len..end].copy_from_slice(&piece.as_bytes()[..end - kept.len]);
                kept.len = end;
            }
        }
        self.line = kept;
    }

    /// Adds `key=value`, which then holds; not if there is no room or it cannot be written so.
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let pieces = [" ", key, "=\"", value, "\""];
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let clean = |text: &str| !text.contains(['"', '\0']);
        let fits = CAPACITY - self.line.len >= bytes;
        if !fits || !clean(value) || !clean(key) || key.contains([' ', '=']) {
            return false;
        }
        let before = self.line.len;
        for piece in pieces {
            let end = self.line.len + piece.len();
            self.line.bytes[self.line.len..end].copy_from_slice(piece.as_bytes());
            self.line.len = end;
        }
        // Behind a quote that is not closed it would be part of another value.
        let holds = self.all(key).last() == Some(value);
        if !holds {
            self.line.len = before;
        }
        holds
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

fn values<'a>(text: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    words(text).filter_map(move |word| match word.split_once('=') {
        Some((name, value)) => (name == key).then(|| unquote(value)),
        None => (word == key).then_some(""),
    })
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
    use alloc::borrow::ToOwned;

    #[test]
    fn nothing_is_set_behind_a_quote_that_is_not_closed() {
        let mut line = CommandLine::copy(b"prompt=\"once");
        assert!(!line.set("name", "a fox"));
        assert_eq!(line.as_str(), "prompt=\"once");
        assert_eq!(line.get("name"), None);
    }

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
    fn other_words_are_forgotten() {
        let mut line = CommandLine::copy(b"port=1 then=\"a b\" quiet then=c");
        line.keep_only(&["then", "quiet"]);
        assert_eq!(line.as_str(), "then=\"a b\" quiet then=c ");
        let mut long = CommandLine::copy(&[b'x'; CAPACITY]);
        let word = long.as_str().to_owned();
        long.keep_only(&[&word]);
        assert_eq!(long.as_str(), word);
    }

    #[test]
    fn the_file_says_what_the_line_does_not() {
        let mut line = CommandLine::copy(b"port=80");
        line.set_file(b"[network]\nport = 90\nip = \"dhcp\"\nnonsense\nname = \"a b\"\n");
        assert_eq!(line.get("port"), Some("80"));
        assert_eq!(line.get("ip"), Some("dhcp"));
        assert_eq!(line.get("name"), Some("a b"));
        assert!(line.set("name", "c d") && line.set("port", "1"));
        assert_eq!(
            (line.get("name"), line.get("port")),
            (Some("c d"), Some("1"))
        );
        for (key, value) in [("a b", "c"), ("a", "\""), ("a=b", "c")] {
            assert!(!line.set(key, value));
        }
        assert!(!line.set("long", core::str::from_utf8(&[b'x'; 5000]).unwrap()));
    }

    #[test]
    fn the_images_options_count_least() {
        let mut given = CommandLine::copy(b"n=2");
        given.set_file(b"port = 1");
        let line = CommandLine::copy(b"key=one n=1 port=9").and(&given);
        assert_eq!((line.get("key"), line.get("n")), (Some("one"), Some("2")));
        assert_eq!(line.get("port"), Some("1"));
    }

    #[test]
    fn odd_text_is_cut_off_not_refused() {
        assert_eq!(CommandLine::copy(b"a=1 \xff b=2").get("b"), None);
        assert_eq!(CommandLine::copy(&[b'x'; 9000]).as_str().len(), CAPACITY);
        let mut cut = [b'x'; CAPACITY + 1];
        cut[CAPACITY - 1..].copy_from_slice("é".as_bytes());
        assert_eq!(CommandLine::copy(&cut).as_str().len(), CAPACITY - 1);
        assert_eq!(
            CommandLine::copy(b"p=\"open end").get("p"),
            Some("open end")
        );
        assert_eq!(CommandLine::copy(b"p=\"").get("p"), Some(""));
    }
}
