//! The sizes inside a page.
//!
//! A page holds its positions in all attention layers, a block to a layer. Inside a block keys come before values, and
//! each head's positions lie next to each other: attention over one head reads contiguous rows. Layers whose blocks have
//! one size draw from one class of blocks, so that what a layer gives back any layer of its class can take.

use crate::config::{AttentionConfig, Config, LayerConfig};
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::KvType;

/// Positions in a page.
pub const PAGE: usize = 32;

/// How states are kept: their values are those of a norm.
pub(crate) const HIDDEN: KvType = KvType::F16;

/// How far back a layer looks. The layers of each reach are a part of a page that is held and given back by itself.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Over the whole sequence.
    Everything = 0,
    /// Over a window before each position.
    Window = 1,
}

/// Keys or values.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Half {
    Keys = 0,
    Values = 1,
}

/// One layer's block.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerLayout {
    pub(crate) reach: Reach,
    /// Which blocks it uses.
    pub(crate) class: usize,
    heads: usize,
    /// Bytes of one head's key or value at one position.
    row: usize,
    /// Whether values are the keys, and stored once.
    shared: bool,
}

impl LayerLayout {
    /// Bytes of one head: all positions of a page.
    fn head(&self) -> usize {
        PAGE * self.row
    }

    /// Bytes of the block.
    pub(crate) fn bytes(&self) -> usize {
        let halves = if self.shared { 1 } else { 2 };
        halves * self.heads * self.head()
    }

    /// Whether values are the keys, and stored once.
    pub(crate) fn values_are_keys(&self) -> bool {
        self.shared
    }

    /// One head's keys or values at some positions, within the block.
    pub(crate) fn rows(&self, half: Half, head: usize, positions: Range<usize>) -> Range<usize> {
        let half = if self.shared { 0 } else { half as usize };
        let start = (half * self.heads + head) * self.head();
        start + positions.start * self.row..start + positions.end * self.row
    }

    /// One head's key or value at one position of a sequence, within the block.
    pub(crate) fn row(&self, half: Half, head: usize, position: usize) -> Range<usize> {
        let position = position % PAGE;
        self.rows(half, head, position..position + 1)
    }
}

/// A layer's blocks: keys before values, each head's positions next to each other.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LayerBlocks {
    /// Which class they are drawn from.
    pub class: usize,
    /// Bytes of one.
    pub bytes: usize,
    /// How far back the layer looks.
    pub reach: Reach,
}

/// Blocks of one size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockClass {
    pub(super) bytes: usize,
    /// Layers that use them.
    pub(super) layers: usize,
    /// The machine that these layers are on: another's memory is of no use to them.
    machine: usize,
}

/// What a page, and a recurrent state, is made of in one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLayout {
    kind: KvType,
    /// None for layers that keep no keys and values.
    pub(super) layers: Vec<Option<LayerLayout>>,
    pub(super) classes: Vec<BlockClass>,
    window: Option<usize>,
    /// The number of what keeps the model's states for the layer that predicts the token after the next, which comes before it.
    hidden: Option<usize>,
    /// Each layer's part of a state.
    pub(super) states: Vec<Range<usize>>,
    state_bytes: usize,
}

impl PageLayout {
    /// The layout of a model's pages, with keys and values stored as `kind`.
    ///
    /// # Panics
    /// If `kind` stores blocks of 32 values and a head's size is not a multiple of that.
    pub fn new(config: &Config, kind: KvType) -> Self {
        Self::of_machines(config, kind, &[])
    }

