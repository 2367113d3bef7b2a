//! Bootable images of the unikernel, written without other programs.
//!
//! [`Kernel`] is the unikernel as `cargo xtask unikernel` links it. [`image`] joins it with settings and a model:
//!
//! - [`Form::Elf`] for hypervisors that boot by PVH: both are in a further segment,
//! - [`Form::Efi`], an EFI application: both are in a further section,
//! - [`Form::Img`], a disk with a GPT and an EFI system partition (FAT32), for USB sticks: both are files there, of which
//!   `strata.toml` is there to be edited,
//! - [`Form::Iso`], a disc (ISO 9660, El Torito) that is such a disk too.
//!
//! The same input gives the same bytes: no clock and no chance is asked.
//!
//! A [`Trust`] signs the settings, among which the model's digest is, or closes the image to any others.
//!
//! [`reader`], [`settings`] and [`signed`] are the other side: how the unikernel, which has no operating system, reads such disks and
//! their settings. Without the feature `write` there is nothing else here.
#![cfg_attr(not(feature = "write"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

/// The GPT type of partitions that the unikernel may write to: `2d7f4b1e-5c83-4c0e-9a6b-73747261746d`.
pub const DATA_PARTITION: [u8; 16] = [
    0x1e, 0x4b, 0x7f, 0x2d, 0x83, 0x5c, 0x0e, 0x4c, 0x9a, 0x6b, 0x73, 0x74, 0x72, 0x61, 0x74, 0x6d,
];

pub mod le;
pub mod measure;
pub mod reader;
pub mod settings;
pub mod signed;
#[cfg(feature = "write")]
mod writer;

#[cfg(feature = "write")]
pub use writer::*;
