//! What a server says during the handshake (RFC 8446, section 4).

use crate::client_hello::{ClientHello, ED25519, HTTP, SUITE, VERSION, X25519};
use crate::identity::Identity;
use alloc::vec::Vec;

/// What stands for a random number where the client is to try again: the SHA-256 of `HelloRetryRequest`.
pub(crate) const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Adds what `write` adds, with its length in so many bytes in front.
fn list(out: &mut Vec<u8>, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
    let from = out.len();
    out.resize(from + bytes, 0);
    write(out);
    let len = (out.len() - from - bytes).to_be_bytes();
    out[from..from + bytes].copy_from_slice(&len[8 - bytes..]);
}

fn message(kind: u8, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::from([kind]);
    list(&mut out, 3, write);
    out
}

fn extension(out: &mut Vec<u8>, kind: u16, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend(kind.to_be_bytes());
    list(out, 2, write);
}

/// The answer to a client's hello: with a key, or, where `random` is [`RETRY`], asking for one.
pub(crate) fn hello(
    client: &ClientHello<'_>,
    random: &[u8; 32],
    key: Option<&[u8; 32]>,
) -> Vec<u8> {
    message(2, |out| {
        out.extend([3, 3]);
        out.extend(random);
        list(out, 1, |out| out.extend(client.session));
        out.extend(SUITE.to_be_bytes());
        out.push(0);
        list(out, 2, |out| {
            extension(out, 43, |out| out.extend(VERSION.to_be_bytes()));
            extension(out, 51, |out| {
                out.extend(X25519.to_be_bytes());
                if let Some(key) = key {
                    list(out, 2, |out| out.extend(key));
                }
            });
        });
    })
}

pub(crate) fn encrypted_extensions(client: &ClientHello<'_>) -> Vec<u8> {
    message(8, |out| {
        list(out, 2, |out| {
            if client.asks_http {
                extension(out, 16, |out| {
                    list(out, 2, |out| list(out, 1, |out| out.extend(HTTP)));
                });
            }
        });
    })
}

pub(crate) fn certificate(identity: &Identity) -> Vec<u8> {
    message(11, |out| {
        list(out, 1, |_| {});
        list(out, 3, |out| {
            for certificate in identity.certificates() {
                list(out, 3, |out| out.extend(certificate));
                list(out, 2, |_| {});
            }
        });
    })
}

/// Shows that the server has the certificate's key; of everything up to the certificate.
pub(crate) fn certificate_verify(identity: &Identity, transcript: &[u8; 32]) -> Vec<u8> {
    let mut signed = [b' '; 64].to_vec();
    signed.extend(b"TLS 1.3, server CertificateVerify\0");
    signed.extend(transcript);
    message(15, |out| {
        out.extend(ED25519.to_be_bytes());
        list(out, 2, |out| out.extend(identity.sign(&signed)));
    })
}

pub(crate) fn finished(code: &[u8; 32]) -> Vec<u8> {
    message(20, |out| out.extend(code))
}

/// The next key comes; the other side's may stay.
pub(crate) fn key_update() -> Vec<u8> {
    message(24, |out| out.push(0))
}
