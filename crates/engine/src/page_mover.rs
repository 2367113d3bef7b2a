//! An executor for tests of the bookkeeping: it moves pages and computes nothing.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use strata_model::{
    Adapter, BatchError, BatchLimits, Blueprint, Config, Executor, ExecutorMemory, KvType,
    LoadOptions, Outputs, PAGE, PageCopy, PageId, PageLayout, PageStorage, PageTable, Span,
    StateId, Text,
};
use strata_platform::SystemMemory;
use strata_weights::{Gguf, GgufSet};

/// A small model's sizes.
pub(crate) fn tiny_config() -> Config {
    let file = include_bytes!("../../model/tests/golden/llama.gguf");
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    let blueprint = Blueprint::new(&set, LoadOptions::default()).unwrap();
    blueprint.config().clone()
}

pub(crate) struct PageMover {
    config: Config,
    storage: PageStorage,
}

impl PageMover {
    pub(crate) fn boxed(config: &Config, pages: usize) -> Box<dyn Executor> {
        let layout = PageLayout::new(config, KvType::F16);
        Box::new(Self {
            config: config.clone(),
            storage: PageStorage::new(layout, pages * PAGE, 0, &SystemMemory).unwrap(),
        })
    }
}

impl Executor for PageMover {
    fn config(&self) -> &Config {
        &self.config
    }

    fn memory(&self) -> ExecutorMemory {
        ExecutorMemory {
            pages: self.storage.bytes(),
            ..ExecutorMemory::default()
        }
    }

    fn limits(&self) -> BatchLimits {
        BatchLimits {
            tokens: usize::MAX,
            logits: 0,
        }
    }

    fn page_table(&self) -> PageTable {
        self.storage.table()
    }

    fn forward(
        &mut self,
        _: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        for span in batch {
            let (room, needed) = (
                span.sequence.room(),
                span.sequence.len() + span.tokens.len(),
            );
            if needed > room {
                return Err(BatchError::Pages { room, needed });
            }
            span.sequence.advance(span.tokens.len());
        }
        Ok(Outputs {
            logits: &[],
            states: &[],
        })
    }

    fn encode(&mut self, _: &[Text<'_>]) -> Result<&[f32], BatchError> {
        Err(BatchError::Decoder)
    }

    fn rank(&mut self, _: &[Text<'_>]) -> Result<&[f32], BatchError> {
        Err(BatchError::NoRankHead)
    }

    fn labels(&self) -> usize {
        0
    }

    fn accepts(&self, _: &Adapter) -> bool {
        false
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
