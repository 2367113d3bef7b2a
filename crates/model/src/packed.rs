//! The packed matrices of a model that stays in memory whole and reads its input at once: a tower, Whisper.

use crate::blueprint::pack;
use crate::compute::Compute;
use crate::error::LoadError;
use crate::matrix::{Linear, Matrix};
use crate::tensors::Source;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_kernels::{
    self as kernels, ActFormat, ActRows, Panels, Product, TileMut, Weights, act_format,
};
use strata_platform::{Memory, Pool, Region, Resident};

/// Matrices, and where each begins by its number.
pub(crate) struct PackedMatrices {
    bytes: Box<dyn Region>,
    places: Vec<usize>,
}

impl PackedMatrices {
    /// Takes memory for all of them, and packs them.
    pub(crate) fn new(
        sources: &[Source<'_>],
        memory: &dyn Memory,
        pool: &dyn Pool,
    ) -> Result<Self, LoadError> {
        let mut used = 0;
        let places = sources.iter().map(|source| {
            used += source.matrix.packed_bytes();
            used - source.matrix.packed_bytes()
        });
        let places: Vec<usize> = places.collect();
        let mut bytes = memory.region(used)?;
        for (source, &place) in sources.iter().zip(&places) {
            let out = &mut bytes[place..][..source.matrix.packed_bytes()];
            pack(source, None, out, &Resident(&[]), pool);
        }
        Ok(Self { bytes, places })
    }

    /// Bytes of all of them.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn panels(&self, matrix: &Matrix) -> Panels<'_> {
        let Matrix {
            ty, rows, columns, ..
        } = *matrix;
        let bytes = kernels::packed_bytes(ty, rows, columns);
        let bytes = &self.bytes[self.places[matrix.id]..][..bytes];
        Panels::new(ty, rows, columns, bytes)
    }

    /// A matrix over rows of `input`.
    pub(crate) fn multiply(
        &self,
        compute: &Compute<'_>,
        matrix: &Matrix,
        input: &[f32],
        out: TileMut<'_>,
    ) {
        let rows = input.len() / matrix.columns;
        self.product(compute, matrix, (input, matrix.columns, rows), out);
    }

    /// Several matrices over the same rows of `input`.
    pub(crate) fn multiply_each(
        &self,
        compute: &Compute<'_>,
        parts: Vec<(&Matrix, TileMut<'_>)>,
        input: &[f32],
    ) {
        let Some(&(first, _)) = parts.first() else {
            return;
        };
        let (columns, format) = (first.columns, act_format(first.ty));
        let alike = |matrix: &Matrix| matrix.columns == columns && act_format(matrix.ty) == format;
        if !parts.iter().all(|(matrix, _)| alike(matrix)) {
            for (matrix, out) in parts {
                self.multiply(compute, matrix, input, out);
            }
            return;
        }
        let mut encoded = Vec::new();
        let rows = (input, columns, input.len() / columns);
        let x = encode(compute, format, columns, rows, &mut encoded);
        let products = parts.into_iter().map(|(matrix, out)| Product {
            weights: Weights::Packed(self.panels(matrix)),
            x,
            out,
        });
        compute.multiply(&mut products.collect::<Vec<_>>(), &mut []);
    }

    /// A matrix over rows of `input`, `stride` apart, which may overlap.
    pub(crate) fn multiply_every(
        &self,
        compute: &Compute<'_>,
        matrix: &Matrix,
        input: &[f32],
        stride: usize,
        out: &mut [f32],
    ) {
        let rows = (input.len() - matrix.columns) / stride + 1;
        let tile = TileMut::from_slice(out, rows, matrix.rows);
        self.product(compute, matrix, (input, stride, rows), tile);
    }

    fn product(
        &self,
        compute: &Compute<'_>,
        matrix: &Matrix,
        rows: (&[f32], usize, usize),
        out: TileMut<'_>,
    ) {
        let mut encoded = Vec::new();
        let format = act_format(matrix.ty);
        let product = Product {
            weights: Weights::Packed(self.panels(matrix)),
            x: encode(compute, format, matrix.columns, rows, &mut encoded),
            out,
        };
        compute.multiply(&mut [product], &mut []);
    }

    /// A matrix and its bias, over rows of `input` that are `stride` apart.
    pub(crate) fn linear_every(
        &self,
        compute: &Compute<'_>,
        linear: &Linear,
        input: &[f32],
        stride: usize,
        out: &mut [f32],
    ) {
        self.multiply_every(compute, &linear.matrix, input, stride, out);
        self.add_bias(compute, linear, out);
    }

    /// A matrix and its bias, over rows of `input`.
    pub(crate) fn linear(
        &self,
        compute: &Compute<'_>,
        linear: &Linear,
        input: &[f32],
        out: &mut [f32],
    ) {
        let (matrix, rows) = (&linear.matrix, linear.matrix.rows);
        let tokens = input.len() / matrix.columns;
        let tile = TileMut::from_slice(out, tokens, rows);
        self.multiply(compute, matrix, input, tile);
        self.add_bias(compute, linear, out);
    }

    fn add_bias(&self, compute: &Compute<'_>, linear: &Linear, out: &mut [f32]) {
        if let Some(bias) = &linear.bias {
            let rows = linear.matrix.rows;
            compute.each_row(out, rows, |_, row| compute.kernels.add(row, bias));
        }
    }
}

/// Rows of `columns` floats, so many, `stride` apart, in the form that a matrix multiplies.
fn encode<'x>(
    compute: &Compute<'_>,
    format: ActFormat,
    columns: usize,
    (input, stride, rows): (&[f32], usize, usize),
    encoded: &'x mut Vec<u8>,
) -> ActRows<'x> {
    encoded.resize(rows * format.row_bytes(columns), 0);
    compute.encode(format, input, stride, columns, encoded);
    ActRows::new(format, columns, encoded)
}
