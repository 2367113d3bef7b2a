//! LoRA adapters (<https://arxiv.org/abs/2106.09685>): for some of a model's matrices W, two small ones, so that
//! W·x becomes W·x + scale · B·(A·x).
//!
//! In a GGUF file they are named `NAME.lora_a`, (rank, columns), and `NAME.lora_b`, (rows, rank), after the tensor
//! `NAME` that they change. The model stays as it is: an adapter is chosen for each span of a batch.

use crate::matrix::Matrix;
use crate::model::Model;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use strata_kernels::Kernels;
use strata_quant::GgmlType;
use strata_weights::{GgufError, GgufSet};

/// The largest rank: more would be no small matrix.
const MAX_RANK: u64 = 4096;

/// Why an adapter cannot be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum AdapterError {
    #[error(transparent)]
    Metadata(#[from] GgufError),
    #[error("the metadata has no {key}")]
    MissingKey { key: &'static str },
    #[error("{key} is {found:?}; it must be {needs:?}")]
    Kind {
        key: &'static str,
        found: String,
        needs: String,
    },
    #[error("adapter.lora.alpha is {alpha}; it must be finite and not negative")]
    Alpha { alpha: f32 },
    #[error("the tensor {name} is neither a .lora_a nor a .lora_b")]
    Name { name: String },
    #[error("the tensor {name} is there twice")]
    Duplicate { name: String },
    #[error("the tensor {name} changes a matrix that the model does not have")]
    NoSuchMatrix { name: String },
    #[error("the tensor {name} changes {what}, which adapters cannot")]
    NotAdaptable { name: String, what: &'static str },
    #[error("the tensor {name} is missing")]
    Missing { name: String },
    #[error("the tensor {name} has the shape {found:?}; it should be {expected:?}")]
    Shape {
        name: String,
        found: Vec<u64>,
        expected: Vec<u64>,
    },
    #[error("the tensor {name} has the rank {rank}; it should be at most {MAX_RANK}")]
    Rank { name: String, rank: u64 },
    #[error("the tensor {name} is {ty:?}; it should be F32, F16 or BF16")]
    Type { name: String, ty: GgmlType },
    #[error("the tensor {name} has a number in it that is not finite")]
    NotFinite { name: String },
    #[error("the adapter changes nothing")]
    Empty,
}

/// A tensor of an adapter, wherever it comes from.
#[derive(Copy, Clone, Debug)]
pub struct AdapterTensor<'a> {
    /// The matrix's name in GGUF, and `.lora_a` or `.lora_b`.
    pub name: &'a str,
    /// F32, F16 or BF16.
    pub ty: GgmlType,
    /// The innermost first.
    pub dims: &'a [u64],
    /// Little-endian, as long as the dimensions say.
    pub data: &'a [u8],
}

/// What an adapter adds to one matrix.
pub(crate) struct Delta {
    columns: usize,
    rows: usize,
    rank: usize,
    /// (rank, columns).
    a: Vec<f32>,
    /// (rank, rows): B turned, so that each of its columns is added in one go.
    b: Vec<f32>,
    /// alpha / rank.
    scale: f32,
}

/// What an adapter adds to one matrix, for a device: the product's scale · B·(A·x), columns of B one after the other.
#[derive(Copy, Clone)]
pub struct DeviceDelta<'a> {
    /// Inputs.
    pub columns: usize,
    /// Outputs.
    pub rows: usize,
    /// Rows of A and columns of B.
    pub rank: usize,
    /// (rank, columns).
    pub a: &'a [f32],
    /// (rank, rows).
    pub b: &'a [f32],
    /// What a span's own strength is multiplied by.
    pub scale: f32,
}

/// The number of the next adapter.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// An adapter for one model.
pub struct Adapter {
    /// No other adapter of this process has it.
    id: usize,
    /// By the matrices' numbers.
    deltas: BTreeMap<usize, Delta>,
    /// The shapes of the model's matrices.
    signature: u64,
}

/// An adapter, and how much of it.
#[derive(Copy, Clone)]
pub struct Adapted<'a> {
    /// The adapter.
    pub adapter: &'a Adapter,
    /// What its part is multiplied by: 1 for all of it.
    pub scale: f32,
}

