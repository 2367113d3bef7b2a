//! Which kernel multiplies what is the backend's choice.

use crate::backend::{Address, Backend};
use crate::error::DeviceError;
use crate::weights::{ExpertMatrices, Matrix};
use strata_model::GgmlType;

/// Bytes of 256 quantized activations: the values, 8 scales, 8 scaled sums, 8 pairs of sums of halves.
pub const UNIT: usize = 352;

/// Bytes of a quantized row.
pub fn act_bytes(columns: usize) -> usize {
    columns.div_ceil(256) * UNIT
}

/// Rows that matrices read: as floats and quantized.
#[derive(Copy, Clone)]
pub struct Input {
    pub floats: Address,
    /// Floats from a row to the next.
    pub stride: usize,
    pub acts: Address,
    pub tokens: usize,
    /// So many tokens in a row read the same.
    pub shared_by: usize,
}

/// The kernels that multiply matrices, by type.
pub trait Multiplier: Send {
    /// Loads the kernels of a type; an error where there are none.
    fn load(&mut self, backend: &mut dyn Backend, ty: GgmlType) -> Result<(), DeviceError>;
    /// Matrices of one input, each with where its results go; `out_stride` floats from a row of them to the next.
    fn multiply(
        &self,
        backend: &dyn Backend,
        input: Input,
        matrices: &[(Matrix, Address)],
        out_stride: usize,
    ) -> Result<(), DeviceError>;
    /// Experts' matrices: `experts` says for each token which one.
    fn multiply_experts(
        &self,
        backend: &dyn Backend,
        input: Input,
        place: (&ExpertMatrices, Address),
        out_stride: usize,
        experts: Address,
    ) -> Result<(), DeviceError>;
}
