//! The bytes of pages and states in this machine's memory.

use super::layout::{Half, LayerLayout, PageLayout, Reach};
use super::table::{PageCopy, PageId, PageTable, StateId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use strata_platform::{Memory, OutOfMemory, Region};

/// A fixed amount of memory for pages and states.
pub struct PageStorage {
    layout: PageLayout,
    pages: usize,
    memory: Box<dyn Region>,
    /// Where the blocks of each class begin.
    bases: Vec<usize>,
    states: Box<dyn Region>,
}

impl PageStorage {
    /// Memory for at least `positions` positions of one or several sequences, and for `states` recurrent states, which
    /// count only where the model has any.
    pub fn new(
        layout: PageLayout,
        positions: usize,
        states: usize,
        memory: &dyn Memory,
    ) -> Result<Self, OutOfMemory> {
        let pages = positions.div_ceil(super::PAGE);
        let too_much = OutOfMemory { bytes: usize::MAX };
        let mut bytes = 0usize;
        let mut bases = Vec::new();
        for class in &layout.classes {
            bases.push(bytes);
            let blocks = pages.checked_mul(class.layers).ok_or(too_much)?;
            u32::try_from(blocks).map_err(|_| too_much)?;
            let class_bytes = blocks.checked_mul(class.bytes).ok_or(too_much)?;
            bytes = bytes.checked_add(class_bytes).ok_or(too_much)?;
        }
        let state_bytes = states.checked_mul(layout.state_bytes()).ok_or(too_much)?;
        Ok(Self {
            pages,
            memory: memory.region(bytes)?,
            bases,
            states: memory.region(state_bytes)?,
            layout,
        })
    }

    /// What a page is made of.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Bytes of all pages and states.
    pub fn bytes(&self) -> usize {
        self.memory.len() + self.states.len()
    }

    /// How many slots for states there are.
    pub fn states(&self) -> usize {
        self.states.len() / self.layout.state_bytes().max(1)
    }

    /// How many pages there is memory for.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// A table of all pages and states, all of them free.
    pub fn table(&self) -> PageTable {
        PageTable::new(self.layout.clone(), self.pages, self.states())
    }

    /// Adds what stands in a page to `out`.
    ///
    /// # Panics
    /// If a part of it was given back.
    pub fn read(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>) {
        for (index, layer) in self.layers() {
            let block = self.block(&layer, table.layer(index)[page.0 as usize]);
            out.extend_from_slice(&self.memory[block]);
        }
    }

    /// Fills a page with what [`read`](Self::read) once gave.
    ///
    /// # Panics
    /// If `bytes` are not those of a page.
    pub fn write(&mut self, table: &PageTable, page: PageId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.layout.page_bytes());
        let mut rest = bytes;
        for index in 0..self.layout.layers.len() {
            if let Some(layer) = self.layout.layers[index] {
                let part;
                (part, rest) = rest.split_at(layer.bytes());
                let block = self.block(&layer, table.layer(index)[page.0 as usize]);
                self.memory[block].copy_from_slice(part);
            }
        }
    }

    /// Copies a page, or the part of it that is wanted.
    pub fn copy(&mut self, table: &PageTable, copy: PageCopy) {
        for index in 0..self.layout.layers.len() {
            let Some(layer) = self.layout.layers[index] else {
                continue;
            };
            if layer.reach == Reach::Window && !copy.windows {
                continue;
            }
            let blocks = table.layer(index);
            let to = self.block(&layer, blocks[copy.to.0 as usize]).start;
            let from = self.block(&layer, blocks[copy.from.0 as usize]);
            self.memory.copy_within(from, to);
        }
    }

    /// A state's bytes.
    pub fn state(&self, state: StateId) -> &[u8] {
        &self.states[self.slot(state)]
    }

    /// A state's bytes, to be changed.
    pub fn state_mut(&mut self, state: StateId) -> &mut [u8] {
        let slot = self.slot(state);
        &mut self.states[slot]
    }

    /// One layer's part of a state.
    pub(crate) fn layer_state(&self, state: StateId, layer: usize) -> &[u8] {
        &self.state(state)[self.layout.states[layer].clone()]
    }

    /// One layer's part of a state, to be changed.
    pub(crate) fn layer_state_mut(&mut self, state: StateId, layer: usize) -> &mut [u8] {
        let part = self.layout.states[layer].clone();
        &mut self.state_mut(state)[part]
    }

    /// Copies a state.
    pub fn copy_state(&mut self, from: StateId, to: StateId) {
        let (from, to) = (self.slot(from), self.slot(to).start);
        self.states.copy_within(from, to);
    }

    fn slot(&self, state: StateId) -> Range<usize> {
        let bytes = self.layout.state_bytes();
        let start = state.0 as usize * bytes;
        start..start + bytes
    }

    fn layers(&self) -> impl Iterator<Item = (usize, LayerLayout)> {
        let layers = self.layout.layers.iter().enumerate();
        layers.filter_map(|(index, layer)| Some((index, (*layer)?)))
    }

    /// Where a block lies.
    fn block(&self, layer: &LayerLayout, block: u32) -> Range<usize> {
        let start = self.bases[layer.class] + block as usize * layer.bytes();
        start..start + layer.bytes()
    }

    /// All memory, and where one layer's block of each page begins.
    pub(crate) fn layer_mut<'a>(
        &'a mut self,
        table: &'a PageTable,
        layer: usize,
    ) -> (&'a mut [u8], LayerStarts<'a>) {
        let layout = self.layout.layers[layer].expect("the layer has keys and values");
        let starts = LayerStarts {
            base: self.bases[layout.class],
            blocks: table.layer(layer),
            bytes: layout.bytes(),
        };
        (&mut self.memory, starts)
    }

    /// One layer's keys and values, to read.
    pub(crate) fn layer<'a>(&'a self, table: &'a PageTable, layer: usize) -> StoredPages<'a> {
        let layout = self.layout.layers[layer].expect("the layer has keys and values");
        StoredPages {
            kind: self.layout.kind(),
            memory: &self.memory[self.bases[layout.class]..],
            blocks: table.layer(layer),
            layout,
        }
    }

    /// One layer's block.
    pub(crate) fn layer_layout(&self, layer: usize) -> LayerLayout {
        self.layout.layers[layer].expect("the layer has keys and values")
    }
}

/// Storage with the table of those whose pages it holds.
pub(crate) struct PagesMut<'a> {
    pub(crate) table: &'a PageTable,
    pub(crate) storage: &'a mut PageStorage,
}

/// Where one layer's block of each page begins.
#[derive(Copy, Clone)]
pub(crate) struct LayerStarts<'a> {
    base: usize,
    blocks: &'a [u32],
    bytes: usize,
}

impl LayerStarts<'_> {
    /// Where a page's block begins.
    pub(crate) fn of(&self, page: PageId) -> usize {
        self.base + self.blocks[page.0 as usize] as usize * self.bytes
    }
}

/// The keys and values that one layer has stored.
#[derive(Copy, Clone)]
pub(crate) struct StoredPages<'a> {
    pub(crate) kind: strata_kernels::KvType,
    memory: &'a [u8],
    blocks: &'a [u32],
    layout: LayerLayout,
}

impl<'a> StoredPages<'a> {
    /// Some rows of one head in a page.
    pub(crate) fn rows(
        &self,
        page: PageId,
        half: Half,
        head: usize,
        rows: Range<usize>,
    ) -> &'a [u8] {
        let block = self.blocks[page.0 as usize] as usize * self.layout.bytes();
        let rows = self.layout.rows(half, head, rows);
        &self.memory[block + rows.start..block + rows.end]
    }
}
