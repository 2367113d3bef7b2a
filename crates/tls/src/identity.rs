//! Who a server is: a certificate (RFC 5280) of an Ed25519 key (RFC 8410), made by others or by itself.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use ed25519_compact::{KeyPair, Seed};
use strata_platform::Sha256;
use thiserror::Error;

/// What comes before the 32 bytes of a public key.
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
/// The algorithm.
const ED25519: [u8; 7] = [0x30, 5, 6, 3, 0x2b, 0x65, 0x70];
const COMMON_NAME: [u8; 5] = [6, 3, 0x55, 4, 3];
const ALTERNATIVE_NAMES: [u8; 5] = [6, 3, 0x55, 0x1d, 0x11];
const EXTENDED_USE: [u8; 5] = [6, 3, 0x55, 0x1d, 0x25];
const FOR_SERVERS: [u8; 10] = [6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1];
/// From the year 2000 on, and without an end: a machine may have no clock.
const ALWAYS: &[u8] = b"\x17\x0d000101000000Z\x18\x0f99991231235959Z";

/// Why there is no identity.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// There is no certificate.
    #[error("there is no certificate")]
    Absent,
    /// The certificate is another key's, or of another kind of key.
    #[error("the certificate is not one of the Ed25519 key that was given")]
    OtherKey,
}

/// Certificates, the server's own first, and its key.
pub struct Identity {
    certificates: Vec<Vec<u8>>,
    key: KeyPair,
}

impl Identity {
    /// Certificates that others have made, as DER.
    pub fn new(certificates: Vec<Vec<u8>>, seed: [u8; 32]) -> Result<Self, IdentityError> {
        let key = KeyPair::from_seed(Seed::new(seed));
        let first = certificates.first().ok_or(IdentityError::Absent)?;
        let public = [&PUBLIC[..], &*key.pk].concat();
        if !first.windows(public.len()).any(|part| part == public) {
            return Err(IdentityError::OtherKey);
        }
        Ok(Self { certificates, key })
    }

    /// A certificate that the key has signed itself, for names and addresses.
    pub fn self_signed(seed: [u8; 32], names: &[&str]) -> Self {
        let key = KeyPair::from_seed(Seed::new(seed));
        let mut serial = Sha256::digest(*key.pk)[..16].to_vec();
        serial[0] = serial[0] & 0x7f | 0x40;
        let name = names.first().copied().unwrap_or("strata");
        let name = [&COMMON_NAME[..], &tlv(0x0c, name.as_bytes())].concat();
        let name = tlv(0x30, &tlv(0x31, &tlv(0x30, &name)));
        let others = names.iter().map(|name| match name.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => tlv(0x87, &address.octets()),
            Ok(IpAddr::V6(address)) => tlv(0x87, &address.octets()),
            Err(_) => tlv(0x82, name.as_bytes()),
        });
        let others = tlv(0x30, &others.collect::<Vec<_>>().concat());
        let extension = |kind: &[u8], value: &[u8]| tlv(0x30, &[kind, &tlv(4, value)].concat());
        let extensions = [
            extension(&ALTERNATIVE_NAMES, &others),
            extension(&EXTENDED_USE, &tlv(0x30, &FOR_SERVERS)),
        ];
        let body = [
            tlv(0xa0, &[2, 1, 2]),
            tlv(2, &serial),
            ED25519.to_vec(),
            name.clone(),
            tlv(0x30, ALWAYS),
            name,
            [&PUBLIC[..], &*key.pk].concat(),
            tlv(0xa3, &tlv(0x30, &extensions.concat())),
        ];
        let body = tlv(0x30, &body.concat());
        let signature = key.sk.sign(&body, None);
        let signature = tlv(3, &[&[0], &signature[..]].concat());
        let certificate = tlv(0x30, &[body, ED25519.to_vec(), signature].concat());
        Self {
            certificates: vec![certificate],
            key,
        }
    }

    /// The certificates, as DER.
    pub fn certificates(&self) -> &[Vec<u8>] {
        &self.certificates
    }

    /// The SHA-256 of the server's own certificate, by which people know it.
    pub fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(self.certificates.first().map_or(&[][..], |first| first))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        *self.key.sk.sign(message, None)
    }
}

/// A value of DER (X.690): its type, its length, itself.
fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    let len = value.len();
    match len {
        0..0x80 => out.push(len as u8),
        0x80..0x100 => out.extend([0x81, len as u8]),
        _ => {
            out.push(0x82);
            out.extend((len as u16).to_be_bytes());
        }
    }
    out.extend(value);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_belongs_to_its_key() {
        let own = Identity::self_signed([1; 32], &["box.example"]);
        let certificates = own.certificates().to_vec();
        assert!(Identity::new(certificates.clone(), [1; 32]).is_ok());
        let other = Identity::new(certificates, [2; 32]).err();
        assert_eq!(other, Some(IdentityError::OtherKey));
        assert_eq!(
            Identity::new(vec![], [1; 32]).err(),
            Some(IdentityError::Absent)
        );
        assert_eq!(
            own.fingerprint(),
            Identity::self_signed([1; 32], &["box.example"]).fingerprint()
        );
    }
}
