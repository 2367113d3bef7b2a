//! Looking on while a model computes: what goes into each matrix, and what a head attends to.
//!
//! Without an observer nothing is computed for it, and with one no result changes: what it is shown is read from buffers
//! that the pass fills anyway, or computed beside them.

use crate::adapter::Rows;
use crate::decoder::Pass;
use crate::layer::Projections;
use crate::matrix::Matrix;
use crate::mixer::attention::paged::Attention;
use crate::model::Model;
use strata_quant::GgmlType;

/// Someone who is shown what happens inside a model.
pub trait Observer: Sync {
    /// A row that the matrix of a number is about to multiply, or has just multiplied; of a batch, row after row.
    fn input(&self, matrix: usize, row: &[f32]) {
        let _ = (matrix, row);
    }

    /// The query head of a layer whose attention it wants to see.
    fn watched_head(&self, layer: usize) -> Option<usize> {
        let _ = layer;
        None
    }

    /// What a token of the watched head attends to: the share of each visible position. Of a batch, token after token.
    fn attention(&self, shares: &AttentionShares<'_>) {
        let _ = shares;
    }
}

/// What one query head of one token attends to.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct AttentionShares<'a> {
    /// The layer.
    pub layer: usize,
    /// The token's position.
    pub position: usize,
    /// The first position that it sees: 0, or where its window begins.
    pub first: usize,
    /// The shares of that position and those after it, up to the token's own. They add up to 1, less what a sink takes.
    pub shares: &'a [f32],
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
    /// How many rows each matrix has.
    pub rows: usize,
    /// The type of its weights.
    pub ty: GgmlType,
}

impl Model {
    /// The tensors that matrices are in, with the numbers that an [`Observer`] is given.
    pub fn matrix_tensors(&self) -> impl Iterator<Item = MatrixTensor<'_>> {
        self.parts.names.iter().map(|named| MatrixTensor {
            name: &named.name,
            first: named.matrix.id,
            count: named.matrices,
            columns: named.matrix.columns,
            rows: named.matrix.rows,
            ty: named.matrix.ty,
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

    /// Shows what the watched head of a layer attends to.
    #[inline]
    pub(crate) fn observe_attention(&self, layer: usize, attention: &Attention<'_>) {
        let Some(observer) = self.observer else {
            return;
        };
        let head = observer.watched_head(layer);
        let Some(head) = head.filter(|&head| head < attention.config.heads) else {
            return;
        };
        for token in 0..self.tokens {
            let (first, shares) = attention.shares(token, head);
            observer.attention(&AttentionShares {
                layer,
                position: attention.positions[token].position as usize,
                first,
                shares: &shares,
            });
        }
    }
}
