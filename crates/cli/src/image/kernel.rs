//! Where the unikernel comes from.

use crate::failure::{Failure, Kind};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use strata_image::{Architecture, Kernel};

/// What to do where there is none.
pub(crate) const HOW_TO_BUILD: &str = "build target/unikernel/kernel.elf with `cargo xtask unikernel`, then pass it with \
     --kernel, or build this program with STRATA_UNIKERNEL set to it";

#[cfg(embedded_unikernel)]
static EMBEDDED: Option<&[u8]> = Some(include_bytes!(env!("STRATA_UNIKERNEL_FILE")));
#[cfg(not(embedded_unikernel))]
static EMBEDDED: Option<&[u8]> = None;

/// The processors that a unikernel is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arch {
    /// PCs
    #[value(name = "x86_64")]
    X86,
    /// 64-bit Arm
    #[value(name = "aarch64")]
    Arm,
}

impl Arch {
    pub(crate) fn architecture(self) -> Architecture {
        match self {
            Self::X86 => Architecture::X86_64,
            Self::Arm => Architecture::Aarch64,
        }
    }
}

/// The file that is named, or the one in this program, or the one that was built in the same target folder.
pub(crate) fn find(
    named: Option<&Path>,
    arch: Option<Arch>,
) -> Result<Cow<'static, [u8]>, Failure> {
    let read = |path: &Path| {
        let bytes = std::fs::read(path);
        bytes
            .map(Cow::Owned)
            .map_err(|error| Failure::io(path.display(), &error))
    };
    let arch = arch.unwrap_or(Arch::X86);
    // Programs carry one for PCs.
    let embedded = EMBEDDED.filter(|_| arch == Arch::X86);
    match (named, embedded, built(arch)) {
        (Some(path), _, _) => read(path),
        (None, Some(bytes), _) => Ok(Cow::Borrowed(bytes)),
        (None, None, Some(path)) => read(&path),
        _ => {
            let sentence = format_args!(
                "this program was built without the unikernel for {}",
                arch.architecture().name()
            );
            Err(Failure::new(Kind::Failed, sentence).hint(how_to_build(arch)))
        }
    }
}

fn how_to_build(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => HOW_TO_BUILD,
        Arch::Arm => {
            "build target/unikernel/kernel-aarch64.elf with `cargo xtask unikernel --arch aarch64`, then pass it with --kernel"
        }
    }
}

/// `unikernel/kernel.elf` of the target folder that this program lies in.
fn built(arch: Arch) -> Option<PathBuf> {
    let name = match arch {
        Arch::X86 => "unikernel/kernel.elf",
        Arch::Arm => "unikernel/kernel-aarch64.elf",
    };
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().skip(1).take(3);
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|path| path.is_file())
}

/// Looks at a kernel, which must be for the processors that are asked for.
pub(crate) fn parse(file: &[u8], arch: Option<Arch>) -> Result<Kernel<'_>, Failure> {
    let kernel = Kernel::parse(file)
        .map_err(|error| Failure::new(Kind::Failed, error).hint(HOW_TO_BUILD))?;
    let found = kernel.architecture();
    match arch
        .map(Arch::architecture)
        .filter(|wanted| *wanted != found)
    {
        None => Ok(kernel),
        Some(wanted) => {
            let sentence = format_args!(
                "the kernel is for {}, not for {}",
                found.name(),
                wanted.name()
            );
            Err(Failure::new(Kind::Usage, sentence).hint("leave --arch or --kernel out"))
        }
    }
}
