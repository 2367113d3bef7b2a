//! A model on one GPU or several, behind the engine's seam to devices; the first layers may be on the processors.

use crate::backend::{Backend, DeviceFacts};
use crate::batch::{BatchShape, Begins, Embedder};
use crate::error::DeviceError;
use crate::proof;
use crate::stretch::{GpuStretch, Uploaded};
use crate::weights::{panel_types, weight_bytes};
use std::ops::Range;
use std::sync::Arc;
use strata_kernels::Kernels as CpuKernels;
use strata_model::{
    Adapter, BatchError, BatchLimits, Config, CpuStretch, EncoderInput, Executor, ExecutorMemory,
    KvType, Model, NotOnDevice, Outputs, PageCopy, PageId, PageLayout, PageTable, Span, StateId,
};
use strata_platform::Pool;

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
    /// Makes the layers before those of the first GPU, with so many pages, if there are any. Without a result nothing is
    /// opened.
    pub processors: &'a mut dyn FnMut(usize) -> Option<CpuStretch>,
    /// Hears of bytes uploaded and bytes in all; false cancels.
    pub progress: &'a mut dyn FnMut(usize, usize) -> bool,
}

/// A GPU, and which layers it is to have.
pub struct GpuPart {
    /// The GPU.
    pub backend: Box<dyn Backend>,
    /// The layers. Those of the last GPU end with the model's.
    pub layers: Range<usize>,
}

impl GpuPart {
    /// A GPU for all layers of a model.
    pub fn whole(backend: Box<dyn Backend>, model: &Model) -> Self {
        let layers = 0..model.config().layers.len();
        Self { backend, layers }
    }
}

/// A model whose layers, or all but the first ones, are on GPUs.
pub struct GpuExecutor {
    model: Arc<Model>,
    pool: Arc<dyn Pool + Send>,
    limits: BatchLimits,
    /// Of the layers wherever they are.
    layout: PageLayout,
    count: usize,
    processors: Option<CpuStretch>,
    gpus: Vec<GpuStretch>,
    /// Why nothing can be computed any more.
    fault: Option<DeviceError>,
    /// Whether the engine is still to hear of it.
    untold: bool,
}

impl GpuExecutor {
    /// Uploads a model, whose weights may have stayed in their file, to devices that first prove their bits, and takes the
    /// memory for batches.
    pub fn open(
        parts: Vec<GpuPart>,
        model: Arc<Model>,
        options: GpuOptions<'_>,
    ) -> Result<Self, DeviceError> {
        let proved = parts.into_iter().map(|part| {
            let types = panel_types(&model.device_parts(part.layers.clone())?);
            let backend = proof::prove(part.backend, &types, options.kv)?;
            Ok(GpuPart { backend, ..part })
        });
        let proved = proved.collect::<Result<_, DeviceError>>()?;
        Self::on(proved, model, options)
    }

    /// The last device, for another model.
    pub fn into_backend(mut self) -> Option<Box<dyn Backend>> {
        self.gpus.pop().map(|gpu| gpu.backend)
    }

    /// The same on devices that have proved their bits, or are to.
    ///
    /// # Panics
    /// If there are no parts, or these are not the model's last layers in order.
    pub fn on(
        parts: Vec<GpuPart>,
        model: Arc<Model>,
        options: GpuOptions<'_>,
    ) -> Result<Self, DeviceError> {
        let GpuOptions {
            kv, pages, limits, ..
        } = options;
        let config = model.config();
        let starts: Vec<usize> = parts.iter().map(|part| part.layers.start).collect();
        let ends = starts.iter().skip(1).copied().chain([config.layers.len()]);
        assert!(!parts.is_empty() && parts.iter().map(|part| part.layers.end).eq(ends));
        let mut all = 0;
        for part in &parts {
            all += weight_bytes(&model.device_parts(part.layers.clone())?);
        }
        let mut done = 0;
        let mut progress = |bytes| {
            done += bytes;
            (options.progress)(done, all)
        };
        let mut uploaded = Vec::new();
        for part in parts {
            let share = (kv, pages, limits);
            let how: (&dyn Pool, &mut dyn FnMut(usize) -> bool) = (&*options.pool, &mut progress);
            uploaded.push(Uploaded::new(
                part.backend,
                &model,
                part.layers,
                share,
                how,
            )?);
        }
        let mut count = options.most_pages;
        for gpu in &uploaded {
            count = count.min(gpu.room()?);
        }
        let count = count.max(pages);
        let gpus = uploaded
            .into_iter()
            .map(|gpu| gpu.with_pages(&model, count, limits))
            .collect::<Result<Vec<_>, _>>()?;
        let processors = if starts[0] == 0 {
            None
        } else {
            Some((options.processors)(count).ok_or(DeviceError::Processors)?)
        };
        if processors.as_ref().is_some_and(|own| !own.has_one_stream()) {
            let what = "layers that pass on more than one residual stream";
            return Err(NotOnDevice { what }.into());
        }
        // Each device is a machine of its own to the table; what is before all layers is none.
        let starts: Vec<usize> = starts.into_iter().filter(|&start| start > 0).collect();
        Ok(Self {
            limits,
            pool: options.pool,
            layout: PageLayout::of_machines(config, kv, &starts),
            count,
            processors,
            gpus,
            fault: None,
            untold: false,
            model,
        })
    }

    /// What the GPUs can do, in the order of their layers.
    pub fn devices(&self) -> impl Iterator<Item = (&DeviceFacts, Range<usize>)> {
        let gpus = self.gpus.iter();
        gpus.map(|gpu| (gpu.backend.facts(), gpu.layers.clone()))
    }

    /// How many pages it has.
    pub fn pages(&self) -> usize {
        self.count
    }

