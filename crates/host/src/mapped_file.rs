//! Files read through memory: the system brings in what is touched, and takes back what is not.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

#[cfg(unix)]
use crate::bus_guard::BusGuard;
use crate::{huge_pages::page_size, read_ahead::ReadAhead};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use strata_platform::Backing;

/// A file whose bytes can be read as if they were in memory.
///
/// Advice ([`Backing`]) works best on long runs in the file's order: a whole layer rather than its tensors.
pub struct MappedFile {
    /// Started when it is first needed; `None` where it could not be.
    read_ahead: OnceLock<Option<ReadAhead>>,
    #[cfg(any(target_os = "android", target_os = "linux"))]
    file: File,
    /// Goes before the bytes do.
    #[cfg(unix)]
    guard: BusGuard,
    bytes: Arc<Mmap>,
    /// Where in the file they begin.
    #[cfg(any(target_os = "android", target_os = "linux"))]
    base: u64,
}

impl MappedFile {
    /// Maps a regular file; anything else (a folder, a pipe, a device) is an error of the kind `InvalidInput`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::map(path, None)
    }

    /// Maps a part of a regular file. What is not all within the file is an error of the kind `InvalidInput`.
    pub fn open_range(path: &Path, range: Range<u64>) -> io::Result<Self> {
        Self::map(path, Some(range))
    }

    fn map(path: &Path, range: Option<Range<u64>>) -> io::Result<Self> {
        let file = open(path)?;
        if !file.metadata()?.is_file() {
            return Err(not_regular());
        }
        let mut options = MmapOptions::new();
        if let Some(range) = &range {
            let length = range.end.checked_sub(range.start);
            let length = length.and_then(|length| usize::try_from(length).ok());
            match length {
                Some(length) if range.end <= file.metadata()?.len() => {
                    options.offset(range.start).len(length);
                }
                _ => {
                    let what = "the range is not within the file";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
                }
            }
        }
        // SAFETY: the mapping is only read. Whoever changes the file meanwhile changes the bytes, which may spoil an
        // answer but no memory, for everything read from a file is checked where it is used; where it is shortened,
        // the guard puts zeros in its place. Windows does not let a mapped file be shortened.
        let bytes = Arc::new(unsafe { options.map(&file)? });
        // Large pages in the system's cache make reading and dropping them several times cheaper.
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage);
        Ok(Self {
            read_ahead: OnceLock::new(),
            #[cfg(any(target_os = "android", target_os = "linux"))]
            file,
            #[cfg(unix)]
            guard: BusGuard::new(&bytes),
            bytes,
            #[cfg(any(target_os = "android", target_os = "linux"))]
            base: range.map_or(0, |range| range.start),
        })
    }

    /// All of the file, or of the part that was mapped.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the file still had all its bytes whenever they were read.
    fn intact(&self) -> bool {
        #[cfg(unix)]
        return self.guard.is_intact();
        #[cfg(not(unix))]
        true
    }

    /// The file is read from start to end: the system may read further ahead, and forget sooner what is behind.
    pub fn advise_sequential(&self) {
        #[cfg(unix)]
        let _ = self.bytes.advise(memmap2::Advice::Sequential);
        #[cfg(any(target_os = "android", target_os = "linux"))]
        self.advise_file(0..self.bytes.len(), libc::POSIX_FADV_SEQUENTIAL);
    }

    /// Where in the file `bytes` lie, if they do.
    fn range_of(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let start = bytes
            .as_ptr()
            .addr()
            .checked_sub(self.bytes.as_ptr().addr())?;
        let end = start.checked_add(bytes.len())?;
        (end <= self.bytes.len() && start < end).then_some(start..end)
    }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // Does not wait for a pipe's other end.
    let flags = libc::O_NONBLOCK;
    File::options().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    // Here a folder cannot be opened at all, which would be another error.
    if std::fs::metadata(path)?.is_dir() {
        return Err(not_regular());
    }
    File::open(path)
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

