//! Some of a decoder's layers on this machine's processors, the others being on other machines.
//!
//! What goes from one stretch to the next is the residual stream, f32 as it is, and what else layers pass on: all streams
//! where there are several, the first layer's values, the embeddings that layers have of tokens. A layer does not see
//! where a stretch begins, so the bits are those of the whole model.

use crate::batch::{BatchLimits, Outputs, Span};
use crate::blueprint::{Body, Decoder};
use crate::compute::Compute;
use crate::config::Config;
use crate::decoder::Pass;
use crate::error::{BatchError, LoadError};
use crate::executor::ExecutorMemory;
use crate::model::Model;
use crate::pages::{PageStorage, PageTable, PagesMut};
use crate::spec::Role;
use crate::workspace::Workspace;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::Kernels;
use strata_platform::Pool;

/// Which part of a decoder a machine has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first layer.
    pub first: usize,
    /// The layer after the last.
    pub end: usize,
    /// Whether it has what comes before and after all layers: embeddings and logits.
    pub ends: bool,
}

impl Stretch {
    /// The layers.
    pub fn layers(self) -> Range<usize> {
        self.first..self.end
    }

    /// A part of a model, or all of it; an error where that part cannot be computed by itself.
    pub(crate) fn of(config: &Config, part: Option<Self>) -> Result<Self, LoadError> {
        let layers = config.layers.len();
        let whole = Self {
            first: 0,
            end: layers,
            ends: true,
        };
        let Some(part) = part.filter(|&part| part != whole) else {
            return Ok(whole);
        };
        let refuse = |reason| LoadError::Stretch {
            first: part.first,
            end: part.end,
            layers,
            reason,
        };
        if config.spec.role == Role::Encoder || config.source.is_some() {
            return Err(refuse("the model reads texts as a whole"));
        }
        if config.nextn.is_some() {
            return Err(refuse(
                "what predicts the token after the next needs all of them",
            ));
        }
        if part.first > part.end || part.end > layers {
            return Err(refuse("there are no such layers"));
        }
        if !config.can_cut(part.first) || !config.can_cut(part.end) {
            return Err(refuse("later layers read keys and values of earlier ones"));
        }
        Ok(part)
    }
}

impl Config {
    /// Whether the layers before this one and those from it on can be on different machines.
    pub fn can_cut(&self, layer: usize) -> bool {
        let later = self.layers.iter().skip(layer);
        let mut shared = later.filter_map(|later| later.mixer.attention()?.shares);
        shared.all(|source| source >= layer)
    }
}

/// A stretch of layers with the memory of their pages, states and batches.
pub struct CpuStretch {
    model: Arc<Model>,
    layers: Range<usize>,
    kernels: &'static Kernels,
    pool: Arc<dyn Pool + Send>,
    storage: PageStorage,
    work: Workspace,
}

impl CpuStretch {
    /// Takes the memory for batches within `limits`. The model has been loaded for a [`Stretch`], and so has the storage.
    pub fn new(
        model: Arc<Model>,
        kernels: &'static Kernels,
        pool: Arc<dyn Pool + Send>,
        storage: PageStorage,
        limits: BatchLimits,
    ) -> Self {
        let layers = model.parts.stretch.layers();
        Self::of_first(model, layers.end, (kernels, pool), storage, limits)
    }