    /// What a page is made of.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    fn compute(&mut self, table: &PageTable, batch: &[Span<'_>]) -> Result<BatchShape, BatchError> {
        let tokens: usize = batch.iter().map(|span| span.tokens.len()).sum();
        let mut begins = Begins::AtTokens;
        if let Some(processors) = &mut self.processors {
            processors.embed(batch);
            processors.run(table, batch)?;
            self.gpus[0]
                .stream(tokens)
                .copy_from_slice(processors.stream(tokens));
            begins = Begins::AtStream;
        }
        let embedder = Embedder {
            model: &self.model,
            kernels: CpuKernels::detect(),
            pool: &*self.pool,
        };
        let mut last = BatchShape::default();
        for index in 0..self.gpus.len() {
            let (before, after) = self.gpus.split_at_mut(index + 1);
            let next = after.first_mut().map(|next| next.stream_bytes(tokens));
            let computed = before[index].compute((embedder, begins), table, batch, next);
            last = computed.inspect_err(|error| {
                // What a kernel left behind is unknown.
                if error.is_loss() {
                    self.fault = Some(error.clone());
                    self.untold = true;
                }
            })?;
            begins = Begins::AtStream;
        }
        self.model.check_file()?;
        Ok(last)
    }

    /// Notes why a page could not be moved: the next batch says so.
    fn note(&mut self, result: Result<(), DeviceError>) {
        if let Err(error) = result
            && self.fault.is_none()
        {
            self.fault = Some(error);
            self.untold = true;
        }
    }

    /// The processors, where they have layers with recurrent states.
    fn recurrent(&mut self) -> Option<&mut CpuStretch> {
        let processors = self.processors.as_mut();
        processors.filter(|_| self.layout.is_recurrent())
    }
}

impl Executor for GpuExecutor {
    fn config(&self) -> &Config {
        self.model.config()
    }

    fn memory(&self) -> ExecutorMemory {
        let mut memory = ExecutorMemory::default();
        if let Some(processors) = &self.processors {
            memory.weights += self.model.packed_bytes();
            memory.pages += processors.storage().bytes();
        }
        for gpu in &self.gpus {
            memory.weights += gpu.weight_bytes();
            memory.pages += gpu.pages.bytes();
        }
        memory
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn page_table(&self) -> PageTable {
        let processors = self.processors.as_ref();
        let states = processors.map_or(0, |own| own.storage().states());
        PageTable::new(self.layout.clone(), self.count, states)
    }

    fn forward(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        self.model.check_batch(batch, self.limits, &self.layout)?;
        if batch.iter().any(|span| !span.embedded.is_empty()) {
            let reason = "GPUs take no images".into();
            return Err(BatchError::Device { reason });
        }
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        let shape = self.compute(table, batch)?;
        for span in batch {
            span.sequence.advance(span.tokens.len());
        }
        let config = self.model.config();
        let Some(last) = self.gpus.last() else {
            unreachable!("there is a GPU")
        };
        Ok(Outputs {
            logits: &last.logits.as_floats()[..shape.logits * config.vocabulary],
            states: &last.states.as_floats()[..shape.states * config.width],
        })
    }

    fn take_loss(&mut self) -> Option<BatchError> {
        let untold = std::mem::take(&mut self.untold);
        let fault = self.fault.as_ref().filter(|_| untold)?;
        Some(fault.clone().into())
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

    fn accepts(&self, adapter: &Adapter) -> bool {
        adapter.fits(&self.model)
    }

    fn copy_page(&mut self, table: &PageTable, copy: PageCopy) {
        if let Some(processors) = &mut self.processors {
            processors.storage_mut().copy(table, copy);
        }
        let copied = self.gpus.iter().try_for_each(|gpu| {
            gpu.backend.enter()?;
            gpu.pages.copy(&*gpu.backend, table, copy)
        });
        self.note(copied);
    }

    fn read_page(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(processors) = &self.processors {
            processors.storage().read(table, page, out);
        }
        let mut at = out.len();
        out.resize(start + self.layout.page_bytes(), 0);
        let read = self.gpus.iter().try_for_each(|gpu| {
            gpu.backend.enter()?;
            let end = at + gpu.pages.layout().page_bytes();
            let own = &mut out[at..end];
            at = end;
            gpu.pages.read(&*gpu.backend, table, page, own)
        });
        if read.is_err() {
            // Nothing is better than what is not the page.
            out.truncate(start);
        }
    }

    fn write_page(&mut self, table: &PageTable, page: PageId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.layout.page_bytes());
        let mut rest = bytes;
        if let Some(processors) = &mut self.processors {
            let own;
            (own, rest) = rest.split_at(processors.storage().layout().page_bytes());
            processors.storage_mut().write(table, page, own);
        }
        let written = self.gpus.iter().try_for_each(|gpu| {
            let own;
            (own, rest) = rest.split_at(gpu.pages.layout().page_bytes());
            gpu.backend.enter()?;
            gpu.pages.write(&*gpu.backend, table, page, own)
        });
        self.note(written);
    }

    // Layers with recurrent states are the processors'.
    fn copy_state(&mut self, from: StateId, to: StateId) {
        if let Some(processors) = self.recurrent() {
            processors.storage_mut().copy_state(from, to);
        }
    }

    fn read_state(&self, state: StateId, out: &mut Vec<u8>) {
        let processors = self.processors.as_ref();
        if let Some(processors) = processors.filter(|_| self.layout.is_recurrent()) {
            out.extend_from_slice(processors.storage().state(state));
        }
    }

    fn write_state(&mut self, state: StateId, bytes: &[u8]) {
        if let Some(processors) = self.recurrent() {
            let stored = processors.storage_mut().state_mut(state);
            stored.copy_from_slice(bytes);
        }
    }
}
