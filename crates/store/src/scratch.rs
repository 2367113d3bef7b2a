//! Files under construction. They become visible by being renamed, complete and on the disk, or not at all.

use crate::error::{At, StoreError};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that nobody else knows; it is gone when it is dropped.
pub(crate) struct Scratch {
    path: PathBuf,
    file: File,
    kept: bool,
}

/// A number that no other file of this process has.
pub(crate) fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

impl Scratch {
    /// An empty file in `folder`, which is made if need be.
    pub(crate) fn new(folder: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).at(folder)?;
        loop {
            let path = folder.join(unique_name());
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path);
            match file {
                // Left behind by a process that was killed and had this one's number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    return Ok(Self {
                        file: file.at(&path)?,
                        path,
                        kept: false,
                    });
                }
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).at(&self.path)
    }

    /// Puts the file where it belongs, over what may be there.
    pub(crate) fn publish(mut self, destination: &Path) -> Result<(), StoreError> {
        self.file.sync_all().at(&self.path)?;
        publish(&self.path, destination)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Renames a complete file, and makes the renaming last.
pub(crate) fn publish(path: &Path, destination: &Path) -> Result<(), StoreError> {
    let folder = destination.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).at(folder)?;
    fs::rename(path, destination).at(destination)?;
    // Windows opens no folders, and writes down by itself what happens in them.
    #[cfg(not(windows))]
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .at(folder)?;
    Ok(())
}
