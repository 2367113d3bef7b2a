//! The server's side of TLS 1.3 (RFC 8446), without an operating system.
//!
//! There is one of everything: the suite `TLS_CHACHA20_POLY1305_SHA256`, the group X25519, signatures by Ed25519. The clients
//! of programs have all three; browsers take no Ed25519 certificates. There are no tickets, no early data, no certificates of
//! clients, no older version. The primitives are other people's (`chacha20poly1305`, `ed25519-compact`); this crate is records,
//! messages and their order.
//!
//! A [`Session`] has no socket: bytes of the wire go in and out, and so does what was sealed.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod client_hello;
mod hkdf;
mod identity;
mod random;
mod record;
mod server_messages;
mod session;

pub use identity::{Identity, IdentityError};
pub use random::Random;
pub use session::Session;

use thiserror::Error;

/// Why a connection ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// What comes is not TLS.
    #[error("what the client says is not TLS")]
    NotTls,
    /// A message came out of order.
    #[error("a message of type {kind} came out of order")]
    Unexpected {
        /// Its type.
        kind: u8,
    },
    /// A record is longer than records may be.
    #[error("a record has {bytes} bytes")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A message cannot be understood.
    #[error("a message of the client cannot be understood")]
    Malformed,
    /// The client does not speak TLS 1.3.
    #[error("the client does not speak TLS 1.3")]
    Version,
    /// The client lacks X25519, ChaCha20-Poly1305 or Ed25519.
    #[error("the client and this machine have no {what} in common")]
    Nothing {
        /// What.
        what: &'static str,
    },
    /// A key of the client is of no use.
    #[error("the client's key is of no use")]
    WeakKey,
    /// A record is not what the client has sealed.
    #[error("a record was changed on its way")]
    Changed,
    /// The client has seen another handshake.
    #[error("the client has seen another handshake")]
    Finished,
}

impl TlsError {
    /// What the client is told (RFC 8446, section 6.2).
    fn alert(self) -> u8 {
        match self {
            Self::NotTls | Self::Unexpected { .. } => 10,
            Self::Changed => 20,
            Self::TooLong { .. } => 22,
            Self::Nothing { .. } => 40,
            Self::WeakKey => 47,
            Self::Malformed => 50,
            Self::Finished => 51,
            Self::Version => 70,
        }
    }
}
