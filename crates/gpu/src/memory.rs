//! What a model takes of a device's memory, before any of it is there.

use crate::batch::batch_bytes;
use crate::buffers::Buffers;
use crate::weights::{layer_bytes, matrix_bytes};
use std::ops::Range;
use strata_model::{BatchLimits, KvType, Model, NotOnDevice, PageLayout};

/// A number of pages from which on everything grows with them.
const MANY: usize = 1 << 10;

/// Bytes of a device's memory: of layers one by one, so that they can be shared out.
#[derive(Clone, Debug)]
pub struct DeviceNeeds {
    /// The number of the first layer.
    pub first: usize,
    /// The weights of each layer.
    pub weights: Vec<u64>,
    /// What a page has of each layer.
    pub page: Vec<u64>,
    /// What comes after the last layer: the matrix of logits.
    pub output: u64,
    /// Activations and batches, whatever layers there are.
    pub buffers: u64,
    /// What batches need beside for each page: rotations of its positions, where its blocks are.
    pub buffers_by_page: u64,
}

/// What one device would take.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceShare {
    /// Weights.
    pub weights: u64,
    /// Keys and values.
    pub pages: u64,
    /// Activations and batches.
    pub buffers: u64,
}

impl DeviceShare {
    /// Everything together.
    pub fn total(&self) -> u64 {
        let rest = self.weights.saturating_add(self.buffers);
        rest.saturating_add(self.pages)
    }
}

impl DeviceNeeds {
    /// Of some layers of a model, up to the last; the buffers are those of all of them.
    pub fn of(
        model: &Model,
        first: usize,
        kv: KvType,
        limits: BatchLimits,
    ) -> Result<Self, NotOnDevice> {
        let config = model.config();
        let parts = model.device_parts(first..config.layers.len())?;
        let page = |layer| PageLayout::of_layers(config, kv, layer..layer + 1).page_bytes() as u64;
        let of_pages = |pages| batch_bytes(model, limits, pages, parts.layers.len()) as u64;
        let mut buffers = of_pages(0);
        let measured = Buffers::new(&parts, limits, &mut |bytes| {
            buffers += bytes as u64;
            Ok(0)
        });
        debug_assert!(measured.is_ok(), "nothing was asked of a device");
        Ok(Self {
            first,
            weights: parts
                .layers
                .iter()
                .map(|layer| layer_bytes(layer) as u64)
                .collect(),
            page: (first..config.layers.len()).map(page).collect(),
            output: matrix_bytes(&parts.output.matrix) as u64,
            buffers,
            // Both are rounded up to the same.
            buffers_by_page: (of_pages(2 * MANY) - of_pages(MANY)) / MANY as u64,
        })
    }

    /// Activations and batches with so many pages.
    pub fn buffers(&self, pages: usize) -> u64 {
        let pages = self.buffers_by_page.saturating_mul(pages as u64);
        self.buffers.saturating_add(pages)
    }

    /// What a device takes that has these layers and so many pages.
    pub fn share(&self, layers: Range<usize>, pages: usize) -> DeviceShare {
        let own = layers.start - self.first..layers.end - self.first;
        let last = own.end == self.weights.len();
        DeviceShare {
            weights: self.weights[own.clone()].iter().sum::<u64>()
                + if last { self.output } else { 0 },
            pages: self.page[own]
                .iter()
                .sum::<u64>()
                .saturating_mul(pages as u64),
            buffers: self.buffers(pages),
        }
    }
}
