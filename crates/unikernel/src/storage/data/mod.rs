//! What outlives a power cut: pages of the cache and saved texts, on a partition of a type of our own. Nothing else on a
//! disk is ever written.

mod area;
mod format;
mod record_log;
#[cfg(test)]
pub(crate) mod tests;

pub use area::Area;
pub use record_log::{DataError, RecordLog};

use crate::machine::lock::Lock;
use crate::say;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_platform::{PageKey, PageStore, Sha256};

/// A data partition that the cache and the server share.
#[derive(Clone)]
pub struct DataStore(Arc<Lock<RecordLog>>);

impl DataStore {
    /// One over a log.
    pub fn new(log: RecordLog) -> Self {
        Self(Arc::new(Lock::new(log)))
    }

    /// Saves a text under a name, in the place of one that had it. It is on the disk when this is done.
    pub fn save(&self, name: &str, text: &[u8]) -> Result<(), DataError> {
        self.0.lock().save(&saved(name), text)
    }

    /// Bytes of the longest text that can be saved.
    pub fn longest_text(&self) -> u64 {
        self.0.lock().largest_bytes()
    }

    /// The text of a name, if there is one that is whole and there is memory for it.
    pub fn load(&self, name: &str) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        self.0.lock().get(&saved(name), &mut text).then_some(text)
    }
}

/// What stands for the name of a text.
fn saved(name: &str) -> PageKey {
    let mut sum = Sha256::new();
    sum.update(b"a saved text\n");
    sum.update(name);
    sum.finalize()
}

/// Does something unless the disk has failed, and tells if it does now. That something has no room is not told: it is the
/// cache's, which can do without.
fn attempt(log: &mut RecordLog, act: impl FnOnce(&mut RecordLog) -> Result<(), DataError>) {
    if !log.has_failed()
        && let Err(error @ DataError::Storage(_)) = act(log)
    {
        say!("{error}");
    }
}

impl PageStore for DataStore {
    fn put(&mut self, key: &PageKey, page: &[u8]) {
        attempt(&mut self.0.lock(), |log| log.put(key, page));
    }

    fn get(&mut self, key: &PageKey, out: &mut Vec<u8>) -> bool {
        self.0.lock().get(key, out)
    }

    fn contains(&self, key: &PageKey) -> bool {
        self.0.lock().contains(key)
    }

    fn remove(&mut self, key: &PageKey) {
        self.0.lock().forget(key);
    }

    fn sync(&mut self) {
        attempt(&mut self.0.lock(), RecordLog::commit);
    }
}