    /// The same of the layers before `end` alone, where something else computes those that the model also has. The storage is of
    /// these layers.
    pub fn of_first(
        model: Arc<Model>,
        end: usize,
        (kernels, pool): (&'static Kernels, Arc<dyn Pool + Send>),
        storage: PageStorage,
        limits: BatchLimits,
    ) -> Self {
        let work = Workspace::new(&model, limits, pool.workers());
        let layers = model.parts.stretch.first..end.min(model.parts.stretch.end);
        Self {
            model,
            layers,
            kernels,
            pool,
            storage,
            work,
        }
    }

    /// The model's sizes and scales: of all layers.
    pub fn config(&self) -> &Config {
        self.model.config()
    }

    /// Which layers it has.
    pub fn stretch(&self) -> Stretch {
        Stretch {
            first: self.layers.start,
            end: self.layers.end,
            ..self.model.parts.stretch
        }
    }

    /// What it takes.
    pub fn memory(&self) -> ExecutorMemory {
        ExecutorMemory {
            weights: self.model.packed_bytes(),
            streamed: self.model.streamed_bytes(),
            pages: self.storage.bytes(),
        }
    }

    /// How large its batches can be.
    pub fn limits(&self) -> BatchLimits {
        self.work.limits()
    }

    /// The memory of its layers' pages and states.
    pub fn storage(&self) -> &PageStorage {
        &self.storage
    }

    /// The same, to be changed.
    pub fn storage_mut(&mut self) -> &mut PageStorage {
        &mut self.storage
    }

    /// Refuses a batch that cannot be computed. Nothing else does: what is not checked may panic.
    pub fn check(&self, table: &PageTable, batch: &[Span<'_>]) -> Result<(), BatchError> {
        if batch.iter().any(|span| span.adapter.is_some()) {
            return Err(BatchError::ForeignAdapter);
        }
        if let Some(run) = batch.iter().find_map(|span| span.embedded.first()) {
            return Err(BatchError::Embedded { start: run.start });
        }
        let (limits, layout) = (self.limits(), table.layout());
        self.model.check_batch(batch, limits, layout)
    }

    /// Puts the embeddings of a batch into the residual stream.
    pub fn embed(&mut self, batch: &[Span<'_>]) {
        self.pass(batch, |pass, decoder, _, work| pass.embed(decoder, work));
    }

    /// Computes its layers: the batch's residual stream goes on from what it was. Nothing is advanced.
    pub fn run(&mut self, table: &PageTable, batch: &[Span<'_>]) -> Result<(), BatchError> {
        let layers = self.layers.clone();
        self.pass(batch, |pass, decoder, storage, work| {
            pass.locate(work);
            pass.layers(decoder, layers, &mut PagesMut { table, storage }, work);
        });
        self.model.check_file()
    }

    /// What was asked for of a batch whose residual stream has been through all layers.
    pub fn outputs(&mut self, batch: &[Span<'_>]) -> Outputs<'_> {
        let (mut rows, mut states) = (0, 0);
        self.pass(batch, |pass, decoder, _, work| {
            pass.join(decoder, work);
            rows = pass.logits(decoder, work);
            states = pass.states(decoder, rows, work);
        });
        let config = self.model.config();
        Outputs {
            logits: &self.work.logits[..rows * config.vocabulary],
            states: &self.work.normed[rows * config.width..][..states * config.width],
        }
    }

    /// As [`Executor::classify`](crate::Executor::classify), where the stretch has what comes after all layers.
    pub fn classify(&mut self, states: &[f32]) -> Result<&[f32], BatchError> {
        let compute = Compute {
            kernels: self.kernels,
            pool: &*self.pool,
        };
        self.model.classify(&compute, &mut self.work, states)
    }

    /// How many scores that gives for a state.
    pub fn labels(&self) -> usize {
        self.model.labels()
    }

    fn pass(
        &mut self,
        batch: &[Span<'_>],
        compute: impl FnOnce(&Pass<'_>, &Decoder, &mut PageStorage, &mut Workspace),
    ) {
        // A stretch is of a decoder, or was refused.
        if let Body::Decoder(decoder) = &self.model.parts.body {
            let pass = Pass {
                model: &self.model,
                config: self.model.config(),
                compute: &Compute {
                    kernels: self.kernels,
                    pool: &*self.pool,
                },
                batch,
                observer: None,
                tokens: batch.iter().map(Span::written).sum(),
            };
            compute(&pass, decoder, &mut self.storage, &mut self.work);
        }
    }

    /// Bytes of a token's residual stream on its way to the next stretch.
    pub fn token_bytes(&self) -> usize {
        let parts = [
            &self.work.x,
            &self.work.streams,
            &self.work.first_values,
            &self.work.layer_inputs,
        ];
        let floats: usize = parts.iter().map(|part| self.each(part)).sum();
        floats * size_of::<f32>()
    }

    /// Floats of one token.
    fn each(&self, part: &[f32]) -> usize {
        part.len() / self.work.limits.tokens.max(1)
    }

    /// Whether layers pass on nothing but one residual stream.
    pub fn has_one_stream(&self) -> bool {
        self.token_bytes() == size_of::<f32>() * self.config().width
    }

    /// The residual stream of the first `tokens` tokens, (tokens, width).
    pub fn stream(&self, tokens: usize) -> &[f32] {
        &self.work.x[..tokens * self.config().width]
    }

    /// Adds the residual stream of the first `tokens` tokens to `out`.
    pub fn write_stream(&self, tokens: usize, out: &mut Vec<u8>) {
        let work = &self.work;
        for part in [
            &work.x,
            &work.streams,
            &work.first_values,
            &work.layer_inputs,
        ] {
            let floats = &part[..tokens * self.each(part)];
            let start = out.len();
            out.resize(start + size_of_val(floats), 0);
            let bytes = out[start..].as_chunks_mut().0;
            for (bytes, float) in bytes.iter_mut().zip(floats) {
                *bytes = float.to_le_bytes();
            }
        }
    }

    /// Puts what [`write_stream`](Self::write_stream) gave on another machine where the tokens from number `first` on
    /// are. False if it does not have that length.
    pub fn read_stream(&mut self, first: usize, tokens: usize, bytes: &[u8]) -> bool {
        let fits = first + tokens <= self.work.limits.tokens;
        if !fits || bytes.len() != tokens * self.token_bytes() {
            return false;
        }
        let most = self.work.limits.tokens.max(1);
        let work = &mut self.work;
        let mut rest = bytes.as_chunks().0;
        for part in [
            &mut work.x,
            &mut work.streams,
            &mut work.first_values,
            &mut work.layer_inputs,
        ] {
            let each = part.len() / most;
            let own;
            (own, rest) = rest.split_at(tokens * each);
            for (float, bytes) in part[first * each..].iter_mut().zip(own) {
                *float = f32::from_le_bytes(*bytes);
            }
        }
        true
    }
}
