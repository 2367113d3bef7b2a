//! Where the model comes from: what was loaded along with the image, or a disk.

use crate::HEAP;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::cell::Cell;
use strata_platform::{Backing, Memory, OutOfMemory, Region, Resident, Sha256};
use strata_unikernel::attest;
use strata_unikernel::boot::listed::ListedModel;
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::Disk;
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::window::Window;
use strata_unikernel::machine::{time, watchdog};
use strata_unikernel::model::{self, ModelError, ModelFile};
use strata_unikernel::say;
use strata_unikernel::storage::{self, Found, PAGE, Pages, Sum, VerifyError, digest_from};

/// How often progress is shown, in nanoseconds.
const INTERVAL: u64 = 1_000_000_000;

/// Memory that reading a file in pages takes.
pub(crate) const PAGES: usize = 48 << 20;

/// Why there is no model.
pub(crate) enum SourceError {
    Absent,
    AbsentPath(String),
    Sum,
    Window,
    Verify(VerifyError),
    Model(ModelError),
}

impl core::fmt::Display for SourceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Absent => f.write_str("there is no model: neither in the image nor on a disk"),
            Self::AbsentPath(path) => write!(f, "there is no model {path} on any disk"),
            Self::Sum => f.write_str("sha256= is not 64 hexadecimal digits"),
            Self::Window => f.write_str("the model is larger than any memory"),
            Self::Verify(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
        }
    }
}

/// A model's file.
pub(crate) enum Source {
    /// In memory.
    Loaded(&'static [u8]),
    /// On a disk.
    Paged(Arc<Window>),
}

impl Source {
    /// Its digest, if all of it is in memory: what is read in pieces has none before it runs.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        let Self::Loaded(bytes) = self else {
            return None;
        };
        let mut own = Sha256::new();
        for part in bytes.chunks(PAGE) {
            own.update(part);
            watchdog::progress();
        }
        Some(own.finalize())
    }
}

impl ModelFile for Source {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Loaded(bytes) => bytes,
            Self::Paged(window) => window,
        }
    }

    fn backing(&self) -> Arc<dyn Backing> {
        match self {
            Self::Loaded(bytes) => Arc::new(Resident(bytes)),
            Self::Paged(window) => Arc::<Window>::clone(window),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Loaded(_) => 0,
            Self::Paged(_) => PAGES,
        }
    }

    fn verify(&self) -> Result<(), VerifyError> {
        let Self::Paged(window) = self else {
            return Ok(());
        };
        let log = ProgressLog::new("summed up");
        let all = window.len();
        let verified = window.verify(&mut |pages| log.report(pages * PAGE, all))?;
        say!("{} MiB of the disk were read", verified.read >> 20);
        if verified.summed {
            say!("the model's SHA-256 is as it should be");
        }
        Ok(())
    }
}

/// Which model is wanted.
#[derive(Copy, Clone)]
pub(crate) enum Wanted<'a> {
    /// The one that the settings name: `model=` is `image`, `disk`, or the path of a file on a disk; without it, what came
    /// along with the image is preferred.
    Set,
    /// One of those that `models=` lists.
    Listed(ListedModel<'a>),
}

/// A model that was found, and what it should sum to.
pub(crate) struct Located {
    place: Place,
    sum: Option<[u8; 32]>,
}

enum Place {
    Memory(&'static [u8]),
    Disk(Disk, Found),
}

/// Finds a model.
pub(crate) fn locate(
    info: &BootInfo,
    options: &CommandLine,
    disks: &[Disk],
    wanted: Wanted<'_>,
) -> Result<Located, SourceError> {
    if let Wanted::Listed(model) = wanted {
        let (place, beside) = on_disk(Some(model.path), disks)?;
        let sum = model.sha256.or(beside);
        return Ok(Located { place, sum });
    }
    let wanted = options.get("model").filter(|wanted| !wanted.is_empty());
    // Firmware has looked for the path that the settings named at boot already.
    let at_boot = info.command_line.get("model");
    let module = match wanted {
        None | Some("image") => info.module,
        Some("disk") => None,
        Some(path) if Some(path) == at_boot => info.module.filter(|_| info.module_was_named),
        Some(_) => None,
    };
    let (place, beside) = match module {
        Some(module) => {
            say!("the model is the module of {} bytes", module.len());
            // SAFETY: whoever booted the image loaded so many bytes there; they are mapped, and kept out of the heap.
            let bytes = unsafe {
                core::slice::from_raw_parts(module.start as *const u8, module.len() as usize)
            };
            (Place::Memory(bytes), info.module_sha256)
        }
        None if wanted == Some("image") => return Err(SourceError::Absent),
        None => on_disk(wanted.filter(|&path| path != "disk"), disks)?,
    };
    let given = options
        .get("sha256")
        .map(|text| digest_from(text.as_bytes()));
    let sum = match given {
        Some(given) => Some(given.ok_or(SourceError::Sum)?),
        None => beside,
    };
    Ok(Located { place, sum })
}

impl Located {
    /// Makes its bytes appear.
    pub(crate) fn open(&self) -> Result<Source, SourceError> {
        match &self.place {
            Place::Memory(bytes) => Ok(Source::Loaded(bytes)),
            Place::Disk(disk, found) => {
                let pages = Pages::new(disk.clone(), found.clone(), page);
                let window = Window::new(pages).ok_or(SourceError::Window)?;
                Ok(Source::Paged(Arc::new(window)))
            }
        }
    }

