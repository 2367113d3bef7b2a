//! Which pages and states are whose: users counted, free ones handed out, none of their bytes.
//!
//! Layers that see everything and layers that see only a window of positions have users of their own, so that what no
//! window reaches any more is given back while the rest of the page stays.

use super::layout::{LayerLayout, PAGE, PageLayout, Reach};
use super::sequence::Sequence;
use alloc::vec;
use alloc::vec::Vec;

/// A page's number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub(super) u32);

impl PageId {
    /// The page of a number.
    pub fn new(index: u32) -> Self {
        Self(index)
    }

    /// The number, for storage that is indexed by it. There can be more numbers than pages: those of pages that hold
    /// only a part of their layers.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a recurrent state's slot.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub(super) u32);

impl StateId {
    /// The slot of a number.
    pub fn new(index: u32) -> Self {
        Self(index)
    }

    /// The number, from 0 to one less than there are slots.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Stands where a page has no block for a layer: no memory is there.
const NOWHERE: u32 = u32::MAX;

/// How many times as many numbers of pages a table elsewhere may have as the layers here account for.
const MOST_MACHINES: usize = 64;

/// No page is free, or no slot for a state.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key and value cache is full: {pages} pages of {PAGE} positions are in use")]
pub struct OutOfPages {
    /// How many there are.
    pub pages: usize,
}

/// A page whose content another must get before anything reads it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PageCopy {
    /// The page to read.
    pub from: PageId,
    /// The page to write.
    pub to: PageId,
    /// Whether the windows' part is copied too.
    pub windows: bool,
}

/// The bookkeeping of an executor's pages and states.
pub struct PageTable {
    layout: PageLayout,
    pages: usize,
    states: usize,
    /// Where each layer of each page is, by layer and page, counted in blocks of the layer's class.
    blocks: Vec<Vec<u32>>,
    /// Of each page's parts. Who holds the windows' part holds the other too.
    users: Vec<[u32; 2]>,
    /// Pages with more than one user.
    shared: usize,
    /// Numbers that no page has now.
    vacant: Vec<PageId>,
    /// Blocks of each class that no page has now.
    free: Vec<Vec<u32>>,
    free_states: Vec<StateId>,
}

impl PageTable {
    /// A table of so many pages and slots for states, all free.
    pub fn new(layout: PageLayout, pages: usize, states: usize) -> Self {
        let states = if layout.is_recurrent() { states } else { 0 };
        let blocks = |layers: usize| (0..(pages * layers) as u32).rev().collect();
        Self {
            pages,
            states,
            blocks: vec![vec![NOWHERE; pages]; layout.layers.len()],
            users: vec![[0; 2]; pages],
            shared: 0,
            vacant: (0..pages as u32).rev().map(PageId).collect(),
            free: layout.classes.iter().map(|c| blocks(c.layers)).collect(),
            free_states: (0..states as u32).rev().map(StateId).collect(),
            layout,
        }
    }

    /// What a page is made of.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// How many pages could be taken.
    pub fn free_pages(&self) -> usize {
        let classes = self.free.iter().zip(&self.layout.classes);
        let whole = classes.map(|(free, class)| free.len() / class.layers);
        // Without keys and values a page is only a number.
        whole.min().unwrap_or(self.vacant.len())
    }

    /// How many pages there is memory for. There can be more that hold only a part of their layers.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// How many pages have more than one user.
    pub fn shared_pages(&self) -> usize {
        self.shared
    }

    /// Bytes that no page has.
    pub fn free_bytes(&self) -> usize {
        let classes = self.free.iter().zip(&self.layout.classes);
        classes.map(|(free, class)| free.len() * class.bytes).sum()
    }

    /// How many slots for states could be taken.
    pub fn free_states(&self) -> usize {
        self.free_states.len()
    }

    /// Counts one user of a page's part more.
    pub fn retain(&mut self, page: PageId, reach: Reach) {
        let users = &mut self.users[page.0 as usize][reach as usize];
        *users += 1;
        self.shared += usize::from(reach == Reach::Everything && *users == 2);
    }

