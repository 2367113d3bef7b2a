//! Looking on while a model computes: what goes into each matrix.

use crate::adapter::Rows;
use crate::decoder::Pass;
use crate::layer::Projections;
use crate::matrix::Matrix;
use crate::model::Model;

/// Someone who is shown what goes into a model's matrices.
pub trait Observer: Sync {
    /// A row that the matrix of a number is about to multiply, or has just multiplied; of a batch, row after row.
    fn input(&self, matrix: usize, row: &[f32]);
}

/// A tensor of one or more matrices.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MatrixTensor<'m> {
    /// The tensor's name.
    pub name: &'m str,
    /// The number of its first matrix; the others follow.
    pub first: usize,
    /// How many there are: one, or as many as there are experts.
    pub count: usize,
    /// How long a row is.
    pub columns: usize,
}

impl Model {
    /// The tensors that matrices are in, with the numbers that an [`Observer`] is given.
    pub fn matrix_tensors(&self) -> impl Iterator<Item = MatrixTensor<'_>> {
        self.parts.names.iter().map(|named| MatrixTensor {
            name: &named.name,
            first: named.matrix.id,
            count: named.matrices,
            columns: named.matrix.columns,
        })
    }
}

impl Pass<'_> {
    /// Shows the rows that go into a matrix.
    #[inline]
    pub(crate) fn observe(&self, matrix: &Matrix, x: Rows<'_>, rows: usize) {
        let Some(observer) = self.observer else {
            return;
        };
        for row in x.floats.chunks(x.stride).take(rows) {
            observer.input(matrix.id, &row[..matrix.columns]);
        }
    }

    /// Shows the rows that go into several matrices.
    #[inline]
    pub(crate) fn observe_all(&self, projections: &Projections, x: &[f32]) {
        let stride = projections.columns();
        for linear in &projections.0 {
            self.observe(&linear.matrix, Rows { floats: x, stride }, self.tokens);
        }
    }
}
