//! A second executor: the book's plain f32 decoder, with keys and values in pages of its own.

use std::sync::Arc;
use strata_learn::decoder::{self, Decoder};
use strata_model::{
    Adapter, BatchError, BatchLimits, Config, EncoderInput, Executor, ExecutorMemory, KvType,
    Output, Outputs, PAGE, PageCopy, PageId, PageLayout, PageTable, Sequence, Span, StateId,
};
use strata_weights::Gguf;

/// The decoder, one token of one sequence at a time.
pub(crate) struct Oracle {
    config: Arc<Config>,
    decoder: Decoder,
    layout: PageLayout,
    limits: BatchLimits,
    /// How many pages the engine may use at a time.
    count: usize,
    /// By page: (layers, keys or values, positions, n_head_kv * head_dim).
    pages: Vec<Vec<f32>>,
    logits: Vec<f32>,
}

impl Oracle {
    /// The decoder of a file. The engine's `config` is that of the same file.
    pub(crate) fn new(file: &[u8], config: &Config, pages: usize, limits: BatchLimits) -> Self {
        let gguf = Gguf::parse(file).unwrap();
        let layout = PageLayout::new(config, KvType::F32);
        Self {
            config: Arc::new(config.clone()),
            decoder: Decoder::from_gguf(&gguf).unwrap(),
            layout,
            limits,
            count: pages,
            pages: Vec::new(),
            logits: Vec::new(),
        }
    }

    /// Floats of a page.
    fn page_floats(&self) -> usize {
        self.layout.page_bytes() / size_of::<f32>()
    }

    fn page_mut(&mut self, page: PageId) -> &mut Vec<f32> {
        let (index, floats) = (page.index(), self.page_floats());
        if index >= self.pages.len() {
            self.pages.resize(index + 1, Vec::new());
        }
        self.pages[index].resize(floats, 0.0);
        &mut self.pages[index]
    }

    /// Gives the decoder a sequence's keys and values.
    fn load(&mut self, sequence: &Sequence) {
        let kv_dim = kv_dim(self.decoder.config());
        let cache = self.decoder.cache_mut();
        for (layer, (keys, values)) in cache.keys.iter_mut().zip(&mut cache.values).enumerate() {
            for (half, rows) in [keys, values].into_iter().enumerate() {
                rows.clear();
                for position in 0..sequence.len() {
                    let page = &self.pages[sequence.pages()[position / PAGE].index()];
                    let start = row(layer, half, position) * kv_dim;
                    rows.extend_from_slice(&page[start..start + kv_dim]);
                }
            }
        }
    }

    /// Takes the keys and values of positions from `from` on out of the decoder.
    fn store(&mut self, sequence: &Sequence, from: usize, to: usize) {
        let kv_dim = kv_dim(self.decoder.config());
        let cache = self.decoder.cache_mut().clone();
        for position in from..to {
            let page = self.page_mut(sequence.pages()[position / PAGE]);
            for (layer, (keys, values)) in cache.keys.iter().zip(&cache.values).enumerate() {
                for (half, rows) in [keys, values].into_iter().enumerate() {
                    let start = row(layer, half, position) * kv_dim;
                    let own = &rows[position * kv_dim..][..kv_dim];
                    page[start..start + kv_dim].copy_from_slice(own);
                }
            }
        }
    }

    fn check(&self, batch: &[Span<'_>]) -> Result<(), BatchError> {
        let (mut tokens, mut rows) = (0, 0);
        let vocabulary = self.config.vocabulary;
        for span in batch {
            (tokens, rows) = (tokens + span.tokens.len(), rows + span.rows());
            if span.output == Output::States {
                return Err(BatchError::Decoder);
            }
            if span.adapter.is_some() {
                return Err(BatchError::ForeignAdapter);
            }
            let room = span.sequence.room();
            let needed = span.sequence.len() + span.tokens.len();
            if needed > room {
                return Err(BatchError::Pages { room, needed });
            }
            let unknown = |token: &&u32| **token as usize >= vocabulary;
            if let Some(&token) = span.tokens.iter().find(unknown) {
                return Err(BatchError::Token { token, vocabulary });
            }
        }
        if tokens > self.limits.tokens {
            let room = self.limits.tokens;
            return Err(BatchError::TooManyTokens { tokens, room });
        }
        if rows > self.limits.logits {
            let room = self.limits.logits;
            return Err(BatchError::TooManyLogits { rows, room });
        }
        Ok(())
    }
}

/// Floats of all heads of a key or value.
fn kv_dim(config: &decoder::Config) -> usize {
    config.n_head_kv * config.head_dim
}

/// Which row of a page holds a key (0) or a value (1).
fn row(layer: usize, half: usize, position: usize) -> usize {
    (layer * 2 + half) * PAGE + position % PAGE
}

impl Executor for Oracle {
    fn config(&self) -> &Config {
        &self.config
    }

    fn memory(&self) -> ExecutorMemory {
        ExecutorMemory {
            pages: self.count * self.layout.page_bytes(),
            ..ExecutorMemory::default()
        }
    }

    fn limits(&self) -> BatchLimits {
        self.limits
    }

    fn page_table(&self) -> PageTable {
        PageTable::new(self.layout.clone(), self.count, 0)
    }

    fn forward(
        &mut self,
        _: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        self.check(batch)?;
        self.logits.clear();
        for span in batch {
            let from = span.sequence.len();
            self.load(span.sequence);
            for (at, &token) in span.tokens.iter().enumerate() {
                let logits = self.decoder.forward(token, from + at);
                let wanted = match span.output {
                    Output::AllLogits => true,
                    Output::LastLogits => at + 1 == span.tokens.len(),
                    Output::None | Output::States => false,
                };
                if wanted {
                    self.logits.extend_from_slice(logits);
                }
            }
            self.store(span.sequence, from, from + span.tokens.len());
            span.sequence.advance(span.tokens.len());
        }
        Ok(Outputs {
            logits: &self.logits,
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

    fn copy_page(&mut self, _: &PageTable, copy: PageCopy) {
        let floats = self.page_mut(copy.from).clone();
        *self.page_mut(copy.to) = floats;
    }

    fn read_page(&self, _: &PageTable, page: PageId, out: &mut Vec<u8>) {
        let floats = self.pages[page.index()].iter();
        out.extend(floats.flat_map(|x| x.to_le_bytes()));
    }

    fn write_page(&mut self, _: &PageTable, page: PageId, bytes: &[u8]) {
        let floats = bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x));
        *self.page_mut(page) = floats.collect();
    }

    // The model has no recurrent states.
    fn copy_state(&mut self, _: StateId, _: StateId) {
        unreachable!("there are no slots for states");
    }

    fn read_state(&self, _: StateId, _: &mut Vec<u8>) {
        unreachable!("there are no slots for states");
    }

    fn write_state(&mut self, _: StateId, _: &[u8]) {
        unreachable!("there are no slots for states");
    }
}