    /// Makes its bytes appear, and sees to it that they are those that were meant: at once where they are in memory, and
    /// otherwise while they are read.
    pub(crate) fn open_checked(&self) -> Result<Source, SourceError> {
        let source = self.open()?;
        measure(&source, self.sum);
        match (self.sum(&source)?, &source) {
            (Some(sum), Source::Paged(window)) => window.expect(sum),
            (Some(sum), Source::Loaded(bytes)) => check(bytes, sum, &mut || {})?,
            (None, _) => {}
        }
        Ok(source)
    }

    /// Its digest: the one that it should have, or its own if that is known.
    pub(crate) fn digest(&self, source: &Source) -> Option<[u8; 32]> {
        self.sum.or_else(|| source.digest())
    }

    /// Reads all of it, to see whether it is what was meant, if anything says what that is.
    pub(crate) fn check(
        &self,
        source: &Source,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), SourceError> {
        let Some(sum) = self.sum(source)? else {
            return Ok(());
        };
        match &self.place {
            Place::Memory(bytes) => check(bytes, sum, meanwhile),
            Place::Disk(disk, found) => {
                // Not through the window, which others may look into.
                let mut pages = Pages::new(disk.clone(), found.clone(), page);
                pages.expect(sum);
                let read = pages.verify(&mut |_| {
                    watchdog::progress();
                    meanwhile();
                });
                read.map(drop).map_err(SourceError::Verify)
            }
        }
    }

    fn sum(&self, source: &Source) -> Result<Option<Sum>, SourceError> {
        let Some(sum) = self.sum else {
            return Ok(None);
        };
        let ends = model::ends(source.bytes()).map_err(SourceError::Model)?;
        Ok(Some(Sum::new(sum, ends)))
    }
}

/// Memory for a page.
fn page(bytes: usize) -> Result<Box<dyn Region>, OutOfMemory> {
    HugePages.region(bytes)
}

/// Measures the digest of the model: the one that was asked for, without which the model is refused, or its own.
fn measure(source: &Source, sum: Option<[u8; 32]>) {
    if !attest::is_on() {
        return;
    }
    match (sum, source) {
        (Some(sum), _) => attest::measure(attest::MODEL, sum, "strata model"),
        (None, source) => match source.digest() {
            Some(own) => attest::measure(attest::MODEL, own, "strata model"),
            None => attest::measure_text(attest::MODEL, "unknown", "strata model, unknown"),
        },
    }
}

/// Looks whether a model in memory is the one that was meant.
fn check(bytes: &[u8], mut sum: Sum, meanwhile: &mut dyn FnMut()) -> Result<(), SourceError> {
    for part in bytes.chunks(PAGE) {
        sum.add(part);
        watchdog::progress();
        meanwhile();
    }
    sum.finish()
        .map_err(|error| SourceError::Verify(error.into()))?;
    say!("the model's SHA-256 is as it should be");
    Ok(())
}

fn on_disk(path: Option<&str>, disks: &[Disk]) -> Result<(Place, Option<[u8; 32]>), SourceError> {
    let found = storage::find(disks, path, &mut |text| say!("{text}"));
    let found = found.ok_or_else(|| match path {
        Some(path) => SourceError::AbsentPath(path.into()),
        None => SourceError::Absent,
    })?;
    say!("the model is {}, {} bytes", found.place, found.bytes);
    let (disk, sum) = (disks[found.disk].clone(), found.sha256);
    let memory = disk.lock().memory();
    if let (Some(memory), [run]) = (memory, &found.runs[..]) {
        let bytes = memory.get(run.start as usize..run.end as usize);
        return Ok((Place::Memory(bytes.unwrap_or_default()), sum));
    }
    Ok((Place::Disk(disk, found), sum))
}

/// Says now and then how far something is, and tells the watchdog that it goes on.
pub(crate) struct ProgressLog {
    what: &'static str,
    next: Cell<u64>,
}

impl ProgressLog {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            next: Cell::new(time::now() + INTERVAL),
        }
    }

    pub(crate) fn report(&self, done: usize, all: usize) {
        watchdog::progress();
        if all > 0 && time::now() > self.next.get() {
            self.next.set(time::now() + INTERVAL);
            say!("{} {} of {} MiB", self.what, done >> 20, all >> 20);
        }
    }
}

/// Bytes that the heap has left.
pub(crate) fn free() -> usize {
    let usage = HEAP.usage();
    usage.total.saturating_sub(usage.used)
}
