//! Large memory, for weights and caches.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::DerefMut;

/// Zeroed bytes that stay where they are until dropped.
pub trait Region: DerefMut<Target = [u8]> + Send + Sync {}

/// The machine could not give that much.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// How many bytes were asked for.
    pub bytes: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the machine has no {} bytes of memory to give",
            self.bytes
        )
    }
}

impl core::error::Error for OutOfMemory {}

/// Where regions come from.
pub trait Memory {
    /// `bytes` zeroed bytes, aligned to at least 64.
    fn region(&self, bytes: usize) -> Result<Box<dyn Region>, OutOfMemory>;
}

/// Regions from the program's ordinary allocator.
#[derive(Copy, Clone, Debug, Default)]
pub struct SystemMemory;

/// A cache line: what a vector register holds.
#[derive(Copy, Clone)]
#[repr(C, align(64))]
struct Line([u8; 64]);

struct Lines {
    lines: Vec<Line>,
    bytes: usize,
}

impl Region for Lines {}

#[allow(unsafe_code)]
impl core::ops::Deref for Lines {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `lines` holds at least `bytes` initialized bytes, and bytes have no alignment or validity.
        unsafe { core::slice::from_raw_parts(self.lines.as_ptr().cast(), self.bytes) }
    }
}

#[allow(unsafe_code)]
impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { core::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.bytes) }
    }
}

impl Memory for SystemMemory {
    fn region(&self, bytes: usize) -> Result<Box<dyn Region>, OutOfMemory> {
        let count = bytes.div_ceil(64);
        let mut lines = Vec::new();
        lines
            .try_reserve_exact(count)
            .map_err(|_| OutOfMemory { bytes })?;
        lines.resize(count, Line([0; 64]));
        Ok(Box::new(Lines { lines, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zeroed_aligned_and_of_the_size_asked_for() {
        for bytes in [0, 1, 63, 64, 65, 100_000] {
            let mut region = SystemMemory.region(bytes).unwrap();
            assert_eq!(region.len(), bytes);
            assert!(region.iter().all(|&b| b == 0));
            assert_eq!(region.as_ptr() as usize % 64, 0);
            region.fill(7);
        }
    }

    #[test]
    fn too_much_is_an_error() {
        let bytes = isize::MAX as usize;
        assert_eq!(
            SystemMemory.region(bytes).err(),
            Some(OutOfMemory { bytes })
        );
    }
}
