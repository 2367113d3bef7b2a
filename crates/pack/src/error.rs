//! What can be wrong with artifacts and keys.

use thiserror::Error;

/// Why there is no artifact, or why one is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PackError {
    /// No format that is known begins or ends like this.
    #[error("it is not an artifact that `strata pack` wrote")]
    Unknown,
    /// The container is damaged.
    #[error("{what} at byte {at} is damaged")]
    Damaged {
        /// What is damaged.
        what: &'static str,
        /// Where.
        at: u64,
    },
    /// A file that must be inside is not.
    #[error("there is no {0} in it")]
    Missing(String),
    /// The manifest cannot be read.
    #[error("the manifest cannot be read: {0}")]
    Manifest(String),
    /// The manifest is of a later version.
    #[error("the manifest has format {found}, and this program reads {known}")]
    Format {
        /// The one found.
        found: u32,
        /// The one that is read.
        known: u32,
    },
    /// The manifest names a signer, and there is no signature, or the other way round.
    #[error("{0}")]
    Unsigned(&'static str),
    /// The signature is not that of the manifest.
    #[error("the signature does not match the manifest")]
    Signature,
    /// Someone else signed it.
    #[error("it was signed by {found}, not by {wanted}")]
    Signer {
        /// Who did.
        found: String,
        /// Who should have.
        wanted: String,
    },
    /// A file is not the one that the manifest names.
    #[error("{path} has the SHA-256 {found}, and the manifest says {wanted}")]
    Digest {
        /// The file.
        path: String,
        /// Its digest.
        found: String,
        /// The digest that it should have.
        wanted: String,
    },
    /// Something that the manifest does not account for.
    #[error(
        "byte {at} is not as `strata pack` writes it: the artifact was changed after it was packed"
    )]
    Changed {
        /// Where.
        at: u64,
    },
    /// A file's name cannot be written.
    #[error("{0:?} cannot be the name of a packed file")]
    Name(String),
    /// The program is not one that this kind can hold.
    #[error("the program is not a Linux executable for x86_64 or aarch64")]
    Program,
    /// A container has no libraries.
    #[error("the program needs the system's C library, and a container image has none")]
    Dynamic,
    /// A file is too large for the format.
    #[error("{path} has {bytes} bytes, and this format holds {most} at most")]
    TooLarge {
        /// The file.
        path: String,
        /// Its bytes.
        bytes: u64,
        /// Bytes at most.
        most: u64,
    },
}

/// Why a key cannot be used.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Not a PEM file of the right kind.
    #[error("it is not a PEM file with an Ed25519 {0} key")]
    Pem(&'static str),
    /// Not a point of the curve.
    #[error("it holds no Ed25519 key")]
    Key,
}