    /// The same where the layers are on several machines, each of which begins with one of `starts`, but for the first.
    /// No block is ever used by a layer of another machine.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn of_machines(config: &Config, kind: KvType, starts: &[usize]) -> Self {
        let all = 0..config.layers.len();
        Self::build(config, kind, all, starts)
    }

    /// The layout of some layers alone, which have the same block numbers there as among all.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn of_layers(config: &Config, kind: KvType, layers: Range<usize>) -> Self {
        Self::build(config, kind, layers, &[])
    }

    fn build(config: &Config, kind: KvType, own: Range<usize>, starts: &[usize]) -> Self {
        let mut layout = Self {
            kind,
            layers: Vec::new(),
            classes: Vec::new(),
            window: config.attention().filter_map(|layer| layer.window).max(),
            hidden: None,
            states: Vec::new(),
            state_bytes: 0,
        };
        for (index, layer) in config.layers.iter().enumerate() {
            let start = layout.state_bytes;
            if !own.contains(&index) {
                layout.layers.push(None);
                layout.states.push(start..start);
                continue;
            }
            let machine = starts.iter().filter(|&&start| start <= index).count();
            match layer.mixer.attention() {
                Some(attention) if attention.shares.is_none() => {
                    layout.add(attention, machine);
                }
                _ => layout.layers.push(None),
            }
            if let Some(recurrent) = layer.mixer.recurrent() {
                layout.state_bytes += recurrent.state_bytes();
            }
            layout.states.push(start..layout.state_bytes);
        }
        if let Some(nextn) = config.nextn.as_ref().and_then(LayerConfig::attention)
            && own == (0..config.layers.len())
        {
            layout.add(nextn, 0);
            layout.hidden = Some(layout.layers.len());
            layout.add_block(
                LayerLayout {
                    reach: Reach::Everything,
                    class: 0,
                    heads: 1,
                    row: HIDDEN.row_bytes(config.width),
                    shared: true,
                },
                0,
            );
        }
        layout
    }

    /// Adds a layer with keys and values.
    fn add(&mut self, attention: &AttentionConfig, machine: usize) {
        let layer = LayerLayout {
            reach: match attention.window {
                Some(_) => Reach::Window,
                None => Reach::Everything,
            },
            class: 0,
            heads: attention.kv_heads,
            row: self.kind.row_bytes(attention.head_size),
            shared: attention.latent.is_some_and(|latent| latent.compressed),
        };
        self.add_block(layer, machine);
    }

    /// Adds a block, of whatever class its size is.
    fn add_block(&mut self, mut layer: LayerLayout, machine: usize) {
        let bytes = layer.bytes();
        let alike = |class: &BlockClass| (class.bytes, class.machine) == (bytes, machine);
        let known = self.classes.iter().position(alike);
        layer.class = known.unwrap_or_else(|| {
            self.classes.push(BlockClass {
                bytes,
                layers: 0,
                machine,
            });
            self.classes.len() - 1
        });
        self.classes[layer.class].layers += 1;
        self.layers.push(Some(layer));
    }

    /// The number of the blocks with states, where the layer that predicts the token after the next is loaded.
    pub(crate) fn hidden(&self) -> Option<usize> {
        self.hidden
    }

    /// Where a layer's blocks are, for storage on a device; none for layers that keep no keys and values.
    pub fn blocks(&self, layer: usize) -> Option<LayerBlocks> {
        let layer = self.layers[layer]?;
        Some(LayerBlocks {
            class: layer.class,
            bytes: layer.bytes(),
            reach: layer.reach,
        })
    }

    /// The classes of blocks: bytes of a block, and how many layers draw from the class.
    pub fn classes(&self) -> impl Iterator<Item = (usize, usize)> {
        self.classes.iter().map(|class| (class.bytes, class.layers))
    }

    /// How keys and values are stored.
    pub fn kind(&self) -> KvType {
        self.kind
    }

    /// Positions that layers with windows look back over at most, their own included; none if all see everything.
    pub fn window(&self) -> Option<usize> {
        self.window
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        let classes = self.classes.iter();
        classes.map(|class| class.bytes * class.layers).sum()
    }

    /// Bytes of the pages that so many positions need.
    pub fn bytes(&self, positions: usize) -> usize {
        let pages = positions.div_ceil(PAGE);
        pages.saturating_mul(self.page_bytes())
    }

    /// Bytes of one part of a page.
    pub fn part_bytes(&self, reach: Reach) -> usize {
        let layers = self.layers.iter().flatten();
        let part = layers.filter(|layer| layer.reach == reach);
        part.map(LayerLayout::bytes).sum()
    }

    /// Bytes of a sequence's recurrent state; 0 if the model has none.
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }

    /// Whether a sequence has a recurrent state, which cannot be cut back, only restored.
    pub fn is_recurrent(&self) -> bool {
        self.state_bytes > 0
    }
}
