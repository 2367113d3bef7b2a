//! Adapters on a device: copies of those that batches ask for, and what they add to products.

use crate::args;
use crate::backend::{Address, Backend, Kernel, Shape};
use crate::error::DeviceError;
use crate::launch::launch;
use crate::weights::matrix_ids;
use std::collections::{HashMap, HashSet};
use strata_model::{Adapted, Adapter, BatchLimits, DeviceDelta, DeviceModel, Span};

/// Copies that are kept at most, beside those of the batch.
const KEPT: usize = 16;

/// What a copy has of one matrix.
#[derive(Copy, Clone)]
struct Delta {
    a: Address,
    b: Address,
    columns: u32,
    rank: u32,
    rows: u32,
    scale: f32,
}

/// An adapter on the device.
struct Copied {
    at: Address,
    /// By the matrices' numbers; addresses count from the copy's.
    deltas: HashMap<usize, Delta>,
    /// The batch that asked for it last.
    used: u64,
}

/// Tokens of a batch with one adapter.
struct Adapting {
    adapter: usize,
    scale: f32,
    /// The first token, and how many there are; likewise of the rows that logits are asked for.
    tokens: (usize, usize),
    rows: (usize, usize),
}

/// Which rows a matrix multiplies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowsOf {
    /// Those of all tokens.
    Tokens,
    /// Those that logits are asked for.
    Logits,
}

/// Rows of floats: where they begin, and floats from one to the next.
#[derive(Copy, Clone)]
pub(crate) struct FloatRows {
    pub(crate) at: Address,
    pub(crate) stride: usize,
}

/// The adapters of a device.
pub(crate) struct Adapters {
    /// The matrices that the device has.
    own: HashSet<usize>,
    limits: BatchLimits,
    kernels: [Kernel; 2],
    copies: HashMap<usize, Copied>,
    /// Room for so many numbers of each row between A and B.
    weights: Address,
    rank: usize,
    batches: u64,
    /// The batch's.
    adapting: Vec<Adapting>,
}

impl Adapters {
    pub(crate) fn new(
        backend: &mut dyn Backend,
        model: &DeviceModel<'_>,
        limits: BatchLimits,
    ) -> Result<Self, DeviceError> {
        let mut kernel = |name| backend.kernel("adapter", name);
        Ok(Self {
            own: matrix_ids(model),
            limits,
            kernels: [kernel("adapter_weights")?, kernel("adapter_add")?],
            copies: HashMap::new(),
            weights: 0,
            rank: 0,
            batches: 0,
            adapting: Vec::new(),
        })
    }

