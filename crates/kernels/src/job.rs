//! Matmuls shared out among workers: each claims a run of panels at a time.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use strata_quant::GgmlType;

use crate::{ActRows, Kernels, PANEL_ROWS, Panels, TileMut, pack_panel, packed_bytes};

/// A matrix, packed already or as it is in the file.
#[derive(Copy, Clone)]
pub enum Weights<'a> {
    /// Packed.
    Packed(Panels<'a>),
    /// To be packed panel by panel while it is multiplied: the same bits, more slowly, in no memory of its own.
    Rows(Rows<'a>),
}

/// The rows of a matrix as they are in the file.
#[derive(Copy, Clone)]
pub struct Rows<'a> {
    ty: GgmlType,
    rows: usize,
    cols: usize,
    bytes: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Rows one after the other.
    ///
    /// # Panics
    /// If the length is another.
    pub fn new(ty: GgmlType, rows: usize, cols: usize, bytes: &'a [u8]) -> Self {
        let row = cols / ty.block_len() * ty.block_bytes();
        assert_eq!(
            bytes.len(),
            rows * row,
            "the length of {rows} × {cols} {ty}"
        );
        Self {
            ty,
            rows,
            cols,
            bytes,
        }
    }
}

impl Weights<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Packed(panels) => panels.rows(),
            Self::Rows(rows) => rows.rows,
        }
    }
}

/// One matmul: `out[t][r] = weights[r] · x[t]`.
pub struct Product<'a> {
    /// The matrix.
    pub weights: Weights<'a>,
    /// The activations, in the format of the matrix's type.
    pub x: ActRows<'a>,
    /// Where the results go.
    pub out: TileMut<'a>,
}

impl Product<'_> {
    fn panels(&self) -> usize {
        self.weights.rows().div_ceil(PANEL_ROWS)
    }
}

/// Matmuls that do not depend on each other, computed by all who call [`Job::work`].
pub struct Job<'a, 'b> {
    kernels: &'static Kernels,
    products: &'a [Product<'b>],
    /// How many runs each worker would have if they were equally fast.
    runs: usize,
    next: AtomicUsize,
}

/// Runs for each worker: enough to even out a slow one, few enough that each stays long.
const RUNS_PER_WORKER: usize = 8;

// SAFETY: workers only read the weights and activations, and write through tiles that no two of them have: a claim is
// unique, and different claims cover different rows or different products.
unsafe impl Sync for Job<'_, '_> {}

