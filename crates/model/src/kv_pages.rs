//! A page table and its storage in one, for those who run a model without a scheduler.

use crate::config::Config;
use crate::pages::{OutOfPages, PageLayout, PageStorage, PageTable, PagesMut, Sequence};
use core::ops::{Deref, DerefMut};
use strata_kernels::KvType;
use strata_platform::{Memory, OutOfMemory};

/// Pages for keys and values, with their bookkeeping, to which it derefs.
pub struct KvPages {
    table: PageTable,
    storage: PageStorage,
}

impl KvPages {
    /// Memory for at least `positions` positions of one or several sequences, and for as many recurrent states as there
    /// are pages, where the model has any.
    ///
    /// # Panics
    /// If `kind` stores blocks of 32 values and a head's size is not a multiple of that.
    pub fn new(
        config: &Config,
        kind: KvType,
        positions: usize,
        memory: &dyn Memory,
    ) -> Result<Self, OutOfMemory> {
        let states = positions.div_ceil(crate::PAGE);
        let layout = PageLayout::new(config, kind);
        let storage = PageStorage::new(layout, positions, states, memory)?;
        Ok(Self {
            table: storage.table(),
            storage,
        })
    }

    /// Bytes of all pages and states.
    pub fn bytes(&self) -> usize {
        self.storage.bytes()
    }

    /// A sequence that shares the first `len` positions of another. Whole pages are shared; what stands in a page that is
    /// only partly wanted is copied, as is a recurrent state, of which `len` must then be all. What the other no longer
    /// holds for windows the fork has not either.
    pub fn fork(&mut self, sequence: &Sequence, len: usize) -> Result<Sequence, OutOfPages> {
        let len = len.min(sequence.len());
        let pages = sequence.pages();
        let (mut fork, copy) = self.table.adopt(pages, len, sequence.forgotten())?;
        fork.source = sequence.source;
        if let Some(copy) = copy {
            self.storage.copy(&self.table, copy);
        }
        if let (Some(from), Some(to)) = (sequence.state(), fork.state()) {
            debug_assert_eq!(len, sequence.len(), "a recurrent state cannot be cut back");
            self.storage.copy_state(from, to);
        }
        Ok(fork)
    }

    pub(crate) fn parts_mut(&mut self) -> PagesMut<'_> {
        PagesMut {
            table: &self.table,
            storage: &mut self.storage,
        }
    }
}

impl Deref for KvPages {
    type Target = PageTable;
    fn deref(&self) -> &PageTable {
        &self.table
    }
}

impl DerefMut for KvPages {
    fn deref_mut(&mut self) -> &mut PageTable {
        &mut self.table
    }
}
