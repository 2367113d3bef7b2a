//! Images as they are written: a kernel joined with settings and a model.

mod attachment;
mod authenticode;
mod crc32;
mod der;
mod elf;
mod fat;
mod gpt;
mod iso;
mod layout;
mod names;
mod pe;

pub use authenticode::ProgramSigner;
pub use der::Certificate;
pub use elf::{Kernel, KernelError};
pub use fat::{FatError, FatKind, FatOptions, File};
pub use gpt::disk;
pub use iso::{IsoError, disc};
pub use layout::Layout;

use crate::signed::message;
use attachment::Attachment;
use std::borrow::Cow;
use thiserror::Error;

/// Where the unikernel looks for a model on the volume that it was started from.
const MODEL_PATH: &str = "strata.gguf";
/// Where it looks for settings there.
const SETTINGS_PATH: &str = "strata.toml";
/// The partition's first sector: whole megabytes suit every stick.
const FIRST_SECTOR: u32 = 2048;

/// What a kernel runs on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// PCs.
    X86_64,
    /// 64-bit processors of Arm's kind.
    Aarch64,
}

impl Architecture {
    /// As users call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Where firmware looks for a program on a medium that it does not know.
    fn boot_path(self) -> &'static str {
        match self {
            Self::X86_64 => "EFI/BOOT/BOOTX64.EFI",
            Self::Aarch64 => "EFI/BOOT/BOOTAA64.EFI",
        }
    }
}

/// What kind of image.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// For hypervisors, by PVH.
    Elf,
    /// An EFI application; on AArch64 also for loaders of Linux, as QEMU's is.
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
    /// PVH is for PCs.
    #[error("no hypervisor boots an .elf image for AArch64")]
    NoHypervisor,
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
    /// A certificate cannot be read.
    #[error("the certificate for Secure Boot is no X.509 certificate")]
    Certificate,
    /// The volume cannot be made.
    #[error(transparent)]
    Fat(#[from] FatError),
    /// The disc cannot be made.
    #[error(transparent)]
    Iso(#[from] IsoError),
}

/// A setting, such as `port` and `80`. Values have neither quotes nor backslashes nor line ends in them.
pub type Setting = (String, String);

/// Who signs.
pub struct Signer<'a> {
    /// The key that signatures are checked with, which goes into the image.
    pub public: [u8; 32],
    /// Signs a message.
    pub sign: &'a dyn Fn(&[u8]) -> [u8; 64],
}

impl Signer<'_> {
    /// A text, and what says that it was signed.
    fn signature(&self, text: &str) -> String {
        hex(&(self.sign)(&message(text.as_bytes())))
    }
}

/// What an image believes, and whom.
#[derive(Default)]
pub struct Trust<'a> {
    /// Who signs the settings; the machine then takes no others.
    pub signer: Option<Signer<'a>>,
    /// Who signs the program, for firmware with Secure Boot; of a form that firmware starts.
    pub program: Option<ProgramSigner<'a>>,
    /// Whether the machine takes its settings from the image alone, and no commands.
    pub sealed: bool,
}

impl Trust<'_> {
    /// Settings as they stand behind the program.
    fn attached(&self, settings: &[Setting]) -> String {
        let mut text = options(settings);
        if self.sealed {
            text = format!("sealed=on {text}");
        }
        match &self.signer {
            Some(signer) => {
                text += " ";
                let signature = signer.signature(&text);
                format!("trust={} {text}signature={signature}", hex(&signer.public))
            }
            None => text,
        }
    }

    /// What stands behind the program whose settings are in `strata.toml`.
    fn key_alone(&self) -> String {
        let signer = self.signer.as_ref();
        signer.map_or(String::new(), |signer| {
            format!("trust={}", hex(&signer.public))
        })
    }

    /// `strata.toml`.
    fn file(&self, settings: &[Setting]) -> String {
        let text = toml(settings);
        match &self.signer {
            Some(signer) => format!("{text}signature = \"{}\"\n", signer.signature(&text)),
            None => text,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An image of the kernel with settings, which count less than those that it is booted with, and a model.
pub fn image<'a>(
    form: Form,
    kernel: &Kernel<'_>,
    settings: &[Setting],
    model: Option<&'a [u8]>,
) -> Result<Layout<'a>, ImageError> {
    trusted_image(form, kernel, settings, model, &Trust::default())
}

/// An image whose settings are signed, or the only ones.
pub fn trusted_image<'a>(
    form: Form,
    kernel: &Kernel<'_>,
    settings: &[Setting],
    model: Option<&'a [u8]>,
    trust: &Trust<'_>,
) -> Result<Layout<'a>, ImageError> {
    match form {
        Form::Elf => kernel.elf(&Attachment::new(&trust.attached(settings), model)?),
        Form::Efi => {
            let attachment = Attachment::new(&trust.attached(settings), model)?;
            kernel.efi(&attachment, trust.program.as_ref())
        }
        Form::Img => stick(kernel, settings, model, trust, 0),
        Form::Iso => {
            let files = files(kernel, settings, model, trust)?;
            let volume = volume(FatKind::Smallest, iso::VOLUME_SECTOR);
            Ok(disc(fat::volume(files, &volume)?, "STRATA")?)
        }
    }
}

/// The image of a disk, with an empty partition of at least `data` bytes, if any, for what the machine keeps.
pub fn stick<'a>(
    kernel: &Kernel<'_>,
    settings: &[Setting],
    model: Option<&'a [u8]>,
    trust: &Trust<'_>,
    data: u64,
) -> Result<Layout<'a>, ImageError> {
    let files = files(kernel, settings, model, trust)?;
    let volume = fat::volume(files, &volume(FatKind::Fat32, FIRST_SECTOR))?;
    Ok(disk(volume, FIRST_SECTOR, data))
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
    trust: &Trust<'_>,
) -> Result<Vec<File<'a>>, ImageError> {
    let file = |path: &str, bytes: Cow<'a, [u8]>| File {
        path: path.into(),
        bytes,
    };
    // Where nobody may edit settings they are part of the program.
    let attached = if trust.sealed {
        trust.attached(settings)
    } else {
        trust.key_alone()
    };
    let program = kernel.efi(&Attachment::new(&attached, None)?, trust.program.as_ref())?;
    let path = kernel.architecture().boot_path();
    let mut files = vec![file(path, program.to_vec().into())];
    if !trust.sealed {
        let text = trust.file(settings);
        files.push(file(SETTINGS_PATH, text.into_bytes().into()));
    }
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
