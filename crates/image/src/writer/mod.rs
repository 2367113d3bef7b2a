//! Images as they are written: a kernel joined with settings and a model.

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
/// Where it looks for settings there.
const SETTINGS_PATH: &str = "strata.toml";
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

/// A setting, such as `port` and `80`. Values have neither quotes nor backslashes nor line ends in them.
pub type Setting = (String, String);

/// An image of the kernel with settings, which count less than those that it is booted with, and a model.
pub fn image<'a>(
    form: Form,
    kernel: &Kernel<'_>,
    settings: &[Setting],
    model: Option<&'a [u8]>,
) -> Result<Layout<'a>, ImageError> {
    match form {
        Form::Elf => kernel.elf(&Attachment::new(&options(settings), model)?),
        Form::Efi => kernel.efi(&Attachment::new(&options(settings), model)?),
        Form::Img => {
            let files = files(kernel, settings, model)?;
            let volume = fat::volume(files, &volume(FatKind::Fat32, FIRST_SECTOR))?;
            Ok(disk(volume, FIRST_SECTOR))
        }
        Form::Iso => {
            let files = files(kernel, settings, model)?;
            let volume = volume(FatKind::Smallest, iso::VOLUME_SECTOR);
            Ok(disc(fat::volume(files, &volume)?, "STRATA")?)
        }
    }
}

/// Settings as a command line has them.
pub fn options(settings: &[Setting]) -> String {
    let words = settings.iter().map(|(key, value)| {
        if value.contains(' ') {
            format!("{key}=\"{value}\"")
        } else {
            format!("{key}={value}")
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Settings as `strata.toml` has them.
fn toml(settings: &[Setting]) -> String {
    let lines = settings
        .iter()
        .map(|(key, value)| format!("{key} = \"{value}\"\n"));
    lines.collect()
}

fn volume(kind: FatKind, first_sector: u32) -> FatOptions<'static> {
    FatOptions {
        kind,
        label: "STRATA",
        first_sector,
    }
}

/// The files of the volume that firmware boots from.
fn files<'a>(
    kernel: &Kernel<'_>,
    settings: &[Setting],
    model: Option<&'a [u8]>,
) -> Result<Vec<File<'a>>, ImageError> {
    let file = |path: &str, bytes: Cow<'a, [u8]>| File {
        path: path.into(),
        bytes,
    };
    let program = kernel.efi(&Attachment::new("", None)?)?.to_vec();
    let mut files = vec![
        file(BOOT_PATH, program.into()),
        file(SETTINGS_PATH, toml(settings).into_bytes().into()),
    ];
    files.extend(model.map(|model| file(MODEL_PATH, model.into())));
    Ok(files)
}

/// A volume of files.
pub fn fat_volume<'a>(
    files: Vec<File<'a>>,
    options: &FatOptions<'_>,
) -> Result<Layout<'a>, FatError> {
    fat::volume(files, options)
}
