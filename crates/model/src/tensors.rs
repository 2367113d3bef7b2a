//! A model file's tensors, asked for by name and shape; what nobody asks for is an error.

use crate::error::LoadError;
use crate::matrix::{Experts, Matrix};
use crate::spec::Presence;
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ops::Range;
use strata_quant::GgmlType;
use strata_weights::{GgufSet, Tensor};

/// The number of a matrix that is not loaded.
const ABSENT: usize = usize::MAX;

/// A matrix and its rows in the file.
pub(crate) struct Source<'a> {
    pub(crate) matrix: Matrix,
    pub(crate) bytes: &'a [u8],
}

/// A tensor of one or more matrices, which are numbered one after the other.
#[derive(Clone, Debug)]
pub(crate) struct NamedMatrices {
    pub(crate) name: String,
    /// The first of them.
    pub(crate) matrix: Matrix,
    pub(crate) matrices: usize,
}

/// Hands tensors out, and remembers which.
pub(crate) struct Tensors<'a, 'f> {
    file: &'a GgufSet<'f>,
    arch: &'static str,
    /// Which part of an encoder-decoder names are of.
    pub(crate) part: &'static str,
    /// Whether what is asked for is loaded: tensors of layers that another machine has are only checked.
    pub(crate) present: bool,
    taken: Vec<bool>,
    /// All matrices by number, which is the order of their use.
    pub(crate) sources: Vec<Source<'f>>,
    /// The names of the tensors that they are in.
    pub(crate) names: Vec<NamedMatrices>,
}

impl<'a, 'f> Tensors<'a, 'f> {
    pub(crate) fn new(file: &'a GgufSet<'f>, arch: &'static str, part: &'static str) -> Self {
        Self {
            file,
            arch,
            part,
            present: true,
            taken: vec![false; file.tensors().len()],
            sources: Vec::new(),
            names: Vec::new(),
        }
    }

