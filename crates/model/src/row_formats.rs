//! A row of weights, and what each block format would make of it.

use crate::model::Model;
use alloc::vec;
use alloc::vec::Vec;
use strata_quant::{GgmlType, dequantize, quantize};

/// The formats that rows are compared in, from the finest to the coarsest.
pub const ROW_FORMATS: [GgmlType; 8] = [
    GgmlType::Q8_0,
    GgmlType::Q6_K,
    GgmlType::Q5_K,
    GgmlType::Q4_K,
    GgmlType::Q4_0,
    GgmlType::Q3_K,
    GgmlType::Q2_K,
    GgmlType::TQ2_0,
];

/// A row written in a block format and read again.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFormat {
    /// The format.
    pub ty: GgmlType,
    /// Bits that it takes for a weight.
    pub bits: f32,
    /// The row as it is read again.
    pub values: Vec<f32>,
}

impl Model {
    /// The values of a row of the matrix of a number, and the type that they are stored in.
    pub fn row_values(&self, matrix: usize, row: usize) -> Option<(GgmlType, Vec<f32>)> {
        let (ty, bytes) = self.matrix_row(matrix, row)?;
        let mut values = vec![0.0; bytes.len() / ty.block_bytes() * ty.block_len()];
        dequantize(ty, &bytes, &mut values).ok()?;
        Some((ty, values))
    }
}

impl RowFormat {
    /// Writes a row in a format; `None` if its blocks do not fit the row.
    pub fn of(row: &[f32], ty: GgmlType) -> Option<Self> {
        let bytes = ty.row_bytes(row.len() as u64)?;
        let (mut bytes, mut values) = (vec![0; bytes as usize], vec![0.0; row.len()]);
        quantize(ty, row, None, &mut bytes).ok()?;
        dequantize(ty, &bytes, &mut values).ok()?;
        Some(Self {
            ty,
            bits: 8.0 * ty.block_bytes() as f32 / ty.block_len() as f32,
            values,
        })
    }

    /// The root of the mean square of what is wrong with its values.
    pub fn error(&self, row: &[f32]) -> f64 {
        let wrong = self.values.iter().zip(row);
        let squares: f64 = wrong
            .map(|(a, b)| f64::from(a - b) * f64::from(a - b))
            .sum();
        libm::sqrt(squares / row.len().max(1) as f64)
    }

    /// What a row of activations gives with it.
    pub fn product(values: &[f32], input: &[f32]) -> f64 {
        let pairs = values.iter().zip(input);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    }
}
