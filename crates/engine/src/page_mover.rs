//! An executor for tests of the bookkeeping: it moves pages, and of a sequence it computes only a hash of its tokens,
//! which is its state.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use strata_model::{
    Adapter, BatchError, BatchLimits, Blueprint, Config, EncoderInput, Executor, ExecutorMemory,
    KvType, LoadOptions, Outputs, PAGE, PageCopy, PageId, PageLayout, PageStorage, PageTable,
    Sequence, Span, StateId,
};
use strata_platform::SystemMemory;
use strata_weights::{Gguf, GgufSet};

/// A small model's sizes.
pub(crate) fn tiny_config() -> Config {
    config_of(include_bytes!("../../model/tests/golden/llama.gguf"))
}

/// The sizes of a small model with recurrent states.
pub(crate) fn recurrent_config() -> Config {
    config_of(include_bytes!("../../model/tests/golden/lfm2.gguf"))
}

/// What stands for a sequence that goes on from `before` with these tokens.
pub(crate) fn hash(before: u64, tokens: impl IntoIterator<Item = u32>) -> u64 {
    tokens.into_iter().fold(before, |hash, token| {
        (hash ^ u64::from(token))
            .wrapping_mul(0x100_0000_01b3)
            .rotate_left(5)
    })
}

fn config_of(file: &[u8]) -> Config {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    let blueprint = Blueprint::new(&set, LoadOptions::default()).unwrap();
    blueprint.config().clone()
}

pub(crate) struct PageMover {
    config: Config,
    storage: PageStorage,
}

impl PageMover {
    pub(crate) fn boxed(config: &Config, pages: usize, states: usize) -> Box<dyn Executor> {
        let layout = PageLayout::new(config, KvType::F16);
        Box::new(Self {
            config: config.clone(),
            storage: PageStorage::new(layout, pages * PAGE, states, &SystemMemory).unwrap(),
        })
    }

    /// The hash that a state is. A slot's bytes mean nothing before the first token.
    fn remember(&mut self, sequence: &Sequence, tokens: &[u32]) {
        if let Some(state) = sequence.state() {
            let bytes = self.storage.state_mut(state).first_chunk_mut().unwrap();
            let before = if sequence.is_empty() {
                0
            } else {
                u64::from_le_bytes(*bytes)
            };
            *bytes = hash(before, tokens.iter().copied()).to_le_bytes();
        }
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
            self.remember(span.sequence, span.tokens);
            span.sequence.advance(span.tokens.len());
        }
        Ok(Outputs {
            logits: &[],
            states: &[],
        })
    }

    fn encode(&mut self, _: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
        Err(BatchError::Decoder)
    }

    fn rank(&mut self, _: &[EncoderInput<'_>]) -> Result<&[f32], BatchError> {
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
