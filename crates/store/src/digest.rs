//! SHA-256 digests as registries write them: `sha256:` and 64 hexadecimal digits.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read};

/// The digest of a blob.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Reads `sha256:<hex>`, as manifests have it, or `sha256-<hex>`, as files are called. Digits are lower case: that
    /// is how the files are found.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text
            .strip_prefix("sha256:")
            .or_else(|| text.strip_prefix("sha256-"))?;
        Self::from_hex(hex)
    }

    /// Reads the 64 digits alone.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let hex: &[u8; 64] = hex.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of all that can be read. `tick` hears how many bytes have been read; an error of its ends the work.
    pub fn of_reader(
        mut reader: impl Read,
        mut tick: impl FnMut(u64) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        let mut read = 0;
        loop {
            let n = match reader.read(&mut buffer) {
                Ok(0) => return Ok(Self(hasher.finalize().into())),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hasher.update(&buffer[..n]);
            read += n as u64;
            tick(read)?;
        }
    }

    /// The 64 digits.
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |n: u8| char::from(DIGITS[usize::from(n)]);
        self.0
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
            .collect()
    }

    /// The name of the blob's file: `sha256-<hex>`.
    pub fn file_name(&self) -> String {
        format!("sha256-{}", self.hex())
    }
}

/// A digest of bytes that come piece by piece.
#[derive(Clone, Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_read_and_written() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), format!("sha256:{EMPTY}"));
        assert_eq!(Digest::parse(&format!("sha256:{EMPTY}")), Some(digest));
        assert_eq!(Digest::parse(&digest.file_name()), Some(digest));
        assert_eq!(Digest::of_reader(&b""[..], |_| Ok(())).unwrap(), digest);
    }

    #[test]
    fn nothing_else_is_a_digest() {
        let bad = [
            String::new(),
            EMPTY.into(),
            format!("sha512:{EMPTY}"),
            format!("sha256:{}", EMPTY.to_uppercase()),
            format!("sha256:{EMPTY}0"),
            format!("sha256:../../{}", &EMPTY[6..]),
            format!("sha256:{}\n", &EMPTY[1..]),
            format!("sha256:+{}", &EMPTY[1..]),
            format!("sha256:é{}", &EMPTY[2..]),
        ];
        for text in bad {
            assert_eq!(Digest::parse(&text), None, "{text}");
        }
    }
}
