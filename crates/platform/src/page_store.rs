//! Where pages of a cache outlive the process.

use alloc::vec::Vec;

/// Names a page that is stored: a digest of everything that it depends on.
pub type PageKey = [u8; 32];

/// Keeps pages under names. It may forget any of them at any time, and need not return what was put: whoever reads
/// checks.
pub trait PageStore: Send {
    /// Keeps a page, perhaps in the place of others.
    fn put(&mut self, key: &PageKey, page: &[u8]);

    /// Appends a page to `out`, if it is there.
    fn get(&mut self, key: &PageKey, out: &mut Vec<u8>) -> bool;

    /// Whether a page is there.
    fn contains(&self, key: &PageKey) -> bool;

    /// Forgets a page, because what it holds is damaged.
    fn remove(&mut self, key: &PageKey);

    /// Has what was put outlive a power cut, where the store can.
    fn sync(&mut self) {}
}