    /// Counts one user of a page's part less; the last one gives it back. The windows' part goes first.
    pub fn release(&mut self, page: PageId, reach: Reach) {
        let index = page.0 as usize;
        self.users[index][reach as usize] -= 1;
        let left = self.users[index][reach as usize];
        self.shared -= usize::from(reach == Reach::Everything && left == 1);
        if left > 0 {
            return;
        }
        let layers = self.layout.layers.iter().zip(&mut self.blocks).rev();
        for (layer, blocks) in layers {
            if let Some(layer) = layer.filter(|layer| layer.reach == reach) {
                let block = core::mem::replace(&mut blocks[index], NOWHERE);
                self.free[layer.class].push(block);
            }
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

    /// Gives `sequence` pages for `more` positions after those it has, and a state if it needs one; all of it or none.
    pub fn reserve(&mut self, sequence: &mut Sequence, more: usize) -> Result<(), OutOfPages> {
        let wanted = (sequence.len + more).div_ceil(PAGE);
        let missing = wanted.saturating_sub(sequence.pages.len());
        let stateless = self.layout.is_recurrent() && sequence.state.is_none();
        if missing > self.free_pages() || (stateless && self.free_states.is_empty()) {
            return Err(OutOfPages { pages: self.pages });
        }
        if stateless {
            sequence.state = self.take_state();
        }
        for _ in 0..missing {
            let page = self.take();
            sequence.pages.push(page);
        }
        Ok(())
    }

    /// A page of free blocks, with one user, the caller.
    pub fn take_page(&mut self) -> Result<PageId, OutOfPages> {
        if self.free_pages() == 0 {
            return Err(OutOfPages { pages: self.pages });
        }
        Ok(self.take())
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
        for (layer, blocks) in self.layout.layers.iter().zip(&mut self.blocks) {
            if let Some(layer) = layer {
                let block = self.free[layer.class].pop();
                blocks[page.0 as usize] = block.expect("the caller has counted them");
            }
        }
        self.users[page.0 as usize] = [1; 2];
        page
    }

    /// A free slot for a state.
    pub fn take_state(&mut self) -> Option<StateId> {
        self.free_states.pop()
    }

    /// Gives a slot back.
    pub fn release_state(&mut self, state: StateId) {
        debug_assert!(!self.free_states.contains(&state), "given back twice");
        self.free_states.push(state);
    }

    /// How many slots for states there are.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Forgets the positions from `len` on and gives back the pages that held nothing else. A recurrent state cannot be
    /// cut back: where there is one and it is past `len`, all is given back.
    pub fn truncate(&mut self, sequence: &mut Sequence, len: usize) {
        let stateful = sequence.state.is_some() && len < sequence.len;
        let len = if stateful { 0 } else { len };
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
        if sequence.len == 0
            && let Some(state) = sequence.state.take()
        {
            self.release_state(state);
        }
    }

    /// A sequence of the first `len` positions that stand in `pages`: whole pages are shared; of one that is only partly
    /// wanted a copy is used, which the caller must have made. The sequence does not hold the windows' part of the
    /// first `forgotten` pages; that of the others must be there. It has a slot for its state where the model needs
    /// one, which the caller must fill.
    ///
    /// # Panics
    /// If there are fewer positions in the pages.
    pub fn adopt(
        &mut self,
        pages: &[PageId],
        len: usize,
        forgotten: usize,
    ) -> Result<(Sequence, Option<PageCopy>), OutOfPages> {
        let whole = len / PAGE;
        let mut fork = Sequence {
            pages: pages[..whole].to_vec(),
            len: whole * PAGE,
            forgotten: forgotten.min(whole),
            state: None,
            source: 0,
        };
        let partial = !len.is_multiple_of(PAGE);
        // Pages that are shared have no user for the fork yet, so nothing is given back where there is no room.
        self.reserve(&mut fork, usize::from(partial))?;
        let mut copy = None;
        if partial {
            let to = fork.pages[whole];
            if forgotten > whole {
                self.release(to, Reach::Window);
                fork.forgotten = whole + 1;
            }
            copy = Some(PageCopy {
                from: pages[whole],
                to,
                windows: forgotten <= whole,
            });
        }
        for index in 0..whole {
            for reach in fork.parts(index) {
                self.retain(fork.pages[index], reach);
            }
        }
        fork.len = len;
        Ok((fork, copy))
    }

    /// Takes over where a page's blocks are, for each layer with keys and values, from the table of another machine. False
    /// if there is no such page or block.
    pub fn mirror(&mut self, page: PageId, blocks: &[u32]) -> bool {
        let layers = self.layout.layers.iter().flatten();
        let room = |class: usize| self.pages * self.layout.classes[class].layers;
        let known = |(layer, &block): (&LayerLayout, &u32)| {
            block == NOWHERE || (block as usize) < room(layer.class)
        };
        let most: usize = self.layout.classes.iter().map(|class| class.layers).sum();
        let (index, all) = (page.index(), layers.clone().count());
        // Each number that a page has beyond the pages' count stands for a block at least, of any machine.
        let numbers = self
            .pages
            .saturating_mul(most.max(1))
            .saturating_mul(MOST_MACHINES);
        if blocks.len() != all || index >= numbers || !layers.zip(blocks).all(known) {
            return false;
        }
        let own = self.layout.layers.iter().zip(&mut self.blocks);
        let own = own.filter_map(|(layer, blocks)| layer.map(|_| blocks));
        for (row, &block) in own.zip(blocks) {
            if row.len() <= index {
                row.resize(index + 1, NOWHERE);
            }
            row[index] = block;
        }
        true
    }

    /// Whether all blocks of a page's part are there.
    pub fn holds(&self, page: PageId, reach: Reach) -> bool {
        let layers = self.layout.layers.iter().zip(&self.blocks);
        let mut part = layers.filter(|(layer, _)| layer.is_some_and(|layer| layer.reach == reach));
        part.all(|(_, row)| row.get(page.index()).is_some_and(|&block| block != NOWHERE))
    }

    /// The blocks of one layer, by page; what no page has there is no block's number.
    pub fn layer(&self, layer: usize) -> &[u32] {
        &self.blocks[layer]
    }
}
