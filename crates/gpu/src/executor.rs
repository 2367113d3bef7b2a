//! A model on a GPU, behind the engine's seam to devices.

use crate::backend::{Backend, DeviceFacts, HostBuffer, Recording};
use crate::batch::{BatchMemory, BatchShape, Embedder};
use crate::buffers::Buffers;
use crate::error::DeviceError;
use crate::multiplier::Multiplier;
use crate::pages::DevicePages;
use crate::pass::{Kernels, Pass};
use crate::proof;
use crate::weights::{Uploader, Weights, for_each_matrix, weight_bytes};
use std::collections::HashMap;
use std::sync::Arc;
use strata_kernels::Kernels as CpuKernels;
use strata_model::{
    Adapter, BatchError, BatchLimits, Config, DeviceModel, EncoderInput, Executor, ExecutorMemory,
    GgmlType, KvType, Model, Outputs, PageCopy, PageId, PageLayout, PageTable, Span, StateId,
};
use strata_platform::Pool;

/// The part of the memory left that pages may take beyond what is asked for: one in so many.
const PAGE_SHARE: u64 = 2;

/// Recordings that are kept at most.
const RECORDINGS: usize = 64;

/// Tokens of a batch that is recorded at most: larger ones take so long that launching costs little.
const RECORDED_TOKENS: usize = 64;

/// What an executor is opened with.
pub struct GpuOptions<'a> {
    /// How keys and values are stored.
    pub kv: KvType,
    /// Pages of keys and values at least.
    pub pages: usize,
    /// Pages that are taken where the memory that is left has room for them.
    pub most_pages: usize,
    /// The largest batch.
    pub limits: BatchLimits,
    /// Workers that make embeddings and pack weights.
    pub pool: Arc<dyn Pool + Send>,
    /// Hears of bytes uploaded and bytes in all; false cancels.
    pub progress: &'a mut dyn FnMut(usize, usize) -> bool,
}

/// A model on a GPU.
pub struct GpuExecutor {
    model: Arc<Model>,
    pool: Arc<dyn Pool + Send>,
    limits: BatchLimits,
    weights: Weights,
    kernels: Kernels,
    multiplier: Box<dyn Multiplier>,
    buffers: Buffers,
    batch: BatchMemory,
    pages: DevicePages,
    logits: HostBuffer,
    states: HostBuffer,
    recordings: HashMap<BatchShape, Option<Recording>>,
    /// Why nothing can be computed any more.
    fault: Option<DeviceError>,
    /// Last: what the others point into goes with it.
    backend: Box<dyn Backend>,
}

impl GpuExecutor {
    /// Uploads a model, whose weights may have stayed in their file, to a device that first proves its bits, and takes the
    /// memory for batches.
    pub fn open(
        backend: Box<dyn Backend>,
        model: Arc<Model>,
        options: GpuOptions<'_>,
    ) -> Result<Self, DeviceError> {
        let backend = proof::prove(backend, &panel_types(&model.device_parts()?), options.kv)?;
        Self::on(backend, model, options)
    }

    /// The device, for another model.
    pub fn into_backend(self) -> Box<dyn Backend> {
        self.backend
    }

    /// The same on a device that has proved its bits, or is to.
    pub fn on(
        mut backend: Box<dyn Backend>,
        model: Arc<Model>,
        options: GpuOptions<'_>,
    ) -> Result<Self, DeviceError> {
        let parts = model.device_parts()?;
        let config = model.config();
        let layout = PageLayout::new(config, options.kv);
        let all = weight_bytes(&parts);
        let needed = (all + layout.page_bytes() * options.pages) as u64;
        let free = backend.free_memory()?;
        if needed > free {
            return Err(DeviceError::Full { needed, free });
        }
        let mut done = 0;
        let mut progress = |bytes| {
            done += bytes;
            (options.progress)(done, all)
        };
        let weights = Uploader::new(&mut *backend, &*options.pool, &mut progress).upload(&parts)?;
        let mut multiplier = backend.multiplier();
        for ty in panel_types(&parts) {
            multiplier.load(&mut *backend, ty)?;
        }
        let kernels = Kernels::load(&mut *backend, options.kv)?;
        let (buffers, _) = Buffers::new(&mut *backend, config, &weights, options.limits)?;
        let layers = config.layers.len();
        let room = backend.free_memory()? / PAGE_SHARE / layout.page_bytes().max(1) as u64;
        let count = options.most_pages.min(room as usize).max(options.pages);
        let pages = DevicePages::new(&mut *backend, layout, layers, count)?;
        let batch = BatchMemory::new(&mut *backend, &model, options.limits, count)?;
        let logits = backend.alloc_host(4 * options.limits.logits * config.vocabulary)?;
        let states = backend.alloc_host(4 * options.limits.tokens * config.width)?;
        drop(parts);
        Ok(Self {
            limits: options.limits,
            pool: options.pool,
            model,
            weights,
            kernels,
            multiplier,
            buffers,
            batch,
            pages,
            logits,
            states,
            recordings: HashMap::new(),
            fault: None,
            backend,
        })
    }

    /// What the GPU can do.
    pub fn device(&self) -> &DeviceFacts {
        self.backend.facts()
    }

