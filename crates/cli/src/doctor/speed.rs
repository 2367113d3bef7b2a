//! What the machine does in a second.

use crate::failure::Failure;
use crate::machine_limits::{int_peak, read_bandwidth};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strata::load::Machine;
use strata_host::{Effort, ReadSpeed, read_speed};
use strata_platform::Pool;
use strata_store::Store;

/// How long a disk is read.
const DISK_TIME: Duration = Duration::from_secs(2);
/// A file that is large enough to read for its speed.
const LARGE: u64 = 64 << 20;

/// What was measured.
pub(super) struct Speeds {
    /// Bytes a second that one thread reads from memory.
    pub(super) one_thread: f64,
    /// The same of all threads together.
    pub(super) all_threads: f64,
    /// Operations a second on bytes, of all threads.
    pub(super) operations: f64,
    /// Where models are stored, and how fast files are read there.
    pub(super) disk: Option<(PathBuf, ReadSpeed)>,
}

impl Speeds {
    /// What `measure` tells of.
    pub(super) const STEPS: u64 = 4;

    /// Measures, and tells what comes next.
    pub(super) fn measure(
        machine: &Machine,
        effort: Effort,
        tell: &dyn Fn(&'static str),
    ) -> Result<Self, Failure> {
        tell("measuring memory bandwidth with all threads");
        let all_threads = read_bandwidth(machine, effort)?;
        tell("measuring memory bandwidth with one thread");
        let one_thread = match machine.pool.workers() {
            1 => all_threads,
            _ => read_bandwidth(&Machine::new(Some(1))?, effort)?,
        };
        tell("measuring integer throughput");
        let operations = int_peak(machine, effort);
        tell("measuring disk bandwidth");
        Ok(Self {
            one_thread,
            all_threads,
            operations,
            disk: disk(effort),
        })
    }
}

/// The disk of the store: its largest file is read, or one that is made for that.
fn disk(effort: Effort) -> Option<(PathBuf, ReadSpeed)> {
    let store = Store::open_default().ok()?;
    let time = match effort {
        Effort::Quick => DISK_TIME / 20,
        Effort::Full => DISK_TIME,
    };
    let speed = match largest(&store.root().join("blobs")) {
        Some(file) => read_speed(&file, time).ok()?,
        None => {
            // The store may not be there yet; its disk is that of the nearest folder that is.
            let folder = store.root().ancestors().find(|folder| folder.is_dir())?;
            let file = made(folder, effort).ok()?;
            read_speed(file.path(), time).ok()?
        }
    };
    Some((store.root().to_owned(), speed))
}

fn largest(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let size = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.len(), entry.path()));
    let (bytes, path) = entries.filter_map(size).max()?;
    (bytes >= LARGE).then_some(path)
}

/// A file that is gone again afterwards.
fn made(folder: &Path, effort: Effort) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let megabytes = match effort {
        Effort::Quick => 16,
        Effort::Full => 256,
    };
    let block: Vec<u8> = (0..1 << 20).map(|i: u32| (i ^ (i >> 9)) as u8).collect();
    for _ in 0..megabytes {
        file.write_all(&block)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}
