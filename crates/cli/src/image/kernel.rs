//! Where the unikernel comes from.

use crate::failure::{Failure, Kind};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use strata_image::Kernel;

/// What to do where there is none.
pub(crate) const HOW_TO_BUILD: &str = "build target/unikernel/kernel.elf with `cargo xtask unikernel`, then pass it with \
     --kernel, or build this program with STRATA_UNIKERNEL set to it";

#[cfg(embedded_unikernel)]
static EMBEDDED: Option<&[u8]> = Some(include_bytes!(env!("STRATA_UNIKERNEL_FILE")));
#[cfg(not(embedded_unikernel))]
static EMBEDDED: Option<&[u8]> = None;

/// The file that is named, or the one in this program, or the one that was built in the same target folder.
pub(crate) fn find(named: Option<&Path>) -> Result<Cow<'static, [u8]>, Failure> {
    let read = |path: &Path| {
        let bytes = std::fs::read(path);
        bytes
            .map(Cow::Owned)
            .map_err(|error| Failure::io(path.display(), &error))
    };
    match (named, EMBEDDED, built()) {
        (Some(path), _, _) => read(path),
        (None, Some(bytes), _) => Ok(Cow::Borrowed(bytes)),
        (None, None, Some(path)) => read(&path),
        _ => Err(
            Failure::new(Kind::Failed, "this program was built without the unikernel")
                .hint(HOW_TO_BUILD),
        ),
    }
}

/// `unikernel/kernel.elf` of the target folder that this program lies in.
fn built() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().skip(1).take(3);
    let mut files = folders.map(|folder| folder.join("unikernel/kernel.elf"));
    files.find(|path| path.is_file())
}

pub(crate) fn parse(file: &[u8]) -> Result<Kernel<'_>, Failure> {
    Kernel::parse(file).map_err(|error| Failure::new(Kind::Failed, error).hint(HOW_TO_BUILD))
}