impl Adapter {
    /// Reads a GGUF file that was made for `model`.
    pub fn load(file: &GgufSet<'_>, model: &Model) -> Result<Self, AdapterError> {
        let metadata = file.metadata();
        let arch = model.config().spec.name;
        for (key, needs) in [
            ("general.type", "adapter"),
            ("adapter.type", "lora"),
            ("general.architecture", arch),
        ] {
            let found = metadata.str(key)?.ok_or(AdapterError::MissingKey { key })?;
            if found != needs {
                return Err(AdapterError::Kind {
                    key,
                    found: found.into(),
                    needs: needs.into(),
                });
            }
        }
        let key = "adapter.lora.alpha";
        let alpha = metadata.f32(key)?.ok_or(AdapterError::MissingKey { key })?;
        let tensors: Vec<AdapterTensor<'_>> = file
            .tensors()
            .iter()
            .map(|tensor| AdapterTensor {
                name: tensor.name,
                ty: tensor.ty,
                dims: &tensor.dims,
                data: tensor.data,
            })
            .collect();
        Self::new(alpha, &tensors, model)
    }

    /// Puts an adapter for `model` together. The product of its matrices is multiplied by `alpha` / rank; an `alpha` of
    /// zero stands for one that was not given, and multiplies by one.
    pub fn new(
        alpha: f32,
        tensors: &[AdapterTensor<'_>],
        model: &Model,
    ) -> Result<Self, AdapterError> {
        if !alpha.is_finite() || alpha < 0.0 {
            return Err(AdapterError::Alpha { alpha });
        }
        let mut pairs: BTreeMap<&str, [Option<&AdapterTensor<'_>>; 2]> = BTreeMap::new();
        for tensor in tensors {
            let name = || tensor.name.into();
            let (matrix, half) = match tensor.name.rsplit_once(".lora_") {
                Some((matrix, "a")) => (matrix, 0),
                Some((matrix, "b")) => (matrix, 1),
                _ => return Err(AdapterError::Name { name: name() }),
            };
            let place = &mut pairs.entry(matrix).or_default()[half];
            if place.replace(tensor).is_some() {
                return Err(AdapterError::Duplicate { name: name() });
            }
        }
        let mut deltas = BTreeMap::new();
        for (name, pair) in pairs {
            let missing = |half| AdapterError::Missing {
                name: alloc::format!("{name}.lora_{half}"),
            };
            let [a, b] = pair;
            let Some(either) = a.or(b) else { continue };
            let matrix = adaptable(model, name, either)?;
            let a = a.ok_or_else(|| missing("a"))?;
            let b = b.ok_or_else(|| missing("b"))?;
            deltas.insert(matrix.id, Delta::new(alpha, matrix, a, b)?);
        }
        if deltas.is_empty() {
            return Err(AdapterError::Empty);
        }
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            deltas,
            signature: model.signature(),
        })
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let floats = |delta: &Delta| delta.a.len() + delta.b.len();
        self.deltas.values().map(floats).sum::<usize>() * size_of::<f32>()
    }

    /// How many matrices it changes.
    pub fn matrices(&self) -> usize {
        self.deltas.len()
    }

    /// Whether it was made for this model, or for one whose matrices are named and shaped alike.
    pub fn fits(&self, model: &Model) -> bool {
        self.signature == model.signature()
    }

    /// A number that no other adapter of this process has.
    pub fn id(&self) -> usize {
        self.id
    }

    /// What it adds to which matrices, by their numbers, for a device that keeps a copy.
    pub fn device_deltas(&self) -> impl Iterator<Item = (usize, DeviceDelta<'_>)> {
        self.deltas.iter().map(|(&matrix, delta)| {
            let of_device = DeviceDelta {
                columns: delta.columns,
                rows: delta.rows,
                rank: delta.rank,
                a: &delta.a,
                b: &delta.b,
                scale: delta.scale,
            };
            (matrix, of_device)
        })
    }

    /// What it adds to this matrix.
    pub(crate) fn delta(&self, matrix: &Matrix) -> Option<&Delta> {
        self.deltas.get(&matrix.id)
    }
}

/// The matrix that a tensor changes.
fn adaptable<'m>(
    model: &'m Model,
    name: &str,
    tensor: &AdapterTensor<'_>,
) -> Result<&'m Matrix, AdapterError> {
    let found = model.tensors().iter().find(|known| known.name == name);
    let known = found.ok_or_else(|| AdapterError::NoSuchMatrix {
        name: tensor.name.into(),
    })?;
    let what = if known.matrices > 1 {
        "a tensor of experts"
    } else if known.matrix.id == model.parts.token_embd.id {
        "the embedding"
    } else {
        return Ok(&known.matrix);
    };
    Err(AdapterError::NotAdaptable {
        name: tensor.name.into(),
        what,
    })
}

