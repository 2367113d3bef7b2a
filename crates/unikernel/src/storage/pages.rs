//! A file on a disk in pages, of which only those in use are in memory; summed up on the way.

use super::{DigestError, Disk, Found, StorageError, Sum};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use strata_platform::{OutOfMemory, Region};

/// Bytes in a page, which are read by one request.
pub const PAGE: usize = 2 << 20;
/// Pages that nobody wants which are read for the sum, to reach one that is about to go.
const GAP: usize = 4;

/// The pages of a file.
pub struct Pages {
    disk: Disk,
    file: Found,
    /// Where memory for a page comes from.
    memory: fn(usize) -> Result<Box<dyn Region>, OutOfMemory>,
    present: BTreeMap<usize, Box<dyn Region>>,
    spare: Vec<Box<dyn Region>>,
    sum: Option<Sum>,
    /// The first page that is not in the sum.
    next: usize,
    error: Option<StorageError>,
    /// Bytes that were read.
    read: u64,
}

impl Pages {
    /// None of them in memory.
    pub fn new(
        disk: Disk,
        file: Found,
        memory: fn(usize) -> Result<Box<dyn Region>, OutOfMemory>,
    ) -> Self {
        Self {
            disk,
            file,
            memory,
            present: BTreeMap::new(),
            spare: Vec::new(),
            sum: None,
            next: 0,
            error: None,
            read: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn on(self, disk: Disk) -> Self {
        Self { disk, ..self }
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        usize::try_from(self.file.bytes.div_ceil(PAGE as u64)).unwrap_or(usize::MAX)
    }

    /// Sums up what is read from now on.
    pub fn expect(&mut self, sum: Sum) {
        self.sum = Some(sum);
    }

    /// The error since the last look, after which a page had zeros instead of the file's bytes.
    pub fn take_error(&mut self) -> Option<StorageError> {
        self.error.take()
    }

    /// Brings a page to memory, and gives it if it was not there.
    pub fn fetch(&mut self, page: usize) -> Result<Option<&[u8]>, OutOfMemory> {
        if self.present.contains_key(&page) {
            return Ok(None);
        }
        let mut region = match self.spare.pop() {
            Some(region) => region,
            None => (self.memory)(PAGE)?,
        };
        let start = page as u64 * PAGE as u64;
        let len = self.file.bytes.saturating_sub(start).min(PAGE as u64) as usize;
        region[len..].fill(0);
        let read = self
            .file
            .read(&mut *self.disk.lock(), start, &mut region[..len]);
        if let Err(error) = read {
            region.fill(0);
            self.error.get_or_insert(error);
        }
        self.read += len as u64;
        Ok(Some(self.present.entry(page).or_insert(region)))
    }

    /// Takes pages out, which [`reuse`](Self::reuse) gets back when nobody sees them any more.
    pub fn release(&mut self, pages: Range<usize>) -> Vec<(usize, Box<dyn Region>)> {
        let there: Vec<usize> = self.present.range(pages).map(|(&page, _)| page).collect();
        let mut gone = Vec::new();
        for page in there {
            // Mostly pages go in the file's order, and this one is the next; if not, `verify` reads it once more.
            while self.next <= page && self.sum.is_some() {
                let near = page - self.next <= GAP;
                if !near && !self.present.contains_key(&self.next) || self.add().is_err() {
                    break;
                }
            }
            gone.extend(self.present.remove(&page).map(|region| (page, region)));
        }
        gone
    }

    /// Takes back what [`release`](Self::release) gave.
    pub fn reuse(&mut self, gone: Vec<(usize, Box<dyn Region>)>) {
        self.spare
            .extend(gone.into_iter().map(|(_, region)| region));
    }

    /// Adds the next page to the sum.
    fn add(&mut self) -> Result<(), OutOfMemory> {
        let page = self.next;
        let fetched = self.fetch(page)?.is_some();
        let len = self.file.bytes.saturating_sub(page as u64 * PAGE as u64);
        if let (Some(sum), Some(region)) = (&mut self.sum, self.present.get(&page)) {
            sum.add(&region[..len.min(PAGE as u64) as usize]);
        }
        // Nobody else knows of it.
        if fetched {
            self.spare.extend(self.present.remove(&page));
        }
        self.next += 1;
        Ok(())
    }

    /// Reads what the sum still lacks, and says whether it is right, if there is one; `progress` hears how many pages
    /// are in it.
    pub fn verify(&mut self, progress: &mut dyn FnMut(usize)) -> Result<Verified, VerifyError> {
        while self.sum.as_ref().is_some_and(|sum| !sum.is_right()) && self.next < self.count() {
            self.add()?;
            progress(self.next);
        }
        if let Some(error) = self.take_error() {
            return Err(error.into());
        }
        let sum = self.sum.take();
        let (read, summed) = (self.read, sum.is_some());
        sum.map_or(Ok(()), Sum::finish)?;
        Ok(Verified { read, summed })
    }
}

/// A file that is as it should be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Bytes that were read.
    pub read: u64,
    /// Whether there was a sum to compare with.
    pub summed: bool,
}

/// Why a file is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// It cannot be read.
    #[error("the model cannot be read: {0}")]
    Storage(#[from] StorageError),
    /// It is another.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// There is no memory for a page.
    #[error("the model cannot be read: {0}")]
    Memory(#[from] OutOfMemory),
}
