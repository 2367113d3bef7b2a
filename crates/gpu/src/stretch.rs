//! Some of a model's layers on one GPU.

use crate::adapters::Adapters;
use crate::backend::{Backend, HostBuffer, Recording};
use crate::batch::{BatchMemory, BatchShape, Begins, Embedder};
use crate::buffers::Buffers;
use crate::error::DeviceError;
use crate::multiplier::Multiplier;
use crate::pages::DevicePages;
use crate::pass::{Kernels, Pass};
use crate::weights::{Uploader, Weights, panel_types, weight_bytes};
use std::collections::HashMap;
use std::ops::Range;
use strata_model::{BatchLimits, KvType, Model, PageLayout, PageTable, Span};
use strata_platform::Pool;

/// The part of the memory left that pages may take beyond what is asked for: one in so many.
const PAGE_SHARE: u64 = 2;

/// Recordings that are kept at most.
const RECORDINGS: usize = 64;

/// Tokens of a batch that is recorded at most: larger ones take so long that launching costs little.
const RECORDED_TOKENS: usize = 64;

/// Layers whose weights and buffers are on a GPU, without memory for pages yet.
pub(crate) struct Uploaded {
    layers: Range<usize>,
    layout: PageLayout,
    weights: Weights,
    kernels: Kernels,
    multiplier: Box<dyn Multiplier>,
    buffers: Buffers,
    adapters: Adapters,
    backend: Box<dyn Backend>,
}

impl Uploaded {
    /// Copies the weights of these layers, unless there is no memory for them and `pages` pages. `progress` hears of bytes
    /// copied; false cancels.
    pub(crate) fn new(
        mut backend: Box<dyn Backend>,
        model: &Model,
        layers: Range<usize>,
        (kv, pages, limits): (KvType, usize, BatchLimits),
        (pool, progress): (&dyn Pool, &mut dyn FnMut(usize) -> bool),
    ) -> Result<Self, DeviceError> {
        backend.enter()?;
        let parts = model.device_parts(layers.clone())?;
        let layout = PageLayout::of_layers(model.config(), kv, layers.clone());
        let needed = (weight_bytes(&parts) + layout.page_bytes() * pages) as u64;
        let free = backend.free_memory()?;
        if needed > free {
            return Err(DeviceError::Full { needed, free });
        }
        let weights = Uploader::new(&mut *backend, pool, progress).upload(&parts)?;
        let mut multiplier = backend.multiplier();
        for ty in panel_types(&parts) {
            multiplier.load(&mut *backend, ty)?;
        }
        let kernels = Kernels::load(&mut *backend, kv)?;
        let doing = "taking memory for activations";
        let buffers = Buffers::new(&parts, limits, &mut |bytes| backend.alloc(bytes, doing))?;
        Ok(Self {
            layers,
            layout,
            weights,
            kernels,
            multiplier,
            buffers,
            adapters: Adapters::new(&mut *backend, &parts, limits)?,
            backend,
        })
    }

    /// Pages that the memory which is left has room for, half of it being for others.
    pub(crate) fn room(&self) -> Result<usize, DeviceError> {
        self.backend.enter()?;
        let page = self.layout.page_bytes() as u64;
        let room = (self.backend.free_memory()? / PAGE_SHARE).checked_div(page);
        Ok(room.map_or(usize::MAX, |room| room as usize))
    }

    /// The same with so many pages, ready to compute.
    pub(crate) fn with_pages(
        mut self,
        model: &Model,
        pages: usize,
        limits: BatchLimits,
    ) -> Result<GpuStretch, DeviceError> {
        let layers = self.layers.clone();
        self.backend.enter()?;
        let backend = &mut *self.backend;
        let kept = DevicePages::new(backend, self.layout, layers.clone(), pages)?;
        let batch = BatchMemory::new(backend, model, (limits, layers.clone()), pages)?;
        let config = model.config();
        let (logits, states) = match self.weights.output {
            Some(_) => (limits.logits, limits.tokens),
            None => (0, 0),
        };
        Ok(GpuStretch {
            layers,
            logits: backend.alloc_host(4 * logits * config.vocabulary)?,
            states: backend.alloc_host(4 * states * config.width)?,
            weights: self.weights,
            kernels: self.kernels,
            multiplier: self.multiplier,
            buffers: self.buffers,
            adapters: self.adapters,
            batch,
            pages: kept,
            recordings: HashMap::new(),
            backend: self.backend,
        })
    }
}

