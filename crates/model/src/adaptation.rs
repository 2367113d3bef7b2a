//! Adapters at work: what those of a batch's spans add to a matrix's products.

use crate::adapter::{ROWS, Rows, RowsMut};
use crate::batch::Span;
use crate::decoder::Pass;
use crate::layer::Projections;
use crate::matrix::Matrix;
use strata_platform::Chunks;

impl Pass<'_> {
    /// Whether an adapter in the batch changes one of these matrices.
    pub(crate) fn adapts(&self, projections: &Projections) -> bool {
        self.batch.iter().any(|span| {
            let linears = &projections.0;
            span.adapter
                .is_some_and(|a| linears.iter().any(|l| a.adapter.delta(&l.matrix).is_some()))
        })
    }

    /// Adds adapters' parts to the products of several matrices, side by side in `out`, with one input.
    pub(crate) fn adapt_all(&self, projections: &Projections, x: &[f32], out: &mut [f32]) {
        let stride = projections.columns();
        let mut offset = 0;
        for linear in &projections.0 {
            let out = RowsMut {
                floats: &mut *out,
                stride: projections.rows(),
                offset,
            };
            self.adapt(&linear.matrix, Rows { floats: x, stride }, out, every_token);
            offset += linear.matrix.rows;
        }
    }

    /// Adds adapters' parts to the products of one matrix, of which each span has `rows`.
    pub(crate) fn adapt(
        &self,
        matrix: &Matrix,
        x: Rows<'_>,
        out: RowsMut<'_>,
        rows: fn(&Span<'_>) -> usize,
    ) {
        let RowsMut {
            floats,
            stride,
            offset,
        } = out;
        let mut first = 0;
        for span in self.batch {
            let (start, count) = (first, rows(span));
            first += count;
            let Some(adapted) = span.adapter else {
                continue;
            };
            let Some(delta) = adapted.adapter.delta(matrix) else {
                continue;
            };
            let out = &mut floats[start * stride..][..count * stride];
            let pieces = Chunks::new(out, ROWS * stride);
            let work = count * delta.rank() * matrix.columns;
            self.compute.each_piece(work, pieces, |index, floats| {
                let x = Rows {
                    floats: &x.floats[(start + index * ROWS) * x.stride..],
                    ..x
                };
                let out = RowsMut {
                    floats,
                    stride,
                    offset,
                };
                delta.add(self.compute.kernels, adapted.scale, x, out);
            });
        }
    }
}

/// A row for each token of a span.
pub(crate) fn every_token(span: &Span<'_>) -> usize {
    span.tokens.len()
}