    /// The name that the file has for what is called so in other architectures.
    fn full<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.part.is_empty() || !(name.starts_with("blk.") || name.starts_with("output_norm")) {
            return name.into();
        }
        let name = name.replace("attn_output.", "attn_o.");
        format!("{}{name}", self.part).into()
    }

    /// Whether the file has a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.file.tensor(&self.full(name)).is_some()
    }

    /// How many rows the matrix of this name has, if the file has it.
    pub(crate) fn rows(&self, name: &str) -> Option<usize> {
        let dims = &self.file.tensor(&self.full(name))?.dims;
        Some(dims.get(1).map_or(1, |&rows| rows as usize))
    }

    fn take(&mut self, name: &str) -> Result<&'a Tensor<'f>, LoadError> {
        let name = self.full(name);
        let index = self.file.tensor_index(&name);
        let index = index.ok_or_else(|| LoadError::MissingTensor {
            name: name.into_owned(),
        })?;
        self.taken[index] = true;
        Ok(&self.file.tensors()[index])
    }

    /// A vector of floats. A shape of `[rows, columns]` may come with the same elements under more dimensions.
    pub(crate) fn vector(&mut self, name: &str, shape: &[u64]) -> Result<Vec<f32>, LoadError> {
        let tensor = self.take(name)?;
        check_shape(tensor, shape)?;
        if !matches!(tensor.ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16) {
            return Err(unfit(tensor));
        }
        let mut values = vec![0.0; shape.iter().product::<u64>() as usize];
        if self.present {
            strata_quant::dequantize(tensor.ty, tensor.data, &mut values)
                .map_err(|_| unfit(tensor))?;
        }
        Ok(values)
    }

    /// `count` vectors of floats, one after the other, of whatever length they have; gives that too.
    pub(crate) fn vectors(
        &mut self,
        name: &str,
        count: usize,
    ) -> Result<(Vec<f32>, usize), LoadError> {
        let length = self.file.tensor(name).and_then(|t| t.dims.first().copied());
        let length = length.unwrap_or(1);
        let values = self.vector(name, &[length, count as u64])?;
        Ok((values, length as usize))
    }

    /// A vector that the family may or must have.
    pub(crate) fn maybe_vector(
        &mut self,
        presence: Presence,
        name: &str,
        shape: &[u64],
    ) -> Result<Option<Vec<f32>>, LoadError> {
        match presence {
            Presence::Never => Ok(None),
            Presence::IfPresent if !self.has(name) => Ok(None),
            _ => self.vector(name, shape).map(Some),
        }
    }

    /// A matrix of `rows` rows.
    pub(crate) fn matrix(
        &mut self,
        name: &str,
        columns: usize,
        rows: usize,
    ) -> Result<Matrix, LoadError> {
        let tensor = self.take(name)?;
        check_shape(tensor, &[columns as u64, rows as u64])?;
        let matrix = self.add(tensor, tensor.data, columns, rows)?;
        self.name(name, matrix, 1);
        Ok(matrix)
    }

    /// A convolution whose kernel covers what it is moved by: a matrix of `rows` rows over the elements of all other
    /// dimensions.
    pub(crate) fn patch_matrix(
        &mut self,
        name: &str,
        kernel: &[u64],
        rows: usize,
    ) -> Result<Matrix, LoadError> {
        let tensor = self.take(name)?;
        let columns = kernel.iter().product::<u64>() as usize;
        // Some converters write the matrix itself.
        let shape: Vec<u64> = match tensor.dims[..] {
            [_, _] => vec![columns as u64, rows as u64],
            _ => kernel.iter().copied().chain([rows as u64]).collect(),
        };
        check_shape(tensor, &shape)?;
        if !columns.is_multiple_of(tensor.ty.block_len()) {
            return Err(unfit(tensor));
        }
        let matrix = self.add(tensor, tensor.data, columns, rows)?;
        self.name(name, matrix, 1);
        Ok(matrix)
    }

    /// `count` matrices of the same shape, in one tensor.
    pub(crate) fn experts(
        &mut self,
        name: &str,
        columns: usize,
        rows: usize,
        count: usize,
    ) -> Result<Experts, LoadError> {
        let tensor = self.take(name)?;
        check_shape(tensor, &[columns as u64, rows as u64, count as u64])?;
        let matrices: Vec<Matrix> = tensor
            .data
            .chunks_exact(tensor.data.len() / count)
            .map(|bytes| self.add(tensor, bytes, columns, rows))
            .collect::<Result<_, _>>()?;
        if let Some(&first) = matrices.first() {
            self.name(name, first, count);
        }
        Ok(Experts(matrices))
    }

    /// Two matrices for each of `count` experts, in one tensor: the first half of an expert's rows, and the second.
    pub(crate) fn expert_halves(
        &mut self,
        name: &str,
        columns: usize,
        rows: usize,
        count: usize,
    ) -> Result<(Experts, Experts), LoadError> {
        let tensor = self.take(name)?;
        check_shape(tensor, &[columns as u64, 2 * rows as u64, count as u64])?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let halves = tensor.data.chunks_exact(tensor.data.len() / (2 * count));
        for (index, bytes) in halves.enumerate() {
            let matrix = self.add(tensor, bytes, columns, rows)?;
            let half = if index % 2 == 0 {
                &mut first
            } else {
                &mut second
            };
            half.push(matrix);
        }
        if let Some(&matrix) = first.first() {
            self.name(name, matrix, 2 * count);
        }
        Ok((Experts(first), Experts(second)))
    }

    /// Leaves out a tensor that is not used, if the file has it.
    pub(crate) fn skip(&mut self, name: &str) {
        if let Some(index) = self.file.tensor_index(&self.full(name)) {
            self.taken[index] = true;
        }
    }

    /// Leaves out every tensor whose name has this part.
    pub(crate) fn skip_all(&mut self, part: &str) {
        for (tensor, taken) in self.file.tensors().iter().zip(&mut self.taken) {
            *taken |= tensor.name.contains(part);
        }
    }

    /// Leaves out every tensor whose name begins with one of these.
    pub(crate) fn skip_family(&mut self, prefixes: &[&str]) {
        for (tensor, taken) in self.file.tensors().iter().zip(&mut self.taken) {
            *taken |= prefixes
                .iter()
                .any(|prefix| tensor.name.starts_with(prefix));
        }
    }

    /// Leaves out the tensors of a tower's layers from a number on.
    pub(crate) fn skip_prefixed(&mut self, prefix: &str, from: usize) {
        for (tensor, taken) in self.file.tensors().iter().zip(&mut self.taken) {
            let number = tensor.name.strip_prefix(prefix);
            let number = number.and_then(|rest| rest.split_once('.')?.0.parse::<usize>().ok());
            *taken |= number.is_some_and(|number| number >= from);
        }
    }

    /// Leaves out the tensors of layers that are not computed.
    pub(crate) fn skip_layers(&mut self, layers: Range<usize>) {
        for (tensor, taken) in self.file.tensors().iter().zip(&mut self.taken) {
            let number = tensor.name.strip_prefix("blk.");
            let number = number.and_then(|rest| rest.split_once('.')?.0.parse().ok());
            *taken |= number.is_some_and(|number| layers.contains(&number));
        }
    }

    fn name(&mut self, name: &str, matrix: Matrix, matrices: usize) {
        self.names.push(NamedMatrices {
            name: self.full(name).into_owned(),
            matrix,
            matrices,
        });
    }

    fn add(
        &mut self,
        tensor: &Tensor<'_>,
        bytes: &'f [u8],
        columns: usize,
        rows: usize,
    ) -> Result<Matrix, LoadError> {
        use GgmlType as G;
        if matches!(tensor.ty, G::I8 | G::I16 | G::I32 | G::I64 | G::F64) {
            return Err(unfit(tensor));
        }
        let mut matrix = Matrix {
            ty: tensor.ty,
            columns,
            rows,
            id: ABSENT,
        };
        if self.present {
            matrix.id = self.sources.len();
            self.sources.push(Source { matrix, bytes });
        }
        Ok(matrix)
    }

    /// A number for the names and shapes of all matrices (FNV-1a).
    pub(crate) fn signature(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for &byte in bytes {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        for named in &self.names {
            add(named.name.as_bytes());
            for size in [named.matrix.columns, named.matrix.rows, named.matrices] {
                add(&(size as u64).to_le_bytes());
            }
        }
        hash
    }

    /// The tensors whose matrices are loaded.
    pub(crate) fn loaded(self) -> (Vec<NamedMatrices>, Vec<Source<'f>>) {
        let mut names = self.names;
        names.retain(|named| named.matrix.id != ABSENT);
        (names, self.sources)
    }

    /// Fails if the file has a tensor that nobody asked for.
    pub(crate) fn finish(&self) -> Result<(), LoadError> {
        match self.taken.iter().position(|&taken| !taken) {
            None => Ok(()),
            Some(index) => Err(LoadError::SurplusTensor {
                name: self.file.tensors()[index].name.to_string(),
                arch: self.arch,
            }),
        }
    }
}

fn unfit(tensor: &Tensor<'_>) -> LoadError {
    LoadError::TensorType {
        name: tensor.name.into(),
        ty: tensor.ty,
    }
}

/// Trailing ones are no difference.
fn check_shape(tensor: &Tensor<'_>, expected: &[u64]) -> Result<(), LoadError> {
    let significant = |dims: &[u64]| {
        let len = dims
            .iter()
            .rposition(|&d| d != 1)
            .map_or(0, |last| last + 1);
        dims[..len].to_vec()
    };
    if significant(&tensor.dims) == significant(expected) {
        return Ok(());
    }
    Err(LoadError::Shape {
        name: tensor.name.into(),
        found: tensor.dims.to_vec(),
        expected: expected.to_vec(),
    })
}

/// `blk.N.name.part`.
pub(crate) fn block_name(layer: usize, name: &str, part: &str) -> String {
    format!("blk.{layer}.{name}.{part}")
}