impl MappedFile {
    fn fetch(&self, range: Range<usize>) {
        let read_ahead = self
            .read_ahead
            .get_or_init(|| ReadAhead::start(Arc::clone(&self.bytes)).ok());
        if let Some(read_ahead) = read_ahead {
            read_ahead.fetch(range);
        }
    }

    fn release(&self, range: Range<usize>) {
        if let Some(Some(read_ahead)) = self.read_ahead.get() {
            read_ahead.cancel(&range);
        }
        let pages = whole_pages(&range, self.bytes.len());
        if pages.is_empty() {
            return;
        }
        self.drop_pages(pages);
    }
}

#[cfg(unix)]
impl MappedFile {
    fn drop_pages(&self, pages: Range<usize>) {
        // SAFETY: the mapping is of a file and never written to, so pages that are dropped come back with the file's
        // bytes.
        let _ = unsafe {
            self.bytes.unchecked_advise_range(
                memmap2::UncheckedAdvice::DontNeed,
                pages.start,
                pages.len(),
            )
        };
        #[cfg(any(target_os = "android", target_os = "linux"))]
        self.drop_cached(pages);
    }
}

#[cfg(any(target_os = "android", target_os = "linux"))]
impl MappedFile {
    /// Takes pages out of the system's cache as well. That goes by its own pages, up to 2 MiB large, and passes over those
    /// that anyone still has mapped: so the range may start earlier, to drop the one that the last range ended on. It may
    /// not end later, where bytes may have been read ahead and not been touched yet.
    fn drop_cached(&self, pages: Range<usize>) {
        const LARGE: usize = 2 << 20;
        let start = pages.start - pages.start % LARGE;
        self.advise_file(start..pages.end, libc::POSIX_FADV_DONTNEED);
    }

    fn advise_file(&self, range: Range<usize>, advice: i32) {
        use std::os::fd::AsRawFd;
        let start = self.base + range.start as u64;
        let (Ok(start), Ok(len)) = (start.try_into(), range.len().try_into()) else {
            return;
        };
        // SAFETY: passes numbers only, and the descriptor is open.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), start, len, advice) };
    }
}

/// The pages of a range in a file of `len` bytes: with the one it starts on, without the one it ends on, where the
/// next range starts. So ranges released one after the other leave no page between them.
fn whole_pages(range: &Range<usize>, len: usize) -> Range<usize> {
    let page = page_size();
    let start = range.start - range.start % page;
    let end = if range.end == len {
        len
    } else {
        range.end - range.end % page
    };
    start..end.max(start)
}

#[cfg(windows)]
impl MappedFile {
    /// Takes pages out of the process's memory; the system keeps them as long as it has no better use for theirs.
    fn drop_pages(&self, pages: Range<usize>) {
        use windows_sys::Win32::System::Memory::VirtualUnlock;
        let start = self.bytes[pages.clone()].as_ptr().cast();
        // SAFETY: the range is part of the mapping, which is only read: pages come back with the file's bytes. They were
        // never locked, and unlocking such pages is how they are let go of.
        unsafe { VirtualUnlock(start, pages.len()) };
    }
}

impl Backing for MappedFile {
    fn part(&self, index: usize) -> Option<&[u8]> {
        (index == 0).then(|| self.bytes())
    }

    fn will_need(&self, bytes: &[u8]) {
        if let Some(range) = self.range_of(bytes) {
            self.fetch(range);
        }
    }

    fn done_with(&self, bytes: &[u8]) {
        if let Some(range) = self.range_of(bytes) {
            self.release(range);
        }
    }

    fn is_intact(&self) -> bool {
        self.intact()
    }
}

/// A model that is split over several files.
pub struct MappedFiles(pub Vec<MappedFile>);

impl Backing for MappedFiles {
    fn part(&self, index: usize) -> Option<&[u8]> {
        self.0.get(index).map(MappedFile::bytes)
    }

    fn will_need(&self, bytes: &[u8]) {
        self.0.iter().for_each(|file| file.will_need(bytes));
    }

    fn done_with(&self, bytes: &[u8]) {
        self.0.iter().for_each(|file| file.done_with(bytes));
    }

    fn is_intact(&self) -> bool {
        self.0.iter().all(MappedFile::intact)
    }
}
