//! Weight matrices in packed memory.

use alloc::vec::Vec;
use strata_kernels::{self as kernels, Panels};
use strata_quant::GgmlType;

/// A matrix: its type, its shape, and where its panels begin in packed memory.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) ty: GgmlType,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) offset: usize,
}

impl Matrix {
    /// How long its panels are.
    pub(crate) fn bytes(&self) -> usize {
        kernels::packed_bytes(self.ty, self.rows, self.columns)
    }

    /// How long one of its rows is in the file.
    pub(crate) fn row_bytes(&self) -> usize {
        self.columns / self.ty.block_len() * self.ty.block_bytes()
    }

    /// Its panels.
    pub(crate) fn panels<'a>(&self, packed: &'a [u8]) -> Panels<'a> {
        Panels::new(
            self.ty,
            self.rows,
            self.columns,
            &packed[self.offset..][..self.bytes()],
        )
    }
}

/// Matrices of one shape, one for each expert.
#[derive(Clone, Debug)]
pub(crate) struct Experts(pub(crate) Vec<Matrix>);

/// A matrix and the bias that is added to its product.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}
