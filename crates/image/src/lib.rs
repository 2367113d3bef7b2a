//! Bootable images of the unikernel, written without other programs.
//!
//! [`Kernel`] is the unikernel as `cargo xtask unikernel` links it. [`image`] joins it with options and a model:
//!
//! - [`Form::Elf`] for hypervisors that boot by PVH: the model is a further segment,
//! - [`Form::Efi`], an EFI application: the model is a further section,
//! - [`Form::Img`], a disk with a GPT and an EFI system partition (FAT32), for USB sticks: the model is a file there,
//! - [`Form::Iso`], a disc (ISO 9660, El Torito) that is such a disk too.
//!
//! The same input gives the same bytes: no clock and no chance is asked.
#![forbid(unsafe_code)]

mod attachment;
mod crc32;
mod elf;
mod fat;
mod gpt;
mod iso;
mod layout;
mod names;
mod pe;

pub use elf::{Kernel, KernelError};
pub use fat::{FatError, FatKind, FatOptions, File};
pub use gpt::disk;
pub use iso::{IsoError, disc};
pub use layout::Layout;

use attachment::Attachment;
use std::borrow::Cow;
use thiserror::Error;

/// Where firmware looks for a program on a medium that it does not know.
const BOOT_PATH: &str = "EFI/BOOT/BOOTX64.EFI";
/// Where the unikernel looks for a model on the volume that it was started from.
const MODEL_PATH: &str = "strata.gguf";
/// The partition's first sector: whole megabytes suit every stick.
const FIRST_SECTOR: u32 = 2048;

/// What kind of image.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// For hypervisors, by PVH.
    Elf,
    /// An EFI application.
    Efi,
    /// A disk for UEFI firmware.
    Img,
    /// A disc for UEFI firmware.
    Iso,
}

impl Form {
    /// The form that a file's ending names.
    pub fn by_ending(ending: &str) -> Option<Self> {
        Some(match ending.to_ascii_lowercase().as_str() {
            "elf" => Self::Elf,
            "efi" => Self::Efi,
            "img" => Self::Img,
            "iso" => Self::Iso,
            _ => return None,
        })
    }

    /// Whether it is for machines that strangers may reach.
    pub fn for_hardware(self) -> bool {
        self != Self::Elf
    }
}

/// Why there is no image.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ImageError {
    /// The kernel cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The options are too long for the unikernel.
    #[error("the options have {bytes} bytes, and the unikernel reads {most}")]
    Options {
        /// Bytes.
        bytes: usize,
        /// Bytes at most.
        most: usize,
    },
    /// The model does not fit into a program.
    #[error("a model of {bytes} bytes does not fit into an {form:?} file, which holds {most}")]
    TooLarge {
        /// The form.
        form: Form,
        /// The model's bytes.
        bytes: u64,
        /// Bytes at most.
        most: u64,
    },
    /// The volume cannot be made.
    #[error(transparent)]
    Fat(#[from] FatError),
    /// The disc cannot be made.
    #[error(transparent)]
    Iso(#[from] IsoError),
}

/// An image of the kernel with options, which count less than those that it is booted with, and a model.
pub fn image<'a>(
    form: Form,
    kernel: &Kernel<'_>,
    options: &str,
    model: Option<&'a [u8]>,
) -> Result<Layout<'a>, ImageError> {
    match form {
        Form::Elf => kernel.elf(&Attachment::new(options, model)?),
        Form::Efi => kernel.efi(&Attachment::new(options, model)?),
        Form::Img => {
            let kind = FatKind::Fat32;
            let volume = volume(kernel, options, model, kind, FIRST_SECTOR)?;
            Ok(disk(volume, FIRST_SECTOR))
        }
        Form::Iso => {
            let volume = volume(
                kernel,
                options,
                model,
                FatKind::Smallest,
                iso::VOLUME_SECTOR,
            )?;
            Ok(disc(volume, "STRATA")?)
        }
    }
}

/// The volume that firmware boots from.
fn volume<'a>(
    kernel: &Kernel<'_>,
    options: &str,
    model: Option<&'a [u8]>,
    kind: FatKind,
    first_sector: u32,
) -> Result<Layout<'a>, ImageError> {
    let program = kernel.efi(&Attachment::new(options, None)?)?;
    let mut files = vec![File {
        path: BOOT_PATH.into(),
        bytes: Cow::Owned(program.to_vec()),
    }];
    files.extend(model.map(|model| File {
        path: MODEL_PATH.into(),
        bytes: Cow::Borrowed(model),
    }));
    let options = FatOptions {
        kind,
        label: "STRATA",
        first_sector,
    };
    Ok(fat::volume(files, &options)?)
}

/// A volume of files.
pub fn fat_volume<'a>(
    files: Vec<File<'a>>,
    options: &FatOptions<'_>,
) -> Result<Layout<'a>, FatError> {
    fat::volume(files, options)
}
