//! Whether a model is the one that was meant: its SHA-256.

use alloc::string::String;
use core::fmt::Write;
use strata_platform::Sha256;
use thiserror::Error;

/// Bytes between two tellings of progress.
const STEP: usize = 4 << 20;

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

/// Fails unless the bytes up to one of `ends`, which rise, have this digest: of a raw disk it is not known what follows
/// the model.
pub fn verify(
    bytes: &[u8],
    ends: &[usize],
    wanted: &[u8; 32],
    progress: &mut dyn FnMut(),
) -> Result<(), DigestError> {
    let (mut sum, mut at) = (Sha256::new(), 0);
    for &end in ends {
        for part in bytes.get(at..end).unwrap_or_default().chunks(STEP) {
            sum.update(part);
            progress();
        }
        at = at.max(end.min(bytes.len()));
        if sum.clone().finalize() == *wanted {
            return Ok(());
        }
    }
    let mut found = String::new();
    for byte in sum.finalize() {
        // Writing to a string does not fail.
        let _ = write!(found, "{byte:02x}");
    }
    Err(DigestError { found })
}
