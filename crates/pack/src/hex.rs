//! Digests and keys as manifests write them: lower-case hexadecimal digits.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> String {
    encode(&Sha256::digest(bytes))
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The 32 bytes that 64 digits stand for.
pub(crate) fn decode32(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let plain = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 64 || !digits.iter().all(plain) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_back_and_nothing_else_is_taken() {
        let digest = sha256(b"");
        assert!(digest.starts_with("e3b0c442"), "{digest}");
        assert_eq!(encode(&decode32(&digest).unwrap()), digest);
        for bad in [
            "",
            "00",
            &digest.to_uppercase(),
            &format!("+{}", &digest[1..]),
        ] {
            assert_eq!(decode32(bad), None, "{bad}");
        }
    }
}
