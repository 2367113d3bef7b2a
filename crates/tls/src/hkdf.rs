//! The key schedule's functions: HMAC (RFC 2104) and HKDF (RFC 5869) with SHA-256, and TLS's labels.

use alloc::vec::Vec;
use strata_platform::Sha256;

pub(crate) type Secret = [u8; 32];

/// HMAC with a key that is no longer than a block.
pub(crate) fn hmac(key: &Secret, message: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        for (pad, key) in block.iter_mut().zip(key) {
            *pad ^= key;
        }
        block
    };
    let mut inner = Sha256::new();
    inner.update(pad(0x36));
    inner.update(message);
    let mut outer = Sha256::new();
    outer.update(pad(0x5c));
    outer.update(inner.finalize());
    outer.finalize()
}

pub(crate) fn extract(salt: &Secret, input: &Secret) -> Secret {
    hmac(salt, input)
}

/// At most 32 bytes, which one block gives.
pub(crate) fn expand_label<const N: usize>(
    secret: &Secret,
    label: &str,
    context: &[u8],
) -> [u8; N] {
    let mut info = Vec::new();
    info.extend((N as u16).to_be_bytes());
    info.push(6 + label.len() as u8);
    info.extend(b"tls13 ");
    info.extend(label.as_bytes());
    info.push(context.len() as u8);
    info.extend(context);
    info.push(1);
    let block = hmac(secret, &info);
    let mut out = [0; N];
    out.copy_from_slice(&block[..N]);
    out
}

/// A secret of a moment of the handshake, of which this is the hash so far.
pub(crate) fn derive(secret: &Secret, label: &str, transcript: &[u8; 32]) -> Secret {
    expand_label(secret, label, transcript)
}

/// Whether two codes are the same, in a time that does not tell where they differ.
pub(crate) fn same(a: &[u8; 32], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
    b.len() == 32 && core::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, test case 2, and the early secrets of RFC 8448, section 3.
    #[test]
    fn the_vectors_of_the_standards() {
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let code = hmac(&key, b"what do ya want for nothing?");
        assert!(hex(&code).starts_with("5bdcc146bf60754e6a042426089575c7"));
        let early = extract(&[0; 32], &[0; 32]);
        assert!(hex(&early).starts_with("33ad0a1c607ec03b09e6cd9893680ce2"));
        let derived = derive(&early, "derived", &Sha256::digest(b""));
        assert!(hex(&derived).starts_with("6f2615a108c702c5678f54fc9dbab697"));
    }

    #[test]
    fn codes_are_compared_whole() {
        assert!(same(&[1; 32], &[1; 32]));
        let mut other = [1; 32];
        other[31] = 0;
        assert!(!same(&[1; 32], &other) && !same(&[1; 32], &[1; 31]) && !same(&[1; 32], &[]));
    }
}
