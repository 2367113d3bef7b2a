//! Where the model comes from: what was loaded along with the image, or a disk.

use crate::HEAP;
use alloc::string::String;
use alloc::sync::Arc;
use core::cell::Cell;
use strata_platform::{Backing, Memory, Resident, Sha256};
use strata_unikernel::attest;
use strata_unikernel::boot::{BootInfo, CommandLine};
use strata_unikernel::drivers::Disk;
use strata_unikernel::machine::heap::HugePages;
use strata_unikernel::machine::window::Window;
use strata_unikernel::machine::{time, watchdog};
use strata_unikernel::model::{self, ModelError, ModelFile};
use strata_unikernel::say;
use strata_unikernel::storage::{self, PAGE, Pages, Sum, VerifyError, digest_from};

/// How often progress is shown, in nanoseconds.
const INTERVAL: u64 = 1_000_000_000;

/// Memory that reading a file in pages takes.
const PAGES: usize = 48 << 20;

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

/// Finds the model, and sees to it that it is the one that was meant. `model=` is `image`, `disk`, or the path of
/// a file on a disk; without it, what came along with the image is preferred.
pub(crate) fn model(
    info: &BootInfo,
    options: &CommandLine,
    disks: &[Disk],
) -> Result<Source, SourceError> {
    let wanted = options.get("model").filter(|wanted| !wanted.is_empty());
    // Firmware has looked for the path that the settings named at boot already.
    let at_boot = info.command_line.get("model");
    let module = match wanted {
        None | Some("image") => info.module,
        Some("disk") => None,
        Some(path) if Some(path) == at_boot => info.module.filter(|_| info.module_was_named),
        Some(_) => None,
    };
    let (source, beside) = match module {
        Some(module) => {
            say!("the model is the module of {} bytes", module.len());
            // SAFETY: whoever booted the image loaded so many bytes there; they are mapped, and kept out of the heap.
            let bytes = unsafe {
                core::slice::from_raw_parts(module.start as *const u8, module.len() as usize)
            };
            (Source::Loaded(bytes), info.module_sha256)
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
    measure(&source, sum);
    if let Some(sum) = sum {
        let ends = model::ends(source.bytes()).map_err(SourceError::Model)?;
        check(&source, Sum::new(sum, ends)).map_err(SourceError::Verify)?;
    }
    Ok(source)
}

/// Measures the digest of the model: the one that was asked for, without which the model is refused, or its own.
fn measure(source: &Source, sum: Option<[u8; 32]>) {
    if !attest::is_on() {
        return;
    }
    match (sum, source) {
        (Some(sum), _) => attest::measure(attest::MODEL, sum, "strata model"),
        (None, Source::Loaded(bytes)) => {
            let mut own = Sha256::new();
            for part in bytes.chunks(PAGE) {
                own.update(part);
                watchdog::progress();
            }
            attest::measure(attest::MODEL, own.finalize(), "strata model");
        }
        // What is read in pieces has no digest before it runs.
        (None, Source::Paged(_)) => {
            attest::measure_text(attest::MODEL, "unknown", "strata model, unknown");
        }
    }
}

/// Looks whether a model in memory is the one that was meant; one on a disk is looked at while it is read.
fn check(source: &Source, mut sum: Sum) -> Result<(), VerifyError> {
    match source {
        Source::Paged(window) => window.expect(sum),
        Source::Loaded(bytes) => {
            for part in bytes.chunks(PAGE) {
                sum.add(part);
                watchdog::progress();
            }
            sum.finish()?;
            say!("the model's SHA-256 is as it should be");
        }
    }
    Ok(())
}

fn from_disk(
    path: Option<&str>,
    disks: &[Disk],
) -> Result<(Source, Option<[u8; 32]>), SourceError> {
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
        return Ok((Source::Loaded(bytes.unwrap_or_default()), sum));
    }
    let pages = Pages::new(disk, found, |bytes| HugePages.region(bytes));
    let window = Window::new(pages).ok_or(SourceError::Window)?;
    Ok((Source::Paged(Arc::new(window)), sum))
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
