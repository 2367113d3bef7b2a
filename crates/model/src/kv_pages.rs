//! The key and value cache: pages of a fixed number of positions, handed out, shared and taken back.
//!
//! A page holds all layers of its positions. Inside, keys come before values in each layer, and each head's
//! positions lie next to each other: attention over one head reads contiguous rows.

use crate::config::Config;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::KvType;
use strata_platform::{Memory, OutOfMemory, Region};

/// Positions in a page.
pub const PAGE: usize = 32;

/// A page's number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(u32);

/// Stands where a sequence had a page that it no longer needs.
const GIVEN_BACK: PageId = PageId(u32::MAX);

/// The sizes inside a page.
#[derive(Copy, Clone, Debug)]
pub(crate) struct PageShape {
    pub(crate) kind: KvType,
    layers: usize,
    heads: usize,
    /// Bytes of one head's key or value at one position.
    row: usize,
}

impl PageShape {
    pub(crate) fn new(config: &Config, kind: KvType) -> Self {
        Self {
            kind,
            layers: config.layers,
            heads: config.kv_heads,
            row: kind.row_bytes(config.head_size),
        }
    }

    /// Bytes of one head of one layer: all positions of a page.
    fn head(&self) -> usize {
        PAGE * self.row
    }

    /// Bytes of one layer of a page.
    pub(crate) fn layer(&self) -> usize {
        2 * self.heads * self.head()
    }

    /// Where a page begins.
    pub(crate) fn start(&self, page: PageId) -> usize {
        page.0 as usize * self.page()
    }

    /// One head's key or value at one position, within a layer of a page.
    pub(crate) fn row_in_layer(&self, half: Half, head: usize, position: usize) -> Range<usize> {
        let start = (half as usize * self.heads + head) * self.head() + position % PAGE * self.row;
        start..start + self.row
    }

    /// Bytes for so many positions.
    pub(crate) fn bytes(&self, positions: usize) -> usize {
        positions.div_ceil(PAGE).saturating_mul(self.page())
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> usize {
        self.layers * self.layer()
    }

    fn head_offset(&self, page: PageId, layer: usize, half: Half, head: usize) -> usize {
        let half = half as usize;
        page.0 as usize * self.page() + ((layer * 2 + half) * self.heads + head) * self.head()
    }
}

/// Keys or values.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Half {
    Keys = 0,
    Values = 1,
}

/// No page is free.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key and value cache is full: {pages} pages of {PAGE} positions are in use")]
pub struct OutOfPages {
    /// How many there are.
    pub pages: usize,
}

/// A fixed number of pages, each with a count of those who use it.
pub struct KvPages {
    shape: PageShape,
    memory: Box<dyn Region>,
    users: Vec<u32>,
    free: Vec<PageId>,
}

impl KvPages {
    /// Memory for at least `positions` positions of one or several sequences.
    ///
    /// # Panics
    /// If `kind` stores blocks of 32 values and the heads' size is not a multiple of that.
    pub fn new(
        config: &Config,
        kind: KvType,
        positions: usize,
        memory: &dyn Memory,
    ) -> Result<Self, OutOfMemory> {
        let shape = PageShape::new(config, kind);
        let pages = positions.div_ceil(PAGE);
        let bytes = pages
            .checked_mul(shape.page())
            .filter(|_| u32::try_from(pages).is_ok())
            .ok_or(OutOfMemory { bytes: usize::MAX })?;
        Ok(Self {
            shape,
            memory: memory.region(bytes)?,
            users: alloc::vec![0; pages],
            free: (0..pages as u32).rev().map(PageId).collect(),
        })
    }

    /// How many pages nobody uses.
    pub fn free_pages(&self) -> usize {
        self.free.len()
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.users.len()
    }

    /// Bytes of all pages.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Bytes of one page.
    pub fn page_bytes(&self) -> usize {
        self.shape.page()
    }

    /// How keys and values are stored.
    pub fn kind(&self) -> KvType {
        self.shape.kind
    }

    /// What stands in a page.
    pub fn page(&self, page: PageId) -> &[u8] {
        let start = page.0 as usize * self.shape.page();
        &self.memory[start..start + self.shape.page()]
    }

