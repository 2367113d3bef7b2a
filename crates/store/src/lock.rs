//! How processes that use one store stay out of each other's way.
//!
//! Whoever changes manifests or collects blobs holds `lock`, for a moment. Whoever gathers blobs for a manifest that
//! is still to be written pins them: a file with their digests, locked for as long as the work takes. The pins of a
//! process that was killed are unlocked by the system, and count no more.

use crate::digest::Digest;
use crate::error::{At, StoreError};
use crate::scratch::Scratch;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Read;
use std::path::Path;

/// The store's lock, until it is dropped.
pub(crate) struct StoreLock(#[expect(dead_code, reason = "held for its lock")] File);

impl StoreLock {
    /// Waits for the lock in `folder`.
    pub(crate) fn take(folder: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).at(folder)?;
        let path = folder.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .at(&path)?;
        file.lock().at(&path)?;
        Ok(Self(file))
    }
}

/// Blobs that nobody may collect, until it is dropped.
pub(crate) struct Pins(#[expect(dead_code, reason = "held for its lock")] Scratch);

impl Pins {
    /// Pins blobs, whether they are here already or not. The lock sees to it that nobody is collecting.
    pub(crate) fn new<'a>(
        folder: &Path,
        digests: impl Iterator<Item = &'a Digest>,
        _lock: &StoreLock,
    ) -> Result<Self, StoreError> {
        let mut file = Scratch::new(folder)?;
        file.file().lock().at(file.path())?;
        let lines: String = digests.map(|digest| format!("{digest}\n")).collect();
        file.write(lines.as_bytes())?;
        Ok(Self(file))
    }

    /// All blobs that are pinned now. Pins that their process left behind are removed.
    pub(crate) fn all(folder: &Path, _lock: &StoreLock) -> Result<BTreeSet<Digest>, StoreError> {
        let mut pinned = BTreeSet::new();
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(pinned),
            entries => entries.at(folder)?,
        };
        for entry in entries {
            let path = entry.at(folder)?.path();
            let Ok(mut file) = File::open(&path) else {
                continue;
            };
            match file.try_lock() {
                Ok(()) => {
                    let _ = fs::remove_file(&path);
                }
                Err(TryLockError::WouldBlock) => {
                    let mut text = String::new();
                    file.read_to_string(&mut text).at(&path)?;
                    pinned.extend(text.lines().filter_map(Digest::parse));
                }
                Err(TryLockError::Error(error)) => return Err(StoreError::io(&path, error)),
            }
        }
        Ok(pinned)
    }
}