    fn compute(
        &mut self,
        table: &PageTable,
        batch: &[Span<'_>],
    ) -> Result<BatchShape, DeviceError> {
        self.backend.enter()?;
        let embedder = Embedder {
            model: &self.model,
            kernels: CpuKernels::detect(),
            pool: &*self.pool,
        };
        let (backend, x) = (&mut *self.backend, self.buffers.x);
        let (shape, moved) = self.batch.upload(backend, embedder, table, batch, x)?;
        if moved {
            self.recordings.clear();
        }
        // Attention has a part for every power of two of chunks; what else a batch is made of is in its shape.
        let recorded = BatchShape {
            longest: shape.longest.div_ceil(256).next_power_of_two() * 256,
            ..shape
        };
        if shape.tokens > RECORDED_TOKENS || shape.states > 0 {
            self.pass(shape, false).run()?;
        } else {
            self.replay(recorded)?;
        }
        let (width, vocabulary) = (self.model.config().width, self.model.config().vocabulary);
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
        self.backend.wait()?;
        Ok(shape)
    }

    fn pass(&self, shape: BatchShape, recorded: bool) -> Pass<'_> {
        Pass {
            backend: &*self.backend,
            model: &self.model,
            config: self.model.config(),
            weights: &self.weights,
            kernels: &self.kernels,
            multiplier: &*self.multiplier,
            buffers: &self.buffers,
            batch: &self.batch,
            pages: &self.pages,
            shape,
            rms: self.model.has_rms_norms(),
            recorded,
        }
    }

    /// Does a pass as it was recorded for this shape, or records it when the shape comes for the second time.
    fn replay(&mut self, shape: BatchShape) -> Result<(), DeviceError> {
        match self.recordings.get(&shape) {
            Some(Some(recording)) => self.backend.replay(*recording),
            Some(None) if self.backend.begin_recording()? => {
                let passed = self.pass(shape, true).run();
                let recording = self.backend.end_recording()?;
                passed?;
                self.recordings.insert(shape, Some(recording));
                self.backend.replay(recording)
            }
            _ => {
                if self.recordings.len() < RECORDINGS {
                    self.recordings.insert(shape, None);
                }
                self.pass(shape, true).run()
            }
        }
    }

    /// Notes why a page could not be moved: the next batch says so.
    fn note(&mut self, result: Result<(), DeviceError>) {
        if let Err(error) = result {
            self.fault.get_or_insert(error);
        }
    }
}

/// The types of a model's panels, each once.
fn panel_types(model: &DeviceModel<'_>) -> Vec<GgmlType> {
    let mut types = Vec::new();
    for_each_matrix(model, &mut |matrix| {
        let ty = matrix.weights.panel_type();
        if !types.contains(&ty) {
            types.push(ty);
        }
    });
    types
}

impl Executor for GpuExecutor {
    fn config(&self) -> &Config {
        self.model.config()
    }

    fn memory(&self) -> ExecutorMemory {
        ExecutorMemory {
            weights: self.weights.bytes,
            streamed: 0,
            pages: self.pages.bytes(),
        }
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn page_table(&self) -> PageTable {
        self.pages.table()
    }

    fn forward(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        self.model
            .check_batch(batch, self.limits, self.pages.layout())?;
        if batch.iter().any(|span| span.adapter.is_some()) {
            return Err(BatchError::ForeignAdapter);
        }
        if batch.iter().any(|span| !span.embedded.is_empty()) {
            let reason = "GPUs take no images".into();
            return Err(BatchError::Device { reason });
        }
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        let shape = self.compute(table, batch).inspect_err(|error| {
            // What a kernel left behind is unknown.
            self.fault = Some(error.clone());
        })?;
        for span in batch {
            span.sequence.advance(span.tokens.len());
        }
        let config = self.model.config();
        Ok(Outputs {
            logits: &self.logits.as_floats()[..shape.logits * config.vocabulary],
            states: &self.states.as_floats()[..shape.states * config.width],
        })
    }

    fn encode(&mut self, _: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        Err(BatchError::Decoder)
    }

    fn rank(&mut self, _: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        Err(BatchError::Decoder)
    }

    fn labels(&self) -> usize {
        0
    }

    fn accepts(&self, _: &Adapter) -> bool {
        false
    }

    fn copy_page(&mut self, table: &PageTable, copy: PageCopy) {
        let entered = self.backend.enter();
        let copied = entered.and_then(|()| self.pages.copy(&*self.backend, table, copy));
        self.note(copied);
    }

    fn read_page(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.pages.layout().page_bytes(), 0);
        let entered = self.backend.enter();
        let read = entered.and_then(|()| {
            self.pages
                .read(&*self.backend, table, page, &mut out[start..])
        });
        if read.is_err() {
            // Nothing is better than what is not the page.
            out.truncate(start);
        }
    }

    fn write_page(&mut self, table: &PageTable, page: PageId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.pages.layout().page_bytes());
        let entered = self.backend.enter();
        let written = entered.and_then(|()| self.pages.write(&*self.backend, table, page, bytes));
        self.note(written);
    }

    fn copy_state(&mut self, _: StateId, _: StateId) {}

    fn read_state(&self, _: StateId, _: &mut Vec<u8>) {}

    fn write_state(&mut self, _: StateId, _: &[u8]) {}
}
