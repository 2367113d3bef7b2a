//! A store of pages in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use strata_platform::{PageKey, PageStore};

/// Pages that outlive an engine.
#[derive(Clone, Default)]
pub(crate) struct Shelf(pub(crate) Arc<Mutex<BTreeMap<PageKey, Vec<u8>>>>);

impl PageStore for Shelf {
    fn put(&mut self, key: &PageKey, page: &[u8]) {
        self.0.lock().unwrap().insert(*key, page.to_vec());
    }
    fn get(&mut self, key: &PageKey, out: &mut Vec<u8>) -> bool {
        let shelf = self.0.lock().unwrap();
        shelf
            .get(key)
            .map(|page| out.extend_from_slice(page))
            .is_some()
    }
    fn contains(&self, key: &PageKey) -> bool {
        self.0.lock().unwrap().contains_key(key)
    }
    fn remove(&mut self, key: &PageKey) {
        self.0.lock().unwrap().remove(key);
    }
}
