//! A model and its runtime in one artifact.
//!
//! [`Contents`] is what goes in: a program, models, and a [`Manifest`] that has the SHA-256 of each and may be signed.
//! [`Contents::layout`] writes it in the manifest's [`Kind`]; [`Artifact::read`] takes it apart again.
//!
//! Every writer is a pure function: the same contents give the same bytes, and no clock is asked. That makes
//! [`Artifact::verify`] complete. It checks the signature of the manifest, the digests of the files, and then writes the
//! artifact anew and compares: not a byte is outside of what was signed.
#![forbid(unsafe_code)]

mod artifact;
mod contents;
mod deb;
mod elf;
mod error;
mod hex;
mod key;
mod manifest;
mod oci;
mod snap;
mod squashfs;
mod tar;
mod zip;

pub use artifact::Artifact;
pub use contents::{Contents, MANIFEST, MODELS, SIGNATURE};
pub use elf::architecture;
pub use error::{KeyError, PackError};
pub use hex::sha256;
pub use key::{PublicKey, SigningKey};
pub use manifest::{
    Kind, MachineNeeds, Manifest, MemoryNeeds, PackedMessage, PackedModel, PackedPreset,
    PackedProgram, Start, StartMode,
};
pub use oci::OciImage;
pub use snap::{COMPONENT_ARCHIVE, component_name};
pub use zip::{Entry, Zip};
