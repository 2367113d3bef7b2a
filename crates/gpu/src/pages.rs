//! Pages of keys and values in a device's memory.

use crate::backend::{Address, Backend};
use crate::error::DeviceError;
use std::ops::Range;
use strata_model::{PageCopy, PageId, PageLayout, PageTable, Reach};

/// The blocks of all pages, by class.
pub(crate) struct DevicePages {
    layout: PageLayout,
    layers: Range<usize>,
    classes: Vec<Address>,
    bytes: usize,
}

impl DevicePages {
    /// Memory for so many pages of these layers, whose own the layout is.
    pub(crate) fn new(
        backend: &mut dyn Backend,
        layout: PageLayout,
        layers: Range<usize>,
        pages: usize,
    ) -> Result<Self, DeviceError> {
        let doing = "taking memory for keys and values";
        let (mut classes, mut all) = (Vec::new(), 0);
        for (bytes, layers) in layout.classes() {
            let bytes = bytes.saturating_mul(layers).saturating_mul(pages);
            classes.push(backend.alloc(bytes, doing)?);
            all += bytes;
        }
        Ok(Self {
            layout,
            layers,
            classes,
            bytes: all,
        })
    }

    pub(crate) fn layout(&self) -> &PageLayout {
        &self.layout
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where a layer's class of blocks begins.
    pub(crate) fn class(&self, layer: usize) -> Address {
        let blocks = self.layout.blocks(layer);
        blocks.map_or(0, |blocks| self.classes[blocks.class])
    }

    /// Each layer's block of a page: where it is, how long, and how far back the layer looks.
    fn blocks<'a>(
        &'a self,
        table: &'a PageTable,
        page: PageId,
    ) -> impl Iterator<Item = (Address, usize, Reach)> + 'a {
        self.layers.clone().filter_map(move |layer| {
            let blocks = self.layout.blocks(layer)?;
            let block = table.layer(layer)[page.index()] as u64;
            let at = self.classes[blocks.class] + block * blocks.bytes as u64;
            Some((at, blocks.bytes, blocks.reach))
        })
    }

    pub(crate) fn copy(
        &self,
        backend: &dyn Backend,
        table: &PageTable,
        copy: PageCopy,
    ) -> Result<(), DeviceError> {
        let pairs = self
            .blocks(table, copy.from)
            .zip(self.blocks(table, copy.to));
        for ((from, bytes, reach), (to, ..)) in pairs {
            if copy.windows || reach == Reach::Everything {
                backend.copy(to, from, bytes)?;
            }
        }
        Ok(())
    }

    pub(crate) fn read(
        &self,
        backend: &dyn Backend,
        table: &PageTable,
        page: PageId,
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut rest = out;
        for (at, bytes, _) in self.blocks(table, page) {
            let (part, after) = rest.split_at_mut(bytes);
            backend.download(part, at)?;
            rest = after;
        }
        backend.wait()
    }

    pub(crate) fn write(
        &self,
        backend: &dyn Backend,
        table: &PageTable,
        page: PageId,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        let mut rest = bytes;
        for (at, bytes, _) in self.blocks(table, page) {
            let (part, after) = rest.split_at(bytes);
            backend.upload(at, part)?;
            rest = after;
        }
        backend.wait()
    }
}
