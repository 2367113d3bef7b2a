//! A model that the processors take over when its GPU fails.

use strata_model::{
    Adapter, BatchError, BatchLimits, Config, EncoderInput, Executor, ExecutorMemory, Model,
    Observer, Outputs, PageCopy, PageId, PageTable, Span, StateId,
};

/// Loads the model for the processors, with pages for the table that the engine has; or says why it cannot.
pub type LoadOther = Box<dyn FnOnce() -> Result<Box<dyn Executor>, String> + Send>;

/// An executor, and another for when it has lost what it computed. The engine forgets what stood on that, so the table and
/// all that is in it are as good as new.
pub struct Standby {
    now: Box<dyn Executor>,
    other: Option<LoadOther>,
}

impl Standby {
    /// The executor that computes, and what is called once it has lost everything.
    pub fn new(now: Box<dyn Executor>, other: LoadOther) -> Self {
        let other = Some(other);
        Self { now, other }
    }
}

impl Executor for Standby {
    fn take_loss(&mut self) -> Option<BatchError> {
        let loss = self.now.take_loss()?;
        let Some(load) = self.other.take() else {
            return Some(loss);
        };
        let reason = match load() {
            Ok(other) => {
                // What is left on the GPU goes, if that can still be.
                self.now = other;
                format!("{loss}; the processors go on with the model")
            }
            Err(error) => format!("{loss}; the processors cannot go on with the model: {error}"),
        };
        Some(BatchError::Lost { reason })
    }

    fn config(&self) -> &Config {
        self.now.config()
    }

    fn memory(&self) -> ExecutorMemory {
        self.now.memory()
    }

    fn limits(&self) -> BatchLimits {
        self.now.limits()
    }

    fn page_table(&self) -> PageTable {
        self.now.page_table()
    }

    fn forward(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        self.now.forward(table, batch)
    }

    fn observe(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
        observer: &dyn Observer,
    ) -> Result<Outputs<'_>, BatchError> {
        self.now.observe(table, batch, observer)
    }

    fn inside(&self) -> Option<&Model> {
        self.now.inside()
    }

    fn takes_embeddings(&self) -> bool {
        self.now.takes_embeddings()
    }

    fn encode(&mut self, inputs: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        self.now.encode(inputs)
    }

    fn rank(&mut self, inputs: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        self.now.rank(inputs)
    }

    fn classify(&mut self, states: &[f32]) -> Result<&[f32], BatchError> {
        self.now.classify(states)
    }

    fn labels(&self) -> usize {
        self.now.labels()
    }

    fn accepts(&self, adapter: &Adapter) -> bool {
        self.now.accepts(adapter)
    }

    fn copy_page(&mut self, table: &PageTable, copy: PageCopy) {
        self.now.copy_page(table, copy);
    }

    fn read_page(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>) {
        self.now.read_page(table, page, out);
    }

    fn write_page(&mut self, table: &PageTable, page: PageId, bytes: &[u8]) {
        self.now.write_page(table, page, bytes);
    }

    fn copy_state(&mut self, from: StateId, to: StateId) {
        self.now.copy_state(from, to);
    }

    fn read_state(&self, state: StateId, out: &mut Vec<u8>) {
        self.now.read_state(state, out);
    }

    fn write_state(&mut self, state: StateId, bytes: &[u8]) {
        self.now.write_state(state, bytes);
    }
}
