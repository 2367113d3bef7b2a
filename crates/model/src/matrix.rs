//! Weight matrices, and where their bytes are.

use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels as kernels;
use strata_quant::GgmlType;

/// A matrix: its type, its shape, and its number among the model's.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) ty: GgmlType,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) id: usize,
}

impl Matrix {
    /// How long its panels are, packed.
    pub(crate) fn packed_bytes(&self) -> usize {
        kernels::packed_bytes(self.ty, self.rows, self.columns).next_multiple_of(64)
    }

    /// How long one of its rows is in the file.
    pub(crate) fn row_bytes(&self) -> usize {
        self.columns / self.ty.block_len() * self.ty.block_bytes()
    }
}

/// Where a matrix is when it is needed.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// In packed memory, from this byte on.
    Packed(usize),
    /// In the file: packed anew, panel by panel, each time.
    File {
        /// Of the [`Backing`](strata_platform::Backing).
        part: usize,
        range: Range<usize>,
    },
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