    /// Copies the adapters of a batch that are not there yet. Says whether there are any.
    pub(crate) fn prepare(
        &mut self,
        backend: &mut dyn Backend,
        batch: &[Span<'_>],
    ) -> Result<bool, DeviceError> {
        self.adapting.clear();
        self.batches += 1;
        let (mut token, mut row) = (0, 0);
        for span in batch {
            let (tokens, rows) = ((token, span.tokens.len()), (row, span.rows()));
            (token, row) = (token + tokens.1, row + rows.1);
            let Some(Adapted { adapter, scale }) = span.adapter else {
                continue;
            };
            self.copy(backend, adapter)?;
            self.adapting.push(Adapting {
                adapter: adapter.id(),
                scale,
                tokens,
                rows,
            });
        }
        Ok(!self.adapting.is_empty())
    }

    fn copy(&mut self, backend: &mut dyn Backend, adapter: &Adapter) -> Result<(), DeviceError> {
        let used = self.batches;
        if let Some(copied) = self.copies.get_mut(&adapter.id()) {
            copied.used = used;
            return Ok(());
        }
        self.forget(backend, KEPT);
        let copied = self.upload(backend, adapter).or_else(|error| {
            // What other batches had makes room.
            if error.is_loss() || !self.forget(backend, 0) {
                return Err(error);
            }
            self.upload(backend, adapter)
        });
        self.copies.insert(adapter.id(), copied?);
        Ok(())
    }

    /// Copies what an adapter adds to the matrices that are here, in one piece.
    fn upload(
        &mut self,
        backend: &mut dyn Backend,
        adapter: &Adapter,
    ) -> Result<Copied, DeviceError> {
        let own = |(matrix, _): &(usize, DeviceDelta<'_>)| self.own.contains(matrix);
        let all: Vec<(usize, DeviceDelta<'_>)> = adapter.device_deltas().filter(own).collect();
        let rank = all.iter().map(|(_, delta)| delta.rank).max();
        self.make_room(backend, rank.unwrap_or(0))?;
        let (mut bytes, mut deltas) = (Vec::<u8>::new(), HashMap::new());
        for (matrix, delta) in all {
            let mut place = |floats: &[f32]| {
                let at = bytes.len().next_multiple_of(16);
                bytes.resize(at, 0);
                bytes.extend(floats.iter().flat_map(|f| f.to_le_bytes()));
                at as u64
            };
            let delta = Delta {
                a: place(delta.a),
                b: place(delta.b),
                columns: delta.columns as u32,
                rank: delta.rank as u32,
                rows: delta.rows as u32,
                scale: delta.scale,
            };
            deltas.insert(matrix, delta);
        }
        let at = backend.alloc(bytes.len(), "taking memory for an adapter")?;
        backend.upload(at, &bytes)?;
        // The bytes go with this scope.
        backend.wait()?;
        let used = self.batches;
        Ok(Copied { at, deltas, used })
    }

    fn make_room(&mut self, backend: &mut dyn Backend, rank: usize) -> Result<(), DeviceError> {
        if rank <= self.rank {
            return Ok(());
        }
        let bytes = 4 * rank * self.limits.tokens.max(self.limits.logits);
        let weights = backend.alloc(bytes, "taking memory for an adapter")?;
        backend.free(self.weights);
        (self.weights, self.rank) = (weights, rank);
        Ok(())
    }

    /// Gives copies back that this batch does not need, those used longest ago first, until so many are left. Says whether
    /// there were any.
    fn forget(&mut self, backend: &mut dyn Backend, left: usize) -> bool {
        let mut any = false;
        while self.copies.len() > left {
            let others = self.copies.iter().filter(|(_, c)| c.used < self.batches);
            let Some((&oldest, _)) = others.min_by_key(|(_, copied)| copied.used) else {
                break;
            };
            if let Some(copied) = self.copies.remove(&oldest) {
                backend.free(copied.at);
                any = true;
            }
        }
        any
    }

    /// Adds what the batch's adapters add to a matrix's products `out` with `x`.
    pub(crate) fn add(
        &self,
        backend: &dyn Backend,
        matrix: usize,
        (x, out): (FloatRows, FloatRows),
        of: RowsOf,
    ) -> Result<(), DeviceError> {
        for adapting in &self.adapting {
            let copied = self.copies.get(&adapting.adapter);
            let found = copied.and_then(|copied| Some((copied.at, copied.deltas.get(&matrix)?)));
            let Some((at, delta)) = found else {
                continue;
            };
            let (first, rows) = match of {
                RowsOf::Tokens => adapting.tokens,
                RowsOf::Logits => adapting.rows,
            };
            let arguments = args::Adapter {
                x: x.at + 4 * (first * x.stride) as u64,
                out: out.at + 4 * (first * out.stride) as u64,
                a: at + delta.a,
                b: at + delta.b,
                weights: self.weights,
                columns: delta.columns,
                rank: delta.rank,
                rows: delta.rows,
                x_stride: x.stride as u32,
                out_stride: out.stride as u32,
                scale: delta.scale * adapting.scale,
            };
            for (kernel, blocks) in [
                (self.kernels[0], delta.rank.div_ceil(16)),
                (self.kernels[1], delta.rows.div_ceil(256)),
            ] {
                let shape = Shape {
                    grid: [rows as u32, blocks, 1],
                    threads: 256,
                    shared: 0,
                };
                launch(backend, kernel, shape, &arguments)?;
            }
        }
        Ok(())
    }
}
