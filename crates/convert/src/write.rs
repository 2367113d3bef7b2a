//! Making a tensor of the file: a few megabytes of rows at a time, shared out among the workers.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use strata_platform::{Pool, for_each_chunk};
use strata_quant::{GgmlType, QuantError, quantize};
use strata_weights::Rows;
use strata_weights::gguf::Name;

use crate::error::ConvertError;
use crate::fp4::Fp4Rows;
use crate::importance::Importance;
use crate::plan::{Plan, PlannedTensor};
use crate::row_order::RowOrder;
use crate::tensor_plan::{Edit, Make};

/// Bytes of a tensor that are made before they are handed out.
pub(crate) const STEP: usize = 8 << 20;
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
        if let Some(bytes) = self.unchanged(tensor) {
            let mut steps = bytes.chunks(STEP);
            return steps.try_for_each(|bytes| sink(bytes).map_err(WriteFailure::Sink));
        }
        match &tensor.make {
            Make::Values(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                sink(&bytes).map_err(WriteFailure::Sink)
            }
            Make::Blocks {
                sources: [blocks, scales],
                order,
            } => {
                let rows = Fp4Rows::new(
                    self.checkpoint.get(*blocks),
                    self.checkpoint.get(*scales),
                    (*order, tensor.ty == GgmlType::MXFP4),
                );
                let job = Job {
                    rows: &rows.ok_or_else(|| ConvertError::Shape {
                        tensor: Name::new(&tensor.name),
                    })?,
                    name: &tensor.name,
                    ty: tensor.ty,
                    importance: self.importance(tensor, 0)?,
                };
                job.run(pool, sink)
            }
            Make::Rows {
                sources,
                view,
                order,
                columns,
                edit,
            } => {
                for (item, &index) in sources.iter().enumerate() {
                    let Some(source) = self.checkpoint.get(index) else {
                        continue;
                    };
                    let rows = source.rows().map_err(ConvertError::from)?;
                    let rows = match view.item_rows {
                        None => rows,
                        Some(item_rows) => rows.items_transposed(item_rows),
                    };
                    let rows = match view.columns {
                        None => rows,
                        Some((first, step, count)) => rows.some_columns(first, step, count),
                    };
                    let untouched = *edit == Edit::Nothing && *columns == RowOrder::Same;
                    let rows = CheckpointRows {
                        rows: &rows,
                        order: *order,
                        columns: *columns,
                        edit,
                        same: source.dtype.ggml() == Some(tensor.ty) && untouched,
                    };
                    let importance = self.importance(tensor, item)?;
                    let job = Job {
                        rows: &rows,
                        name: &tensor.name,
                        ty: tensor.ty,
                        importance,
                    };
                    job.run(pool, sink)?;
                }
                Ok(())
            }
        }
    }
}

/// Rows of floats to be written as some type.
pub(crate) trait RowSource: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// How long each is.
    fn columns(&self) -> usize;

    /// Writes a row's bytes where they need no change, and says whether it did.
    fn copy(&self, row: usize, out: &mut [u8]) -> bool;

    /// A row's floats; `None` if there is no such row.
    fn read(&self, row: usize, values: &mut [f32]) -> Option<()>;
}

/// The rows of one tensor of a checkpoint.
struct CheckpointRows<'r, 'a> {
    rows: &'r Rows<'a>,
    order: RowOrder,
    /// The order of columns.
    columns: RowOrder,
    edit: &'r Edit,
    /// Whether bytes are copied.
    same: bool,
}

impl RowSource for CheckpointRows<'_, '_> {
    fn count(&self) -> usize {
        self.order.count(self.rows.len())
    }

    fn columns(&self) -> usize {
        self.rows.columns()
    }

    fn copy(&self, row: usize, out: &mut [u8]) -> bool {
        let bytes = self.same.then(|| self.rows.bytes(self.order.source(row)));
        bytes
            .flatten()
            .map(|bytes| out.copy_from_slice(bytes))
            .is_some()
    }

    fn read(&self, row: usize, values: &mut [f32]) -> Option<()> {
        self.rows.read(self.order.source(row), values)?;
        if self.columns != RowOrder::Same {
            let before = values.to_vec();
            for (column, value) in values.iter_mut().enumerate() {
                *value = *before.get(self.columns.source(column))?;
            }
        }
        match self.edit {
            Edit::Nothing => {}
            Edit::PlusOne => values.iter_mut().for_each(|value| *value += 1.0),
            Edit::OneMinus => values.iter_mut().for_each(|value| *value = 1.0 - *value),
            Edit::Decay => values
                .iter_mut()
                .for_each(|value| *value = -libm::expf(*value)),
            Edit::Factors(factors) => {
                let (_, factor) = factors.iter().find(|(end, _)| row < *end)?;
                values.iter_mut().for_each(|value| *value *= factor);
            }
        }
        Some(())
    }
}

/// Rows on their way into a file.
pub(crate) struct Job<'r, S> {
    pub(crate) rows: &'r S,
    /// The tensor's name.
    pub(crate) name: &'r str,
    pub(crate) ty: GgmlType,
    /// How much each column counts, for every expert whose rows these are.
    pub(crate) importance: Option<&'r [f32]>,
}

/// Why a row could not be made.
enum RowFault {
    Unreadable,
    Quant(QuantError),
}

impl<S: RowSource> Job<'_, S> {
    /// Hands out the bytes of all rows, in order.
    pub(crate) fn run<E>(
        &self,
        pool: &dyn Pool,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), WriteFailure<E>> {
        let (count, columns) = (self.rows.count(), self.rows.columns());
        let unfit = || ConvertError::Shape {
            tensor: Name::new(self.name),
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
                        tensor: self.name.into(),
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
        if self.rows.copy(row, out) {
            return Ok(());
        }
        self.rows.read(row, values).ok_or(RowFault::Unreadable)?;
        let importance = self.importance.and_then(|all| {
            // Experts have the same number of rows each.
            let experts = (all.len() / values.len().max(1)).max(1);
            let expert = row / (self.rows.count() / experts).max(1);
            all.chunks_exact(values.len()).nth(expert)
        });
        quantize(self.ty, values, importance, out).map_err(RowFault::Quant)
    }
}

/// A tensor's importance, if it is known: as many numbers as a row has columns, once or for each of its `experts`.
pub(crate) fn importance<'i>(
    all: Option<&'i Importance>,
    tensor: &str,
    columns: u64,
    experts: u64,
) -> Result<Option<&'i [f32]>, ConvertError> {
    let Some(found) = all.and_then(|all| all.get(tensor)) else {
        return Ok(None);
    };
    let len = found.len() as u64;
    if len == columns || Some(len) == columns.checked_mul(experts) {
        return Ok(Some(found));
    }
    Err(ConvertError::Importance {
        tensor: tensor.into(),
        found: len,
        expected: columns.saturating_mul(experts),
    })
}
