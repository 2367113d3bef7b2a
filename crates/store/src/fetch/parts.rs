//! How far each part of a download has come, in a file beside it, so that nothing is fetched twice.
//!
//! Little-endian: the magic, the whole length, the length of a part, then for each part how many of its bytes are
//! there. A number is written only after the bytes that it counts.

use crate::error::{At, StoreError};
use crate::own_file;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MAGIC: u64 = u64::from_le_bytes(*b"strata-1");
const HEADER: u64 = 24;
/// Parts are at least this long.
const SHORTEST: u64 = 8 << 20;
/// There are no more parts than this.
const MOST: u64 = 4096;

/// The parts of one download.
pub(super) struct Parts {
    path: PathBuf,
    len: u64,
    part_len: u64,
    done: Vec<u64>,
}

impl Parts {
    /// Goes on with what the file says, or begins anew if it is of another download or none.
    pub(super) fn open(path: &Path, len: u64) -> Result<Self, StoreError> {
        let part_len = len.div_ceil(MOST).max(SHORTEST);
        let count = len.div_ceil(part_len) as usize;
        let mut parts = Self {
            path: path.into(),
            len,
            part_len,
            done: vec![0; count],
        };
        let mut bytes = Vec::new();
        if let Ok(file) = own_file::open(path) {
            file.take(HEADER + 8 * MOST)
                .read_to_end(&mut bytes)
                .at(path)?;
        }
        let mut numbers = bytes
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        let header = [numbers.next(), numbers.next(), numbers.next()];
        if header == [Some(MAGIC), Some(len), Some(part_len)] {
            let longest: Vec<u64> = (0..count).map(|part| parts.len_of(part)).collect();
            for ((done, longest), number) in parts.done.iter_mut().zip(longest).zip(numbers) {
                *done = number.min(longest);
            }
        } else {
            parts.begin()?;
        }
        Ok(parts)
    }

    /// Forgets all that was done.
    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        self.done.fill(0);
        let numbers = [MAGIC, self.len, self.part_len];
        let numbers = numbers.iter().chain(&self.done);
        let bytes: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
        let mut file = own_file::open_for_writing(&self.path)?;
        file.set_len(0)
            .and_then(|()| file.write_all(&bytes))
            .at(&self.path)
    }

    pub(super) fn count(&self) -> usize {
        self.done.len()
    }

    /// Where a part begins.
    pub(super) fn start(&self, part: usize) -> u64 {
        part as u64 * self.part_len
    }

    pub(super) fn len_of(&self, part: usize) -> u64 {
        self.part_len.min(self.len - self.start(part))
    }

    /// Bytes of a part that are there.
    pub(super) fn done(&self, part: usize) -> u64 {
        self.done[part]
    }

    /// All bytes that are there.
    pub(super) fn total(&self) -> u64 {
        self.done.iter().sum()
    }

    /// Writes down how far one part has come.
    pub(super) fn marker(&self, part: usize) -> Result<Marker, StoreError> {
        let file = OpenOptions::new()
            .write(true)
            .open(&self.path)
            .at(&self.path)?;
        Ok(Marker {
            file,
            path: self.path.clone(),
            at: HEADER + 8 * part as u64,
        })
    }
}

/// Where the progress of one part is written down.
pub(super) struct Marker {
    file: File,
    path: PathBuf,
    at: u64,
}

impl Marker {
    pub(super) fn set(&mut self, done: u64) -> Result<(), StoreError> {
        self.file
            .seek(SeekFrom::Start(self.at))
            .and_then(|_| self.file.write_all(&done.to_le_bytes()))
            .at(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_remembered_for_the_same_download_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parts");
        let len = 3 * SHORTEST + 5;
        let parts = Parts::open(&path, len).unwrap();
        assert_eq!((parts.count(), parts.len_of(3), parts.total()), (4, 5, 0));
        parts.marker(1).unwrap().set(77).unwrap();
        // More than the part has: a damaged file must not make us skip anything outside.
        parts.marker(3).unwrap().set(u64::MAX).unwrap();
        let parts = Parts::open(&path, len).unwrap();
        assert_eq!((parts.done(1), parts.done(3)), (77, 5));
        assert_eq!(Parts::open(&path, len + 1).unwrap().total(), 0);
        std::fs::write(&path, b"rubbish").unwrap();
        assert_eq!(Parts::open(&path, len).unwrap().total(), 0);
        assert_eq!(Parts::open(&path, 0).unwrap().count(), 0);
    }
}
