//! The key and value cache: pages of a fixed number of positions, handed out, shared and taken back.
//!
//! A page holds its positions in all layers, a block of memory to a layer. Layers that see everything and layers that
//! see only a window of positions have users of their own, so that what no window reaches any more is given back
//! while the rest of the page stays. Inside a block keys come before values, and each head's positions lie next to
//! each other: attention over one head reads contiguous rows.

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

/// How far back a layer looks. The layers of each reach are a part of a page that is held and given back by itself.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Over the whole text.
    Everything = 0,
    /// Over a window before each position.
    Window = 1,
}

/// Stands where a page has no block for a layer: no memory is there.
const NOWHERE: u32 = u32::MAX;

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

    /// Bytes of one layer of a page: a block.
    pub(crate) fn layer(&self) -> usize {
        2 * self.heads * self.head()
    }

    /// One head's key or value at one position, within a block.
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

/// A fixed amount of memory for pages, of each of whose parts the users are counted.
pub struct KvPages {
    shape: PageShape,
    memory: Box<dyn Region>,
    /// The layers of each [`Reach`].
    layers: [Vec<usize>; 2],
    window: Option<usize>,
    /// Where each layer of each page is, by layer and page, counted in blocks.
    blocks: Vec<Vec<u32>>,
    /// Of each page's parts. Who holds the windows' part holds the other too.
    users: Vec<[u32; 2]>,
    /// Numbers that no page has now.
    vacant: Vec<PageId>,
    /// Blocks that no page has now.
    free: Vec<u32>,
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
        let too_much = OutOfMemory { bytes: usize::MAX };
        let bytes = pages.checked_mul(shape.page()).ok_or(too_much)?;
        let blocks = pages.checked_mul(shape.layers);
        let blocks = blocks.and_then(|blocks| u32::try_from(blocks).ok());
        let windowed = |layer: &usize| config.windows.get(*layer).copied().flatten().is_some();
        let (narrow, wide) = (0..shape.layers).partition(windowed);
        Ok(Self {
            shape,
            memory: memory.region(bytes)?,
            layers: [wide, narrow],
            window: config.windows.iter().copied().flatten().max(),
            blocks: alloc::vec![alloc::vec![NOWHERE; pages]; shape.layers],
            users: alloc::vec![[0; 2]; pages],
            vacant: (0..pages as u32).rev().map(PageId).collect(),
            free: (0..blocks.ok_or(too_much)?).rev().collect(),
        })
    }

    /// How many pages could be taken.
    pub fn free_pages(&self) -> usize {
        self.free.len() / self.shape.layers.max(1)
    }

    /// How many pages there is memory for. There can be more that hold only a part of their layers.
    pub fn pages(&self) -> usize {
        self.memory.len() / self.shape.page().max(1)
    }

    /// Bytes of all pages.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Bytes that no page has.
    pub fn free_bytes(&self) -> usize {
        self.free.len() * self.shape.layer()
    }

    /// Bytes of one page.
    pub fn page_bytes(&self) -> usize {
        self.shape.page()
    }

    /// Bytes of one part of a page.
    pub fn part_bytes(&self, reach: Reach) -> usize {
        self.layers[reach as usize].len() * self.shape.layer()
    }

    /// Positions that layers with windows look back over at most, their own included; none if all see everything.
    pub fn window(&self) -> Option<usize> {
        self.window
    }

    /// How keys and values are stored.
    pub fn kind(&self) -> KvType {
        self.shape.kind
    }

    /// Adds what stands in a page to `out`.
    ///
    /// # Panics
    /// If a part of it was given back.
    pub fn read(&self, page: PageId, out: &mut Vec<u8>) {
        for blocks in &self.blocks {
            out.extend_from_slice(&self.memory[self.block(blocks[page.0 as usize])]);
        }
    }

    /// Takes a page and fills it with what [`read`](Self::read) once gave. Its parts have one user, the caller.
    ///
    /// # Panics
    /// If `bytes` are not those of a page.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<PageId, OutOfPages> {
        assert_eq!(bytes.len(), self.shape.page());
        let mut sequence = Sequence::default();
        self.reserve(&mut sequence, 1)?;
        let page = sequence.pages[0];
        for (layer, bytes) in bytes.chunks_exact(self.shape.layer()).enumerate() {
            let block = self.block(self.blocks[layer][page.0 as usize]);
            self.memory[block].copy_from_slice(bytes);
        }
        Ok(page)
    }

    /// Counts one user of a page's part more.
    pub fn retain(&mut self, page: PageId, reach: Reach) {
        self.users[page.0 as usize][reach as usize] += 1;
    }

    /// Counts one user of a page's part less; the last one gives it back. The windows' part goes first.
    pub fn release(&mut self, page: PageId, reach: Reach) {
        let index = page.0 as usize;
        self.users[index][reach as usize] -= 1;
        if self.users[index][reach as usize] > 0 {
            return;
        }
        for &layer in self.layers[reach as usize].iter().rev() {
            let block = core::mem::replace(&mut self.blocks[layer][index], NOWHERE);
            self.free.push(block);
        }
        if reach == Reach::Everything {
            debug_assert_eq!(self.users[index], [0; 2], "somebody holds a window of it");
            self.vacant.push(page);
        }
    }

    /// How many use a page's part. A page whose windows' part nobody uses has no such part any more.
    pub fn users(&self, page: PageId, reach: Reach) -> usize {
        self.users[page.0 as usize][reach as usize] as usize
    }

    /// Has a sequence use another page with the same content instead of its page of number `index`. Both parts of the
    /// other must be there.
    pub fn replace(&mut self, sequence: &mut Sequence, index: usize, page: PageId) {
        let old = core::mem::replace(&mut sequence.pages[index], page);
        for reach in sequence.parts(index) {
            self.retain(page, reach);
            self.release(old, reach);
        }
    }

    /// Gives back what a sequence holds for windows in the pages that end before `position`: every window is past
    /// them. The sequence goes on, and cannot be made much shorter: a batch of which a window begins before
    /// `position` is refused.
    pub fn forget_before(&mut self, sequence: &mut Sequence, position: usize) {
        let whole = (position.min(sequence.len) / PAGE).min(sequence.pages.len());
        for index in sequence.forgotten..whole {
            self.release(sequence.pages[index], Reach::Window);
        }
        sequence.forgotten = sequence.forgotten.max(whole);
    }

    /// Gives `sequence` pages for `more` positions after those it has; all of them or none.
    pub fn reserve(&mut self, sequence: &mut Sequence, more: usize) -> Result<(), OutOfPages> {
        let wanted = (sequence.len + more).div_ceil(PAGE);
        let missing = wanted.saturating_sub(sequence.pages.len());
        if missing > self.free_pages() {
            return Err(OutOfPages {
                pages: self.pages(),
            });
        }
        for _ in 0..missing {
            let page = self.take();
            sequence.pages.push(page);
        }
        Ok(())
    }

    /// A page of free blocks, of which there must be enough, with one user.
    fn take(&mut self) -> PageId {
        let page = self.vacant.pop().unwrap_or_else(|| {
            // Pages that hold a part of their layers take numbers, and leave blocks to others.
            self.users.push([0; 2]);
            self.blocks
                .iter_mut()
                .for_each(|blocks| blocks.push(NOWHERE));
            PageId(self.users.len() as u32 - 1)
        });
        for blocks in &mut self.blocks {
            blocks[page.0 as usize] = self.free.pop().expect("the caller has counted them");
        }
        self.users[page.0 as usize] = [1; 2];
        page
    }

    /// Forgets the positions from `len` on and gives back the pages that held nothing else.
    pub fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        sequence.len = sequence.len.min(len);
        let kept = sequence.len.div_ceil(PAGE);
        while sequence.pages.len() > kept {
            let last = sequence.pages.len() - 1;
            for reach in sequence.parts(last) {
                self.release(sequence.pages[last], reach);
            }
            sequence.pages.pop();
        }
        sequence.forgotten = sequence.forgotten.min(kept);
    }

    /// A sequence that shares the first `len` positions of another. Whole pages are shared; what stands in a
    /// page that is only partly wanted is copied. What the other no longer holds for windows the fork has not either.
    pub fn fork(&mut self, sequence: &Sequence, len: usize) -> Result<Sequence, OutOfPages> {
        self.adopt(&sequence.pages, len.min(sequence.len), sequence.forgotten)
    }

    /// A sequence of the first `len` positions that stand in `pages`, shared and copied like a fork's. It does not hold
    /// the windows' part of the first `forgotten` pages; that of the others must be there.
    ///
    /// # Panics
    /// If there are fewer positions in the pages.
    pub fn adopt(
        &mut self,
        pages: &[PageId],
        len: usize,
        forgotten: usize,
    ) -> Result<Sequence, OutOfPages> {
        let whole = len / PAGE;
        let mut fork = Sequence {
            pages: pages[..whole].to_vec(),
            len: whole * PAGE,
            forgotten: forgotten.min(whole),
        };
        if !len.is_multiple_of(PAGE) {
            self.reserve(&mut fork, 1)?;
            let copy = fork.pages[whole];
            if forgotten > whole {
                self.release(copy, Reach::Window);
                fork.forgotten = whole + 1;
            }
            for reach in fork.parts(whole) {
                self.copy(pages[whole], copy, reach);
            }
        }
        for index in 0..whole {
            for reach in fork.parts(index) {
                self.retain(fork.pages[index], reach);
            }
        }
        fork.len = len;
        Ok(fork)
    }

    /// Copies a part of a page.
    fn copy(&mut self, from: PageId, to: PageId, reach: Reach) {
        for &layer in &self.layers[reach as usize] {
            let blocks = &self.blocks[layer];
            let to = self.block(blocks[to.0 as usize]).start;
            let from = self.block(blocks[from.0 as usize]);
            self.memory.copy_within(from, to);
        }
    }

    pub(crate) fn shape(&self) -> PageShape {
        self.shape
    }

    /// Where a block lies.
    fn block(&self, block: u32) -> Range<usize> {
        let start = block as usize * self.shape.layer();
        start..start + self.shape.layer()
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
        let block = self.blocks[layer][page.0 as usize] as usize * self.shape.layer();
        let start = block + (half as usize * self.shape.heads + head) * self.shape.head();
        &self.memory[start + rows.start * self.shape.row..start + rows.end * self.shape.row]
    }

    /// All memory, and the places in it where a layer's part of each page begins.
    pub(crate) fn layer_mut(&mut self, layer: usize) -> (&mut [u8], LayerPlaces<'_>) {
        let places = LayerPlaces {
            blocks: &self.blocks[layer],
            bytes: self.shape.layer(),
        };
        (&mut self.memory, places)
    }
}

/// Where one layer's part of each page lies.
#[derive(Copy, Clone)]
pub(crate) struct LayerPlaces<'a> {
    blocks: &'a [u32],
    bytes: usize,
}

impl LayerPlaces<'_> {
    /// Where a page's part begins.
    pub(crate) fn start(&self, page: PageId) -> usize {
        self.blocks[page.0 as usize] as usize * self.bytes
    }
}

/// A sequence's pages, and how many positions in them hold something.
///
/// It must be given back with [`KvPages::truncate`]; a dropped sequence keeps its pages.
#[derive(Debug, Default)]
pub struct Sequence {
    pub(crate) pages: Vec<PageId>,
    pub(crate) len: usize,
    /// Pages at the beginning whose windows' part it does not hold any more.
    pub(crate) forgotten: usize,
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

    /// How many pages at its beginning it holds without the windows' part.
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// Positions that it has pages for.
    pub fn room(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// The parts that it holds of a page, in the order of giving them back.
    fn parts(&self, index: usize) -> impl Iterator<Item = Reach> + use<> {
        let window = (index >= self.forgotten).then_some(Reach::Window);
        window.into_iter().chain([Reach::Everything])
    }
}
