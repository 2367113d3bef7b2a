//! Downloads: ranges in parallel, resumed where they broke off, checked before anybody sees them.

mod parts;
mod ranges;

use crate::digest::Digest;
use crate::error::{At, StoreError};
use crate::net::{Client, Credential, NetError, Url};
use crate::own_file;
use crate::progress::{OnProgress, Progress};
use crate::scratch;
use crate::store::Store;
use parts::Parts;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often those who watch hear of progress, and can stop the work.
const TICK: Duration = Duration::from_millis(100);

/// A blob to be fetched.
pub(crate) struct Fetch<'a> {
    pub(crate) client: &'a Client,
    pub(crate) url: Url,
    pub(crate) credential: Option<Credential>,
    /// What it must have; if it is not known, the blob is called by what it has.
    pub(crate) digest: Option<Digest>,
    /// Its bytes.
    pub(crate) size: u64,
    /// Which version of it, where the digest is not known: parts of two versions must not be joined.
    pub(crate) version: String,
    /// What those who watch are told, such as `pulling 0123456789ab`.
    pub(crate) status: String,
}

/// The files of a download.
struct Files {
    data: PathBuf,
    parts: PathBuf,
    lock: PathBuf,
}

impl Fetch<'_> {
    /// Brings the blob into the store, unless it is there.
    pub(crate) fn run(
        &self,
        store: &Store,
        progress: &mut OnProgress<'_>,
    ) -> Result<Digest, StoreError> {
        let files = self.files(store);
        let folder = store.own("fetch");
        fs::create_dir_all(&folder).at(&folder)?;
        let _lock = loop {
            if let Some(digest) = self.present(store) {
                self.step(self.size).tell(progress)?;
                return Ok(digest);
            }
            // Somebody else fetches the same: wait for what comes of it.
            if let Some(lock) = self.try_lock(&files)? {
                break lock;
            }
            self.step(0).tell(progress)?;
            std::thread::sleep(TICK);
        };
        if let Some(digest) = self.present(store) {
            return Ok(digest);
        }
        self.download(&files, progress)?;
        let digest = self.verify(&files, progress)?;
        scratch::publish(&files.data, &store.blob_path(&digest))?;
        let _ = fs::remove_file(&files.parts);
        let _ = fs::remove_file(&files.lock);
        Ok(digest)
    }

    fn files(&self, store: &Store) -> Files {
        let key = match &self.digest {
            Some(digest) => digest.file_name(),
            None => {
                let what = format!("{}\n{}", self.url, self.version);
                format!("url-{}", Digest::of(what.as_bytes()).hex())
            }
        };
        let file = |ending: &str| store.own("fetch").join(format!("{key}{ending}"));
        Files {
            data: file(""),
            parts: file(".parts"),
            lock: file(".lock"),
        }
    }

    fn present(&self, store: &Store) -> Option<Digest> {
        self.digest
            .filter(|digest| store.blob_len(digest) == Some(self.size))
    }

    /// The lock on the download; `None` while another process or thread has it.
    fn try_lock(&self, files: &Files) -> Result<Option<File>, StoreError> {
        let file = own_file::open_for_writing(&files.lock)?;
        match file.try_lock() {
            // Whoever had it may have finished and removed the file that we hold.
            Ok(()) => Ok(files.lock.exists().then_some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(StoreError::io(&files.lock, error)),
        }
    }

    fn step(&self, completed: u64) -> Progress {
        Progress {
            digest: self.digest.map(|digest| digest.to_string()),
            ..Progress::of(self.status.clone(), completed, self.size)
        }
    }

    fn download(&self, files: &Files, progress: &mut OnProgress<'_>) -> Result<(), StoreError> {
        let data = own_file::open_for_writing(&files.data)?;
        let mut parts = Parts::open(&files.parts, self.size)?;
        // The two belong together: a table without its data is worth nothing.
        if data.metadata().at(&files.data)?.len() != self.size {
            parts.begin()?;
            data.set_len(self.size).at(&files.data)?;
        }
        match self.ranges(&parts, &files.data, progress) {
            // It does not know ranges: everything at once, then, from the beginning.
            Err(ranges::Failure::NoRanges) => {
                parts.begin()?;
                self.whole(&files.data, progress)?;
            }
            Err(ranges::Failure::Store(error)) => return Err(error),
            Ok(()) => {}
        }
        data.sync_all().at(&files.data)
    }

    /// Reads what was fetched; if it is not what it should be, it is thrown away.
    fn verify(&self, files: &Files, progress: &mut OnProgress<'_>) -> Result<Digest, StoreError> {
        let file = File::open(&files.data).at(&files.data)?;
        let mut stopped = None;
        let found = Digest::of_reader(file, |done| {
            let step = Progress {
                status: "verifying sha256 digest".into(),
                ..self.step(done)
            };
            step.tell(progress).map_err(|error| {
                stopped = Some(error);
                io::Error::other("stopped")
            })
        });
        if let Some(error) = stopped {
            return Err(error);
        }
        let found = found.at(&files.data)?;
        match self.digest {
            Some(expected) if expected != found => {
                let _ = fs::remove_file(&files.parts);
                fs::remove_file(&files.data).at(&files.data)?;
                Err(StoreError::WrongDigest { expected, found })
            }
            _ => Ok(found),
        }
    }
}

/// Waits before the next try; longer each time.
pub(crate) fn pause(client: &Client, failed: u32) {
    let retry = client.network.retry;
    let factor = 1u32 << failed.saturating_sub(1).min(6);
    std::thread::sleep(retry.pause.saturating_mul(factor));
}

/// With less time than this, another try is not worth it.
const SHORTEST_TRY: Duration = Duration::from_millis(100);
/// Tries to reach a host that cannot be reached: whoever has no network shall not wait half a minute to be told so.
const TRIES_TO_REACH: u32 = 3;

/// Asks for a small document again while that fails for reasons that may pass, for as long as documents may take in
/// all. `work` is told by when its try must be over: a try gets two thirds of the time that is left, so that there is
/// some for another.
pub(crate) fn again<T>(
    client: &Client,
    mut work: impl FnMut(Instant) -> Result<T, NetError>,
) -> Result<T, NetError> {
    let end = Instant::now() + client.network.retry.document;
    let left = || end.saturating_duration_since(Instant::now());
    again_while(client, &|| left() > SHORTEST_TRY, || {
        work(Instant::now() + left() * 2 / 3)
    })
}

/// Does something again while it fails for reasons that may pass and there is time.
pub(crate) fn again_while<T>(
    client: &Client,
    has_time: &dyn Fn() -> bool,
    mut work: impl FnMut() -> Result<T, NetError>,
) -> Result<T, NetError> {
    let mut failed = 0;
    loop {
        match work() {
            Err(error) if error.may_pass() => {
                let tries = match error {
                    NetError::Unreachable { .. } => TRIES_TO_REACH,
                    _ => u32::MAX,
                };
                failed += 1;
                if failed >= client.network.retry.tries.min(tries) {
                    return Err(error);
                }
                pause(client, failed);
                if !has_time() {
                    return Err(error);
                }
            }
            outcome => return outcome,
        }
    }
}
