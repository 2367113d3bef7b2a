//! The seam to devices: the engine schedules, an executor computes.
//!
//! An executor owns a model's weights, the storage of pages and states, and its buffers, and computes whole batches;
//! nothing is dispatched operation by operation. Which pages are whose is the engine's: it hands its [`PageTable`] in.

use crate::adapter::Adapter;
use crate::batch::{BatchLimits, Outputs, Span};
use crate::config::Config;
use crate::encoder::EncoderInput;
use crate::error::BatchError;
use crate::model::Model;
use crate::observer::Observer;
use crate::pages::{PageCopy, PageId, PageTable, StateId};
use alloc::vec::Vec;

/// What an executor takes, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorMemory {
    /// Weights in memory.
    pub weights: usize,
    /// Weights that are read from their file for each batch.
    pub streamed: usize,
    /// Pages and recurrent states.
    pub pages: usize,
}

/// A model on a device, ready to compute.
///
/// Results obey the numerics contract: a token's are the same whatever else is in the batch, however its sequence was
/// cut into batches, and on every executor that claims the contract.
pub trait Executor: Send {
    /// The model's sizes and scales.
    fn config(&self) -> &Config;

    /// What it takes.
    fn memory(&self) -> ExecutorMemory;

    /// How large its batches can be.
    fn limits(&self) -> BatchLimits;

    /// A table of all the pages and states that it has storage for, all of them free.
    fn page_table(&self) -> PageTable;

    /// Computes a batch: any mix of prompt chunks and single tokens of different sequences.
    ///
    /// Stores their keys, values and states, [advances](crate::Sequence::advance) their sequences, and returns the
    /// logits and states that were asked for, in the order of the spans. Where it fails, nothing has changed.
    fn forward(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError>;

    /// Computes a batch as [`forward`](Self::forward) does, with the same result, and shows `observer` what happens on the
    /// way; an executor that cannot look inside shows nothing.
    fn observe(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
        observer: &dyn Observer,
    ) -> Result<Outputs<'_>, BatchError> {
        let _ = observer;
        self.forward(table, batch)
    }

    /// What a [prediction](Self::predict) takes, in parts of a pass over the model for one token; none where the layer that
    /// predicts the token after the next is not loaded.
    fn predicting_share(&self) -> Option<f32> {
        None
    }

    /// Predicts with the layer after the last alone, from what it and [`forward`](Self::forward) have left of the
    /// positions before: of each span, the logits of what follows its last token. [Advances](crate::Sequence::advance) the
    /// sequences, and leaves recurrent states as they are.
    ///
    /// Whoever calls it takes the sequences back to where they were before the next `forward`, which computes the same
    /// positions anew.
    fn predict(
        &mut self,
        table: &PageTable,
        batch: &mut [Span<'_>],
    ) -> Result<Outputs<'_>, BatchError> {
        let _ = (table, batch);
        Err(BatchError::NoNextn)
    }

    /// The model, where its weights can be looked at.
    fn inside(&self) -> Option<&Model> {
        None
    }

    /// Whether positions of a batch may come with their embeddings, as images do.
    fn takes_embeddings(&self) -> bool {
        false
    }

    /// Why the bytes of all pages and states are lost, if they are, since the last call: other machines have some of them.
    /// From then on nothing is computed until this is called.
    fn take_loss(&mut self) -> Option<BatchError> {
        None
    }

    /// Computes the states of whole sequences with an encoder: (tokens, width), one after the other.
    fn encode(&mut self, inputs: &[EncoderInput<'_>]) -> Result<&[f32], BatchError>;

    /// Computes the scores of whole sequences with an encoder's classifier: (inputs, labels).
    fn rank(&mut self, inputs: &[EncoderInput<'_>]) -> Result<&[f32], BatchError>;

    /// Computes the scores of states of a decoder, (states, width), with its classifier: (states, labels).
    fn classify(&mut self, states: &[f32]) -> Result<&[f32], BatchError> {
        let _ = states;
        Err(BatchError::NoRankHead)
    }

    /// How many scores [`rank`](Self::rank) gives for an input, or [`classify`](Self::classify) for a state; 0 without a
    /// classifier.
    fn labels(&self) -> usize;

    /// Whether spans can be computed with this adapter.
    fn accepts(&self, adapter: &Adapter) -> bool;

    /// Copies a page, or the part of it that is wanted.
    fn copy_page(&mut self, table: &PageTable, copy: PageCopy);

    /// Adds a page's bytes to `out`. Both its parts must be there.
    fn read_page(&self, table: &PageTable, page: PageId, out: &mut Vec<u8>);

    /// Fills a page with what [`read_page`](Self::read_page) once gave.
    fn write_page(&mut self, table: &PageTable, page: PageId, bytes: &[u8]);

    /// Copies a recurrent state: a snapshot is taken, or restored.
    fn copy_state(&mut self, from: StateId, to: StateId);

    /// Adds a state's bytes to `out`.
    fn read_state(&self, state: StateId, out: &mut Vec<u8>);

    /// Fills a state with what [`read_state`](Self::read_state) once gave.
    fn write_state(&mut self, state: StateId, bytes: &[u8]);
}