    /// Takes a free page and fills it with what [`page`](Self::page) once gave. It has one user, the caller.
    ///
    /// # Panics
    /// If `bytes` are not those of a page.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<PageId, OutOfPages> {
        let mut sequence = Sequence::default();
        self.reserve(&mut sequence, 1)?;
        let page = sequence.pages[0];
        let start = page.0 as usize * self.shape.page();
        self.memory[start..start + self.shape.page()].copy_from_slice(bytes);
        Ok(page)
    }

    /// Counts one user of a page more.
    pub fn retain(&mut self, page: PageId) {
        self.users[page.0 as usize] += 1;
    }

    /// Counts one user of a page less; the last one gives it back.
    pub fn release(&mut self, page: PageId) {
        if page == GIVEN_BACK {
            return;
        }
        let users = &mut self.users[page.0 as usize];
        *users -= 1;
        if *users == 0 {
            self.free.push(page);
        }
    }

    /// How many use a page.
    pub fn users(&self, page: PageId) -> usize {
        self.users[page.0 as usize] as usize
    }

    /// Has a sequence use another page with the same content instead of its page of number `index`.
    pub fn replace(&mut self, sequence: &mut Sequence, index: usize, page: PageId) {
        self.retain(page);
        let old = core::mem::replace(&mut sequence.pages[index], page);
        self.release(old);
    }

    /// Gives back the pages of a sequence that hold nothing from `position` on: every layer's window is past them.
    /// The sequence goes on, and cannot be forked or made shorter than `position`.
    pub fn forget_before(&mut self, sequence: &mut Sequence, position: usize) {
        let whole = (position.min(sequence.len) / PAGE).min(sequence.pages.len());
        // From the latest back: what is before a page given back was given back earlier.
        for index in (0..whole).rev() {
            let page = core::mem::replace(&mut sequence.pages[index], GIVEN_BACK);
            if page == GIVEN_BACK {
                break;
            }
            self.release(page);
        }
    }

    /// Gives `sequence` pages for `more` positions after those it has; all of them or none.
    pub fn reserve(&mut self, sequence: &mut Sequence, more: usize) -> Result<(), OutOfPages> {
        let wanted = (sequence.len + more).div_ceil(PAGE);
        let missing = wanted.saturating_sub(sequence.pages.len());
        if missing > self.free.len() {
            return Err(OutOfPages {
                pages: self.users.len(),
            });
        }
        for _ in 0..missing {
            let page = self.free.pop().expect("counted above");
            self.users[page.0 as usize] = 1;
            sequence.pages.push(page);
        }
        Ok(())
    }

    /// Forgets the positions from `len` on and gives back the pages that held nothing else.
    pub fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        sequence.len = sequence.len.min(len);
        for page in sequence
            .pages
            .split_off(sequence.len.div_ceil(PAGE).min(sequence.pages.len()))
        {
            self.release(page);
        }
    }

    /// A sequence that shares the first `len` positions of another. Whole pages are shared; what stands in a
    /// page that is only partly wanted is copied.
    pub fn fork(&mut self, sequence: &Sequence, len: usize) -> Result<Sequence, OutOfPages> {
        self.adopt(&sequence.pages, len.min(sequence.len))
    }

    /// A sequence of the first `len` positions that stand in `pages`, shared and copied like a fork's.
    ///
    /// # Panics
    /// If there are fewer positions in the pages.
    pub fn adopt(&mut self, pages: &[PageId], len: usize) -> Result<Sequence, OutOfPages> {
        let whole = len / PAGE;
        let mut fork = Sequence {
            pages: pages[..whole].to_vec(),
            len: whole * PAGE,
        };
        if !len.is_multiple_of(PAGE) {
            let from = pages[whole];
            self.reserve(&mut fork, 1)?;
            let (page, to) = (self.shape.page(), fork.pages[whole]);
            let start = from.0 as usize * page;
            self.memory
                .copy_within(start..start + page, to.0 as usize * page);
        }
        for page in fork.pages[..whole].iter().filter(|&&p| p != GIVEN_BACK) {
            self.users[page.0 as usize] += 1;
        }
        fork.len = len;
        Ok(fork)
    }

    pub(crate) fn shape(&self) -> PageShape {
        self.shape
    }

    /// Some rows of one head in a page.
    pub(crate) fn rows(
        &self,
        page: PageId,
        layer: usize,
        half: Half,
        head: usize,
        rows: Range<usize>,
    ) -> &[u8] {
        let start = self.shape.head_offset(page, layer, half, head);
        &self.memory[start + rows.start * self.shape.row..start + rows.end * self.shape.row]
    }

    /// The memory from a layer's part of the first page on; [`PageShape::start`] says where the other pages' parts are.
    pub(crate) fn layer_mut(&mut self, layer: usize) -> &mut [u8] {
        &mut self.memory[layer * self.shape.layer()..]
    }
}

/// A sequence's pages, and how many positions in them hold something.
///
/// It must be given back with [`KvPages::truncate`]; a dropped sequence keeps its pages.
#[derive(Debug, Default)]
pub struct Sequence {
    pub(crate) pages: Vec<PageId>,
    pub(crate) len: usize,
}

impl Sequence {
    /// Positions that have been computed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets the positions from `len` on and keeps their pages, for the tokens that will stand there instead.
    ///
    /// Positions that a fork shares must stay: what is stored next would show in the fork.
    pub fn rewind(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Its pages, in order.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Positions that it has pages for.
    pub fn room(&self) -> usize {
        self.pages.len() * PAGE
    }
}
