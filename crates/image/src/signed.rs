//! Settings that are signed: the last of them is `signature`, an Ed25519 signature (RFC 8032) in hexadecimal digits of
//! everything before it. On a command line that is a last word, in `strata.toml` a last line.

use alloc::vec::Vec;
use ed25519_compact::{PublicKey, Signature};
use thiserror::Error;

/// What is signed begins with this, so that a signature of something else is none of settings.
const CONTEXT: &[u8] = b"strata settings 1\n";
const NAME: &str = "signature";
/// What an image says about itself, which settings elsewhere cannot: the key that its settings are signed with, that it
/// takes no others, and the signature.
pub const OF_IMAGE: [&str; 3] = ["trust", "sealed", NAME];

/// Why settings are not trusted.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error("they are not signed")]
    Absent,
    /// There is something else.
    #[error("their signature is not 128 hexadecimal digits")]
    Malformed,
    /// It is not a signature of this text by that key.
    #[error("their signature is wrong")]
    Wrong,
    /// The key is none.
    #[error("the key that signed them is not an Ed25519 key of 64 hexadecimal digits")]
    Key,
}

/// What is to be signed for a text.
pub fn message(text: &[u8]) -> Vec<u8> {
    [CONTEXT, text].concat()
}

/// The settings of a signed text, if the other half of `key` has signed them.
pub fn verify<'a>(text: &'a str, key: &[u8; 32]) -> Result<&'a str, SignatureError> {
    let (settings, rest) = text.rsplit_once(NAME).ok_or(SignatureError::Absent)?;
    let in_file = || rest.strip_prefix(" = \"")?.strip_suffix("\"\n");
    let digits = rest.strip_prefix('=').or_else(in_file);
    let digits = digits.ok_or(SignatureError::Malformed)?;
    let signature: [u8; 64] = from_hex(digits).ok_or(SignatureError::Malformed)?;
    let key = PublicKey::from_slice(key).map_err(|_| SignatureError::Key)?;
    let signature = Signature::from_slice(&signature).map_err(|_| SignatureError::Malformed)?;
    // In pieces, because a machine that has just been turned on has no memory to join them in.
    let wrong = |_| SignatureError::Wrong;
    let mut checked = key.verify_incremental(&signature).map_err(wrong)?;
    checked.absorb(CONTEXT);
    checked.absorb(settings);
    checked.verify().map_err(wrong)?;
    Ok(settings)
}

/// The bytes that so many hexadecimal digits stand for.
pub fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    if digits.len() != 2 * N || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in out.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use ed25519_compact::{KeyPair, Seed};

    fn key() -> KeyPair {
        KeyPair::from_seed(Seed::new([3; 32]))
    }

    fn signed(text: &str) -> String {
        let signature = key().sk.sign(message(text.as_bytes()), None);
        let digits: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{text}signature = \"{digits}\"\n")
    }

    #[test]
    fn one_changed_bit_is_noticed() {
        let text = signed("port = 80\nname = \"a fox\"\n");
        let settings = verify(&text, &key().pk).unwrap();
        assert_eq!(settings, "port = 80\nname = \"a fox\"\n");
        let mut changes = 0;
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let changed = String::from_utf8(bytes).unwrap();
                // A digit's case says nothing.
                let same = at > text.len() - 131 && changed.to_ascii_lowercase() == text;
                if !same {
                    assert!(verify(&changed, &key().pk).is_err(), "{changed}");
                    changes += 1;
                }
            }
        }
        assert!(changes > 1000);
    }

    #[test]
    fn what_is_not_signed_by_the_key_is_refused() {
        let text = signed("port=80 ");
        let other = KeyPair::from_seed(Seed::new([4; 32])).pk;
        assert_eq!(verify(&text, &other), Err(SignatureError::Wrong));
        assert_eq!(verify("port=80", &key().pk), Err(SignatureError::Absent));
        assert_eq!(verify("", &key().pk), Err(SignatureError::Absent));
        let malformed = Err(SignatureError::Malformed);
        assert_eq!(verify("a=1 signature=12", &key().pk), malformed);
        let plus = format!("a=1 signature={}", "+1".repeat(64));
        assert_eq!(verify(&plus, &key().pk), malformed);
        // Something may follow that the signature does not cover.
        let longer = format!("{text}port = 81\n");
        assert_eq!(verify(&longer, &key().pk), malformed);
        // A signature of the same bytes for another purpose.
        let plain = key().sk.sign(b"port=80 ", None);
        let digits: String = plain.iter().map(|byte| format!("{byte:02x}")).collect();
        let reused = format!("port=80 signature={digits}");
        assert_eq!(verify(&reused, &key().pk), Err(SignatureError::Wrong));
    }
}