impl Delta {
    fn new(
        alpha: f32,
        matrix: &Matrix,
        a: &AdapterTensor<'_>,
        b: &AdapterTensor<'_>,
    ) -> Result<Self, AdapterError> {
        let rank = a.dims.get(1).copied().unwrap_or(1);
        if rank == 0 || rank > MAX_RANK {
            return Err(AdapterError::Rank {
                name: a.name.into(),
                rank,
            });
        }
        let (columns, rows) = (matrix.columns, matrix.rows);
        let a = floats(a, [columns as u64, rank])?;
        let turned = floats(b, [rank, rows as u64])?;
        let rank = rank as usize;
        let mut b = vec![0.0; turned.len()];
        for (row, values) in turned.chunks_exact(rank).enumerate() {
            for (k, &value) in values.iter().enumerate() {
                b[k * rows + row] = value;
            }
        }
        Ok(Self {
            columns,
            rows,
            rank,
            a,
            b,
            scale: if alpha == 0.0 {
                1.0
            } else {
                alpha / rank as f32
            },
        })
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// out += scale · B·(A·x) for a few rows: the columns of B in their order, whatever else is computed.
    pub(crate) fn add(&self, kernels: &Kernels, scale: f32, x: Rows<'_>, out: RowsMut<'_>) {
        let scale = self.scale * scale;
        let rows = out.floats.chunks_exact_mut(out.stride);
        // The columns of B in groups whose weights fit in a buffer, and the outputs in stretches that stay in the cache.
        let mut weights = [[0.0; GROUP]; ROWS];
        let mut outs: [&mut [f32]; ROWS] = Default::default();
        let mut count = 0;
        for (place, row) in outs.iter_mut().zip(rows) {
            *place = &mut row[out.offset..][..self.rows];
            count += 1;
        }
        let group = self.a.chunks(GROUP * self.columns);
        for (a, b) in group.zip(self.b.chunks(GROUP * self.rows)) {
            for (t, weights) in weights[..count].iter_mut().enumerate() {
                let x = &x.floats[t * x.stride..][..self.columns];
                for (weight, a) in weights.iter_mut().zip(a.chunks_exact(self.columns)) {
                    *weight = scale * kernels.dot(a, x);
                }
            }
            for start in (0..self.rows).step_by(STRETCH) {
                let stretch = start..self.rows.min(start + STRETCH);
                for (k, b) in b.chunks_exact(self.rows).enumerate() {
                    for (out, weights) in outs[..count].iter_mut().zip(&weights) {
                        let out = &mut out[stretch.clone()];
                        kernels.add_scaled(out, &b[stretch.clone()], weights[k]);
                    }
                }
            }
        }
    }
}

/// Rows that are changed together.
pub(crate) const ROWS: usize = 8;

/// Columns of B whose weights are worked out together.
const GROUP: usize = 64;

/// Floats of an output that stay in the cache while the columns of B are added.
const STRETCH: usize = 1024;

/// Inputs, `stride` apart.
#[derive(Copy, Clone)]
pub(crate) struct Rows<'a> {
    pub(crate) floats: &'a [f32],
    pub(crate) stride: usize,
}

/// At most [`ROWS`] outputs, `stride` apart, from `offset` on.
pub(crate) struct RowsMut<'a> {
    pub(crate) floats: &'a mut [f32],
    pub(crate) stride: usize,
    pub(crate) offset: usize,
}

/// A tensor's numbers, if it has the shape.
fn floats(tensor: &AdapterTensor<'_>, expected: [u64; 2]) -> Result<Vec<f32>, AdapterError> {
    let name = || tensor.name.into();
    let [columns, rows] = expected;
    let found = tensor.dims;
    let (first, rest) = found.split_first().unwrap_or((&0, &[]));
    let second = rest.first().copied().unwrap_or(1);
    let flat = rest.get(1..).unwrap_or(&[]).iter().all(|&dim| dim == 1);
    if *first != columns || second != rows || !flat {
        return Err(AdapterError::Shape {
            name: name(),
            found: found.to_vec(),
            expected: expected.to_vec(),
        });
    }
    let fit = match tensor.ty {
        GgmlType::F32 => 4,
        GgmlType::F16 | GgmlType::BF16 => 2,
        ty => return Err(AdapterError::Type { name: name(), ty }),
    };
    // What the dimensions promise must be there before anything is allocated for it.
    let elements = tensor.data.len() / fit;
    if columns.checked_mul(rows) != Some(elements as u64) {
        return Err(AdapterError::Shape {
            name: name(),
            found: found.to_vec(),
            expected: expected.to_vec(),
        });
    }
    let mut values = vec![0.0; elements];
    strata_quant::dequantize(tensor.ty, tensor.data, &mut values).map_err(|_| {
        AdapterError::Type {
            name: name(),
            ty: tensor.ty,
        }
    })?;
    if values.iter().any(|value| !value.is_finite()) {
        return Err(AdapterError::NotFinite { name: name() });
    }
    Ok(values)
}
