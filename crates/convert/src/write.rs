//! Making a tensor of the file: a few megabytes of rows at a time.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use strata_platform::{Pool, for_each_chunk};
use strata_quant::{GgmlType, QuantError, quantize};
use strata_weights::Rows;
use strata_weights::gguf::Name;

use crate::error::ConvertError;
use crate::family::Add;
use crate::plan::{Make, Plan, PlannedTensor, View};
use crate::row_order::RowOrder;

/// Bytes of a tensor that are made before they are handed out.
const STEP: usize = 8 << 20;
/// Values that a worker converts at a time.
const TASK: usize = 64 << 10;

/// Why a tensor was not written.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum WriteFailure<E> {
    /// The checkpoint cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// Whoever takes the bytes failed.
    #[error("the file cannot be written")]
    Sink(E),
}

impl Plan<'_, '_> {
    /// Hands out a tensor's bytes, in order; padding is the caller's.
    pub fn write<E>(
        &self,
        tensor: &PlannedTensor,
        pool: &dyn Pool,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), WriteFailure<E>> {
        match &tensor.make {
            Make::Values(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                sink(&bytes).map_err(WriteFailure::Sink)
            }
            Make::Rows {
                sources,
                view,
                order,
                add,
            } => {
                for &index in sources {
                    let Some(source) = self.checkpoint.get(index) else {
                        continue;
                    };
                    let rows = source.rows().map_err(ConvertError::from)?;
                    let rows = match view {
                        View::AsIs => rows,
                        View::Transposed => rows.transposed(),
                    };
                    let job = Job {
                        rows: &rows,
                        ty: tensor.ty,
                        order: *order,
                        add: *add,
                        same: source.dtype.ggml() == Some(tensor.ty) && *add == Add::Nothing,
                    };
                    job.run(tensor, pool, sink)?;
                }
                Ok(())
            }
        }
    }
}

/// The rows of one source.
struct Job<'r, 'a> {
    rows: &'r Rows<'a>,
    ty: GgmlType,
    order: RowOrder,
    add: Add,
    /// Whether bytes are copied.
    same: bool,
}

/// Why a row could not be made.
enum RowFault {
    Unreadable,
    Quant(QuantError),
}

impl Job<'_, '_> {
    fn run<E>(
        &self,
        tensor: &PlannedTensor,
        pool: &dyn Pool,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), WriteFailure<E>> {
        let (count, columns) = (self.order.count(self.rows.len()), self.rows.columns());
        let unfit = || ConvertError::Shape {
            tensor: Name::new(&tensor.name),
        };
        let row_bytes = self.ty.row_bytes(columns as u64).ok_or_else(unfit)? as usize;
        let step = (STEP / row_bytes.max(1)).clamp(1, count.max(1));
        let task = (TASK / columns.max(1)).max(1);
        let mut buffer = vec![0; step * row_bytes];
        let mut first = 0;
        while first < count {
            let rows = step.min(count - first);
            let out = &mut buffer[..rows * row_bytes];
            let failed = AtomicUsize::new(usize::MAX);
            for_each_chunk(pool, out, task * row_bytes, |index, out| {
                let mut values = vec![0.0; columns];
                for (at, out) in out.chunks_exact_mut(row_bytes).enumerate() {
                    let row = first + index * task + at;
                    if self.row(row, &mut values, out).is_err() {
                        failed.fetch_min(row, Ordering::Relaxed);
                        return;
                    }
                }
            });
            let failed = failed.into_inner();
            if failed != usize::MAX {
                // Once more, for the reason.
                let mut values = vec![0.0; columns];
                let out = &mut buffer[..row_bytes];
                return Err(match self.row(failed, &mut values, out) {
                    Err(RowFault::Quant(source)) => ConvertError::Quant {
                        tensor: tensor.name.clone(),
                        source,
                    },
                    _ => unfit(),
                }
                .into());
            }
            sink(&buffer[..rows * row_bytes]).map_err(WriteFailure::Sink)?;
            first += rows;
        }
        Ok(())
    }

    fn row(&self, row: usize, values: &mut [f32], out: &mut [u8]) -> Result<(), RowFault> {
        let source = self.order.source(row);
        if self.same
            && let Some(bytes) = self.rows.bytes(source)
        {
            out.copy_from_slice(bytes);
            return Ok(());
        }
        self.rows.read(source, values).ok_or(RowFault::Unreadable)?;
        if self.add == Add::One {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        quantize(self.ty, values, None, out).map_err(RowFault::Quant)
    }
}
