//! Whether a model is the one that was meant: its SHA-256.

use alloc::string::String;
use core::fmt::Write;
use strata_platform::Sha256;
use thiserror::Error;

/// A model that is another one than was meant.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the model's SHA-256 is {found}, not the one that is asked for")]
pub struct DigestError {
    /// What it is.
    pub found: String,
}

/// The digest at the beginning of a text: 64 hexadecimal digits, as `sha256sum` writes them.
pub fn digest_from(text: &[u8]) -> Option<[u8; 32]> {
    let digits = core::str::from_utf8(text.trim_ascii().get(..64)?).ok()?;
    let mut out = [0; 32];
    for (byte, at) in out.iter_mut().zip((0..64).step_by(2)) {
        let pair = digits
            .get(at..at + 2)
            .filter(|pair| !pair.starts_with('+'))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(out)
}

/// A digest in the making, of bytes that may end at one of several places: of a raw disk it is not known what follows
/// the model.
#[derive(Clone)]
pub struct Sum {
    wanted: [u8; 32],
    /// They rise.
    ends: [usize; 3],
    sum: Sha256,
    at: usize,
    right: bool,
}

impl Sum {
    /// Of nothing yet.
    pub fn new(wanted: [u8; 32], ends: [usize; 3]) -> Self {
        let (sum, at, right) = (Sha256::new(), 0, false);
        Self {
            wanted,
            ends,
            sum,
            at,
            right,
        }
    }

    /// Adds the bytes that follow.
    pub fn add(&mut self, mut bytes: &[u8]) {
        for end in self.ends {
            if let Some((before, after)) = bytes.split_at_checked(end.saturating_sub(self.at))
                && self.at <= end
                && !self.right
            {
                self.sum.update(before);
                self.at = end;
                self.right = self.sum.clone().finalize() == self.wanted;
                bytes = after;
            }
        }
        self.sum.update(bytes);
        self.at += bytes.len();
    }

    /// Whether the bytes up to one of the ends are those that were meant.
    pub fn is_right(&self) -> bool {
        self.right
    }

    /// Fails unless they are.
    pub fn finish(self) -> Result<(), DigestError> {
        let mut found = String::new();
        if self.right {
            return Ok(());
        }
        for byte in self.sum.finalize() {
            // Writing to a string does not fail.
            let _ = write!(found, "{byte:02x}");
        }
        Err(DigestError { found })
    }
}
