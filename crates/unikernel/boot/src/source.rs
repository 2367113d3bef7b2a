//! Where the model comes from: what was loaded along with the image, or a disk.

use crate::HEAP;
use alloc::boxed::Box;
use alloc::string::String;
use core::cell::Cell;
use core::ops::Deref;
use strata_platform::{Memory, OutOfMemory, Region};
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::BlockDevice;
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::{time, watchdog};
use strata_unikernel::model::{self, ModelError};
use strata_unikernel::say;
use strata_unikernel::storage::{self, DigestError, StorageError, digest_from, verify};

/// How often progress is told, in nanoseconds.
const TELLING: u64 = 1_000_000_000;

/// Why there is no model.
pub(crate) enum SourceError {
    Absent,
    AbsentPath(String),
    Sum,
    Memory(OutOfMemory),
    Storage(StorageError),
    Digest(DigestError),
    Model(ModelError),
}

impl core::fmt::Display for SourceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no model: neither in the image nor on a disk"),
            Self::AbsentPath(path) => write!(f, "there is no model {path} on any disk"),
            Self::Sum => f.write_str("sha256= is not 64 hexadecimal digits"),
            Self::Memory(error) => write!(f, "the model cannot be read: {error}"),
            Self::Storage(error) => write!(f, "the model cannot be read: {error}"),
            Self::Digest(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
        }
    }
}

/// A model's bytes.
pub(crate) enum Bytes<'i> {
    Loaded(&'i [u8]),
    Read(Box<dyn Region>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Loaded(bytes) => bytes,
            Self::Read(region) => region,
        }
    }
}

/// Finds the model, reads it, and looks whether it is the one that was meant. `model=` is `image`, `disk`, or the path of
/// a file on a disk; without it, what came along with the image is preferred.
pub(crate) fn model<'i>(
    info: &'i BootInfo,
    options: &CommandLine,
    disks: &mut [Box<dyn BlockDevice>],
) -> Result<Bytes<'i>, SourceError> {
    let wanted = options.get("model").filter(|wanted| !wanted.is_empty());
    // Firmware has looked for the path that the settings named at boot already.
    let at_boot = info.command_line.get("model");
    let module = match wanted {
        None | Some("image") => info.module,
        Some("disk") => None,
        Some(path) if Some(path) == at_boot => info.module.filter(|_| info.module_was_named),
        Some(_) => None,
    };
    let (bytes, beside) = match module {
        Some(module) => {
            say!("the model is the module of {} bytes", module.len());
            // SAFETY: whoever booted the image loaded so many bytes there; they are mapped, and kept out of the heap.
            let bytes = unsafe {
                core::slice::from_raw_parts(module.start as *const u8, module.len() as usize)
            };
            (Bytes::Loaded(bytes), info.module_sha256)
        }
        None if wanted == Some("image") => return Err(SourceError::Absent),
        None => from_disk(wanted.filter(|&path| path != "disk"), disks)?,
    };
    let given = options
        .get("sha256")
        .map(|text| digest_from(text.as_bytes()));
    let sum = match given {
        Some(given) => Some(given.ok_or(SourceError::Sum)?),
        None => beside,
    };
    if let Some(sum) = sum {
        let ends = model::ends(&bytes).map_err(SourceError::Model)?;
        verify(&bytes, &ends, &sum, &mut watchdog::progress).map_err(SourceError::Digest)?;
        say!("the model's SHA-256 is as it should be");
    }
    Ok(bytes)
}

fn from_disk<'i>(
    path: Option<&str>,
    disks: &mut [Box<dyn BlockDevice>],
) -> Result<(Bytes<'i>, Option<[u8; 32]>), SourceError> {
    let found = storage::find(disks, path, &mut |text| say!("{text}"));
    let found = found.ok_or_else(|| match path {
        Some(path) => SourceError::AbsentPath(path.into()),
        None => SourceError::Absent,
    })?;
    say!("the model is {}, {} bytes", found.place, found.bytes);
    let bytes = usize::try_from(found.bytes).unwrap_or(usize::MAX);
    let mut region = HugePages.region(bytes).map_err(SourceError::Memory)?;
    let start = time::now();
    let told = Telling::new("read");
    let disk = disks[found.disk].as_mut();
    storage::read(disk, &found, &mut region, &mut |done| {
        told.tell(done as usize, bytes);
    })
    .map_err(SourceError::Storage)?;
    let spent = (time::now() - start).max(1);
    say!(
        "read in {} ms, {} MB/s",
        spent / 1_000_000,
        (found.bytes as u128 * 1000 / u128::from(spent)) as u64
    );
    Ok((Bytes::Read(region), found.sha256))
}

/// Tells now and then how far something is, and that it goes on.
pub(crate) struct Telling {
    what: &'static str,
    next: Cell<u64>,
}

impl Telling {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            next: Cell::new(time::now() + TELLING),
        }
    }

    pub(crate) fn tell(&self, done: usize, all: usize) {
        watchdog::progress();
        if all > 0 && time::now() > self.next.get() {
            self.next.set(time::now() + TELLING);
            say!("{} {} of {} MiB", self.what, done >> 20, all >> 20);
        }
    }
}

/// Bytes that the heap has left.
pub(crate) fn free() -> usize {
    let usage = HEAP.usage();
    usage.total.saturating_sub(usage.used)
}