/// Layers on a GPU, with the memory of their pages and batches.
pub(crate) struct GpuStretch {
    pub(crate) layers: Range<usize>,
    weights: Weights,
    kernels: Kernels,
    multiplier: Box<dyn Multiplier>,
    buffers: Buffers,
    adapters: Adapters,
    batch: BatchMemory,
    pub(crate) pages: DevicePages,
    pub(crate) logits: HostBuffer,
    pub(crate) states: HostBuffer,
    recordings: HashMap<BatchShape, Option<Recording>>,
    /// Last: what the others point into goes with it.
    pub(crate) backend: Box<dyn Backend>,
}

impl GpuStretch {
    /// Bytes of its weights.
    pub(crate) fn weight_bytes(&self) -> usize {
        self.weights.bytes
    }

    /// The residual stream that its layers begin with, for those who have it from the layers before.
    pub(crate) fn stream(&mut self, tokens: usize) -> &mut [f32] {
        self.batch.stream(tokens)
    }

    /// The same as bytes.
    pub(crate) fn stream_bytes(&mut self, tokens: usize) -> &mut [u8] {
        self.batch.stream_bytes(tokens)
    }

    /// Computes its layers: logits and states where the last one is here, and otherwise the residual stream, into `stream`.
    pub(crate) fn compute(
        &mut self,
        (embedder, begins): (Embedder<'_>, Begins),
        table: &PageTable,
        batch: &[Span<'_>],
        stream: Option<&mut [u8]>,
    ) -> Result<BatchShape, DeviceError> {
        self.backend.enter()?;
        let (backend, x) = (&mut *self.backend, self.buffers.x);
        let adapted = self.adapters.prepare(backend, batch)?;
        let what = (table, batch);
        let uploaded = self.batch.upload(backend, (embedder, begins), what, x);
        let (mut shape, moved) = uploaded?;
        if moved {
            self.recordings.clear();
        }
        if self.weights.output.is_none() {
            (shape.logits, shape.states) = (0, 0);
        }
        let model = embedder.model;
        // Attention has a part for every power of two of chunks; what else a batch is made of is in its shape.
        let recorded = BatchShape {
            longest: shape.longest.div_ceil(256).next_power_of_two() * 256,
            ..shape
        };
        if shape.tokens > RECORDED_TOKENS || shape.states > 0 || adapted {
            self.pass(model, shape, false).run()?;
        } else {
            self.replay(model, recorded)?;
        }
        let (width, vocabulary) = (model.config().width, model.config().vocabulary);
        let BatchShape { logits, states, .. } = shape;
        if logits > 0 {
            let bytes = &mut self.logits.bytes()[..4 * logits * vocabulary];
            self.backend.download(bytes, self.buffers.logits)?;
        }
        if states > 0 {
            let from = self.buffers.rows + 4 * (logits * width) as u64;
            let bytes = &mut self.states.bytes()[..4 * states * width];
            self.backend.download(bytes, from)?;
        }
        if let Some(stream) = stream {
            self.backend.download(stream, self.buffers.x)?;
        }
        self.backend.wait()?;
        Ok(shape)
    }

    fn pass<'a>(&'a self, model: &'a Model, shape: BatchShape, recorded: bool) -> Pass<'a> {
        Pass {
            backend: &*self.backend,
            model,
            config: model.config(),
            weights: &self.weights,
            kernels: &self.kernels,
            multiplier: &*self.multiplier,
            buffers: &self.buffers,
            batch: &self.batch,
            pages: &self.pages,
            adapters: &self.adapters,
            first: self.layers.start,
            shape,
            rms: model.has_rms_norms(),
            recorded,
        }
    }

    /// Does a pass as it was recorded for this shape, or records it when the shape comes for the second time.
    fn replay(&mut self, model: &Model, shape: BatchShape) -> Result<(), DeviceError> {
        match self.recordings.get(&shape) {
            Some(Some(recording)) => self.backend.replay(*recording),
            Some(None) if self.backend.begin_recording()? => {
                let passed = self.pass(model, shape, true).run();
                let recording = match self.backend.end_recording() {
                    // A recording takes memory, and nothing but time depends on it.
                    Err(DeviceError::OutOfMemory { .. }) => None,
                    recording => Some(recording?),
                };
                passed?;
                self.recordings.insert(shape, recording);
                match recording {
                    Some(recording) => self.backend.replay(recording),
                    None => self.pass(model, shape, true).run(),
                }
            }
            _ => {
                if self.recordings.len() < RECORDINGS {
                    self.recordings.insert(shape, None);
                }
                self.pass(model, shape, true).run()
            }
        }
    }
}