impl<'a, 'b> Job<'a, 'b> {
    /// Work for about `workers` workers.
    ///
    /// # Panics
    /// If a product's rows and its output's differ.
    pub fn new(kernels: &'static Kernels, products: &'a mut [Product<'b>], workers: usize) -> Self {
        for product in &*products {
            assert_eq!(
                product.weights.rows(),
                product.out.rows(),
                "the output's rows"
            );
        }
        Self {
            kernels,
            products,
            runs: workers.max(1) * RUNS_PER_WORKER,
            next: AtomicUsize::new(0),
        }
    }

    /// Computes runs of panels until none is left. `scratch` holds a panel of the largest matrix that comes as
    /// [`Weights::Rows`].
    pub fn work(&self, scratch: &mut [u8]) {
        let mut first = 0;
        let mut products = self.products.iter();
        let mut current = products.next();
        loop {
            let claim = self.next.fetch_add(1, Ordering::Relaxed);
            // Claims only grow, so the product that has this one is the current or a later one.
            loop {
                let Some(product) = current else { return };
                let run = product.panels().div_ceil(self.runs).max(1);
                let claims = product.panels().div_ceil(run);
                if claim - first < claims {
                    self.compute(product, (claim - first) * run, run, scratch);
                    break;
                }
                first += claims;
                current = products.next();
            }
        }
    }

    fn compute(&self, product: &Product<'b>, panel: usize, count: usize, scratch: &mut [u8]) {
        let start = panel * PANEL_ROWS;
        let rows = (count * PANEL_ROWS).min(product.weights.rows() - start);
        // SAFETY: the claim that led here is unique, so nobody else has these rows; the job borrows the products
        // mutably, so nobody outside has them.
        let mut out = unsafe { product.out.share_rows(start, rows) };
        match product.weights {
            Weights::Packed(panels) => {
                let (_, panels) = panels.split_rows(start);
                let panels = if rows == panels.rows() {
                    panels
                } else {
                    panels.split_rows(rows).0
                };
                self.kernels.matmul(panels, product.x, out);
            }
            Weights::Rows(matrix) => {
                let row = matrix.bytes.len() / matrix.rows;
                let bytes = &matrix.bytes[start * row..][..rows * row];
                for bytes in bytes.chunks(PANEL_ROWS * row) {
                    let rows = bytes.len() / row;
                    let panel = &mut scratch[..packed_bytes(matrix.ty, rows, matrix.cols)];
                    pack_panel(matrix.ty, matrix.cols, bytes, panel);
                    let panel = Panels::new(matrix.ty, rows, matrix.cols, panel);
                    let (now, later) = out.split_rows(rows);
                    self.kernels.matmul(panel, product.x, now);
                    out = later;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{act_format, panel_bytes};
    use std::vec;
    use std::vec::Vec;

    /// (rows, columns) of small integers, in f32, as in a file.
    fn rows_of(rows: usize, columns: usize) -> Vec<u8> {
        (0..rows * columns)
            .flat_map(|v| ((v * 7 % 23) as f32 - 11.0).to_le_bytes())
            .collect()
    }

    fn packed(rows: usize, columns: usize) -> Vec<u8> {
        let mut out = vec![0; packed_bytes(GgmlType::F32, rows, columns)];
        let panel = panel_bytes(GgmlType::F32, columns);
        let bytes = rows_of(rows, columns);
        for (bytes, out) in bytes
            .chunks(PANEL_ROWS * columns * 4)
            .zip(out.chunks_mut(panel))
        {
            pack_panel(GgmlType::F32, columns, bytes, out);
        }
        out
    }

    #[test]
    fn workers_together_compute_every_row_once() {
        let kernels = Kernels::detect();
        let (columns, tokens) = (24, 3);
        let format = act_format(GgmlType::F32);
        let x: Vec<f32> = (0..tokens * columns)
            .map(|i| (i % 5) as f32 - 2.0)
            .collect();
        let mut acts = vec![0; tokens * format.row_bytes(columns)];
        for (x, out) in x
            .chunks(columns)
            .zip(acts.chunks_mut(format.row_bytes(columns)))
        {
            kernels.quantize_act(format, x, out);
        }
        let x = ActRows::new(format, columns, &acts);
        let matrices =
            [33, 16, 500].map(|rows| (rows, packed(rows, columns), rows_of(rows, columns)));
        let run = |workers: usize, streamed: bool| {
            let scratch = if streamed {
                panel_bytes(GgmlType::F32, columns)
            } else {
                0
            };
            let mut outs = matrices
                .each_ref()
                .map(|(rows, ..)| vec![f32::NAN; tokens * rows]);
            let mut products: Vec<Product<'_>> = matrices
                .iter()
                .zip(&mut outs)
                .map(|((rows, packed, bytes), out)| Product {
                    weights: if streamed {
                        Weights::Rows(Rows::new(GgmlType::F32, *rows, columns, bytes))
                    } else {
                        Weights::Packed(Panels::new(GgmlType::F32, *rows, columns, packed))
                    },
                    x,
                    out: TileMut::from_slice(out, tokens, *rows),
                })
                .collect();
            let job = Job::new(kernels, &mut products, workers);
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| job.work(&mut vec![0; scratch]));
                }
            });
            drop(products);
            outs
        };
        let alone = run(1, false);
        assert!(alone.iter().flatten().all(|v| v.is_finite()));
        for workers in [2, 5] {
            assert_eq!(run(workers, false), alone);
            assert_eq!(run(workers, true), alone);
        }
    }
}
