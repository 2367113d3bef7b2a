//! Ed25519 keys (RFC 8032) in the PEM files that OpenSSL writes (RFC 8410).

use crate::error::{KeyError, PackError};
use crate::hex;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_compact as ed25519;

/// What comes before the 32 bytes of a private key in PKCS #8.
const PRIVATE: [u8; 16] = [
    0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20,
];
/// What comes before the 32 bytes of a public key.
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// A key that signs.
pub struct SigningKey(ed25519::KeyPair);

impl SigningKey {
    /// The key that 32 random bytes make.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ed25519::KeyPair::from_seed(ed25519::Seed::new(seed)))
    }

    /// Reads a PEM file.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let seed = unwrap(text, "PRIVATE KEY", &PRIVATE).ok_or(KeyError::Pem("private"))?;
        Ok(Self::from_seed(seed))
    }

    /// The bytes that made it.
    pub fn to_seed(&self) -> [u8; 32] {
        *self.0.sk.seed()
    }

    /// Writes a PEM file.
    pub fn to_pem(&self) -> String {
        wrap("PRIVATE KEY", &PRIVATE, &*self.0.sk.seed())
    }

    /// The key that others check its signatures with.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.pk)
    }

    /// Signs a message; the same key and message give the same signature.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        *self.0.sk.sign(message, None)
    }
}

/// A key that checks signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(ed25519::PublicKey);

impl PublicKey {
    /// Reads a PEM file.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let bytes = unwrap(text, "PUBLIC KEY", &PUBLIC).ok_or(KeyError::Pem("public"))?;
        let key = ed25519::PublicKey::from_slice(&bytes);
        key.map(Self).map_err(|_| KeyError::Key)
    }

    /// Writes a PEM file.
    pub fn to_pem(&self) -> String {
        wrap("PUBLIC KEY", &PUBLIC, &*self.0)
    }

    /// Reads what manifests have.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = hex::decode32(text)?;
        ed25519::PublicKey::from_slice(&bytes).ok().map(Self)
    }

    /// As manifests have it.
    pub fn to_hex(&self) -> String {
        hex::encode(&*self.0)
    }

    /// The key itself.
    pub fn to_bytes(&self) -> [u8; 32] {
        *self.0
    }

    /// Checks a signature.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), PackError> {
        let signature =
            ed25519::Signature::from_slice(signature).map_err(|_| PackError::Signature)?;
        let checked = self.0.verify(message, &signature);
        checked.map_err(|_| PackError::Signature)
    }
}

fn wrap(label: &str, prefix: &[u8], key: &[u8]) -> String {
    let text = STANDARD.encode([prefix, key].concat());
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

fn unwrap(text: &str, label: &str, prefix: &[u8]) -> Option<[u8; 32]> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(body).ok()?;
    der.strip_prefix(prefix)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first test of RFC 8032, section 7.1.
    #[test]
    fn the_vector_of_the_standard() {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let key = SigningKey::from_seed(hex::decode32(seed).unwrap());
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(key.public().to_hex(), public);
        let signature = key.sign(b"");
        assert!(hex::encode(&signature).starts_with("e5564300c360ac729086e2cc806e828a"));
        assert_eq!(key.public().verify(b"", &signature), Ok(()));
        assert_eq!(
            key.public().verify(b"x", &signature),
            Err(PackError::Signature)
        );
        for short in [&signature[1..], &[]] {
            assert_eq!(key.public().verify(b"", short), Err(PackError::Signature));
        }
    }

    #[test]
    fn keys_come_back_from_their_files() {
        let key = SigningKey::from_seed([7; 32]);
        let again = SigningKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.public(), key.public());
        let public = key.public();
        assert_eq!(PublicKey::from_pem(&public.to_pem()), Ok(public.clone()));
        assert_eq!(PublicKey::from_hex(&public.to_hex()), Some(public.clone()));
        assert!(SigningKey::from_pem(&public.to_pem()).is_err());
        assert!(PublicKey::from_pem(&key.to_pem()).is_err());
        for bad in [
            "",
            "-----BEGIN PUBLIC KEY-----",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
        ] {
            assert!(PublicKey::from_pem(bad).is_err(), "{bad}");
        }
    }
}
