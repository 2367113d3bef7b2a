//! The executor that computes on this machine's processors.

use crate::adapter::Adapter;
use crate::batch::{BatchLimits, Outputs, Span};
use crate::compute::Compute;
use crate::config::Config;
use crate::encoder::EncoderInput;
use crate::error::BatchError;
use crate::executor::{Executor, ExecutorMemory};
use crate::model::Model;
use crate::observer::Observer;
use crate::pages::{PageCopy, PageId, PageStorage, PageTable, PagesMut, StateId};
use crate::workspace::Workspace;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_kernels::Kernels;
use strata_platform::Pool;

/// A model on this machine's processors.
pub struct CpuExecutor {
    model: Arc<Model>,
    kernels: &'static Kernels,
    pool: Arc<dyn Pool + Send>,
    storage: PageStorage,
    work: Workspace,
}

impl CpuExecutor {
    /// Takes the memory for batches within `limits`.
    pub fn new(
        model: Arc<Model>,
        kernels: &'static Kernels,
        pool: Arc<dyn Pool + Send>,
        storage: PageStorage,
        limits: BatchLimits,
    ) -> Self {
        let work = Workspace::new(&model, limits, pool.workers());
        Self {
            model,
            kernels,
            pool,
            storage,
            work,
        }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Computes a batch as [`forward`](Executor::forward) does, and shows `observer` what happens inside.
    pub fn forward_observed(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
        observer: Option<&dyn Observer>,
    ) -> Result<Outputs<'_>, BatchError> {
        let compute = Compute {
            kernels: self.kernels,
            pool: &*self.pool,
        };
        let storage = &mut self.storage;
        let pages = PagesMut { table, storage };
        self.model
            .pass(&compute, pages, &mut self.work, batch, observer)
    }
}

impl Executor for CpuExecutor {
    fn config(&self) -> &Config {
        self.model.config()
    }

    fn memory(&self) -> ExecutorMemory {
        ExecutorMemory {
            weights: self.model.packed_bytes(),
            streamed: self.model.streamed_bytes(),
            pages: self.storage.bytes(),
        }
    }

    fn limits(&self) -> BatchLimits {
        self.work.limits()
    }

    fn page_table(&self) -> PageTable {
        self.storage.table()
    }

    fn forward(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        self.forward_observed(table, batch, None)
    }

    fn observe(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
        observer: &dyn Observer,
    ) -> Result<Outputs<'_>, BatchError> {
        self.forward_observed(table, batch, Some(observer))
    }

    fn predicting_share(&self) -> Option<f32> {
        self.model.predicting_share()
    }

    fn predict(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        let compute = Compute {
            kernels: self.kernels,
            pool: &*self.pool,
        };
        let storage = &mut self.storage;
        let pages = PagesMut { table, storage };
        self.model.predict(&compute, pages, &mut self.work, batch)
    }

    fn inside(&self) -> Option<&Model> {
        Some(&self.model)
    }

    fn takes_embeddings(&self) -> bool {
        true
    }

    fn encode(&mut self, inputs: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        let compute = Compute {
            kernels: self.kernels,
            pool: &*self.pool,
        };
        self.model.encode(&compute, &mut self.work, inputs)
    }

    fn rank(&mut self, inputs: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        let compute = Compute {
            kernels: self.kernels,
            pool: &*self.pool,
        };
        self.model.rank(&compute, &mut self.work, inputs)
    }

    fn classify(&mut self, states: &[f32]) -> Result<&[f32], BatchError> {
        let compute = Compute {
            kernels: self.kernels,
            pool: &*self.pool,
        };
        self.model.classify(&compute, &mut self.work, states)
    }

    fn labels(&self) -> usize {
        self.model.labels()
    }

    fn accepts(&self, adapter: &Adapter) -> bool {
        adapter.fits(&self.model)
    }

    fn copy_page(&mut self, table: &PageTable, copy: PageCopy) {
        self.storage.copy(table, copy);
    }

    fn read_page(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>) {
        self.storage.read(table, page, out);
    }

    fn write_page(&mut self, table: &PageTable, page: PageId, bytes: &[u8]) {
        self.storage.write(table, page, bytes);
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        self.storage.copy_state(from, to);
    }

    fn read_state(&self, state: StateId, out: &mut Vec<u8>) {
        out.extend_from_slice(self.storage.state(state));
    }

    fn write_state(&mut self, state: StateId, bytes: &[u8]) {
        self.storage.state_mut(state).copy_from_slice(bytes);
    }
}
