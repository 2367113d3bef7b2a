//! A GGUF file with its matrices in other types.

use alloc::vec::Vec;

use strata_platform::Pool;
use strata_quant::{GgmlType, dequantize};
use strata_weights::gguf::{Builder, Layout};
use strata_weights::{GgufSet, Tensor};

use crate::error::ConvertError;
use crate::importance::Importance;
use crate::mix::{Mix, ModelFacts};
use crate::recipe::Recipe;
use crate::write::{self, Job, RowSource, STEP, WriteFailure};

/// Keys of the source that the new file has its own values for, or none: it is one file.
const REPLACED: &[&str] = &[
    "general.file_type",
    "general.quantization_version",
    "split.no",
    "split.count",
    "split.tensors.count",
];

/// A tensor of the new file.
#[derive(Clone, Debug)]
pub struct Requantized<'s, 'a> {
    /// The source.
    pub from: &'s Tensor<'a>,
    /// The type that it gets.
    pub to: GgmlType,
    /// The bytes that it will take.
    pub len: u64,
}

/// A file and what it becomes.
#[derive(Debug)]
pub struct Requantizing<'s, 'a> {
    tensors: Vec<Requantized<'s, 'a>>,
    layout: Layout,
    importance: Option<&'s Importance>,
    mix: Mix,
}

impl<'s, 'a> Requantizing<'s, 'a> {
    /// Looks at a file, and says what it will become.
    pub fn new(source: &'s GgufSet<'a>, recipe: &Recipe<'s>) -> Result<Self, ConvertError> {
        let mut builder = Builder::new();
        let weighed = recipe.importance.is_some();
        for (key, value) in source.metadata().iter() {
            let replaced =
                REPLACED.contains(&key) || (weighed && key.starts_with("quantize.imatrix."));
            if !replaced {
                builder.set_value(key, value)?;
            }
        }
        recipe.describe(&mut builder)?;
        let has_output = source.tensor("output.weight").is_some();
        let facts = ModelFacts::new(source.metadata(), has_output, weighed);
        let shapes = source.tensors().iter();
        recipe.check(shapes.map(|tensor| (tensor.name, &*tensor.dims)))?;
        let mut types = Vec::with_capacity(source.tensors().len());
        for tensor in source.tensors() {
            let to = if is_float(tensor.ty) {
                recipe.choose(&facts, tensor.name, &tensor.dims)
            } else {
                None
            };
            let to = to.unwrap_or(tensor.ty);
            builder.tensor(tensor.name, to, &tensor.dims)?;
            types.push(to);
        }
        let layout = builder.finish()?;
        let tensors = source.tensors().iter().zip(types).zip(&layout.tensors);
        Ok(Requantizing {
            tensors: tensors
                .map(|((from, to), extent)| Requantized {
                    from,
                    to,
                    len: extent.len,
                })
                .collect(),
            layout,
            importance: recipe.importance,
            mix: recipe.mix,
        })
    }

    /// The file without its tensors' data.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tensors in the file's order.
    pub fn tensors(&self) -> &[Requantized<'s, 'a>] {
        &self.tensors
    }

    /// The mix of types.
    pub fn mix(&self) -> Mix {
        self.mix
    }

    /// Hands out a tensor's bytes, in order; padding is the caller's.
    pub fn write<E>(
        &self,
        tensor: &Requantized<'s, 'a>,
        pool: &dyn Pool,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), WriteFailure<E>> {
        let from = tensor.from;
        if tensor.to == from.ty {
            let mut parts = from.data.chunks(STEP);
            return parts.try_for_each(sink).map_err(WriteFailure::Sink);
        }
        let [columns, _, experts, more] = from.dims.padded();
        let experts = experts.saturating_mul(more);
        let importance = write::importance(self.importance, from.name, columns, experts)?;
        let rows = BlockRows::new(from);
        let job = Job {
            rows: &rows,
            name: from.name,
            ty: tensor.to,
            importance,
        };
        job.run(pool, sink)
    }
}

/// Integers are tables, not weights.
fn is_float(ty: GgmlType) -> bool {
    !matches!(
        ty,
        GgmlType::I8 | GgmlType::I16 | GgmlType::I32 | GgmlType::I64
    )
}

/// The rows of a tensor of a GGUF file.
struct BlockRows<'a> {
    ty: GgmlType,
    columns: usize,
    row_bytes: usize,
    data: &'a [u8],
}

impl<'a> BlockRows<'a> {
    fn new(tensor: &Tensor<'a>) -> Self {
        // Tensors of a parsed file have rows of whole blocks that lie in memory.
        let columns = tensor.dims.first().copied().unwrap_or(1);
        BlockRows {
            ty: tensor.ty,
            columns: columns as usize,
            row_bytes: tensor.ty.row_bytes(columns).unwrap_or(1) as usize,
            data: tensor.data,
        }
    }
}

impl RowSource for BlockRows<'_> {
    fn count(&self) -> usize {
        self.data.len() / self.row_bytes.max(1)
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn copy(&self, _: usize, _: &mut [u8]) -> bool {
        false
    }

    fn read(&self, row: usize, values: &mut [f32]) -> Option<()> {
        let start = row.checked_mul(self.row_bytes)?;
        let bytes = self.data.get(start..)?.get(..self.row_bytes)?;
        dequantize(self.ty, bytes, values).ok()
    }
}
