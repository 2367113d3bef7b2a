//! Matmuls shared out among workers: each claims a run of panels at a time.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::{ActRows, Kernels, PANEL_ROWS, Panels, TileMut};

/// One matmul: `out[t][r] = weights[r] · x[t]`.
pub struct Product<'a> {
    /// The matrix.
    pub weights: Panels<'a>,
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

    /// Computes runs of panels until none is left.
    pub fn work(&self) {
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
                    self.compute(product, (claim - first) * run, run);
                    break;
                }
                first += claims;
                current = products.next();
            }
        }
    }

    fn compute(&self, product: &Product<'b>, panel: usize, count: usize) {
        let start = panel * PANEL_ROWS;
        let rows = (count * PANEL_ROWS).min(product.weights.rows() - start);
        let (_, weights) = product.weights.split_rows(start);
        let weights = if rows == weights.rows() {
            weights
        } else {
            weights.split_rows(rows).0
        };
        // SAFETY: the claim that led here is unique, so nobody else has these rows; the job borrows the products
        // mutably, so nobody outside has them.
        let out = unsafe { product.out.share_rows(start, rows) };
        self.kernels.matmul(weights, product.x, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{act_format, pack_panel, packed_bytes, panel_bytes};
    use std::vec;
    use std::vec::Vec;
    use strata_quant::GgmlType;

    /// (rows, columns) packed from small integers, in f32.
    fn packed(rows: usize, columns: usize) -> Vec<u8> {
        let mut out = vec![0; packed_bytes(GgmlType::F32, rows, columns)];
        let panel = panel_bytes(GgmlType::F32, columns);
        for (i, out) in out.chunks_mut(panel).enumerate() {
            let first = i * PANEL_ROWS;
            let values = first * columns..rows.min(first + PANEL_ROWS) * columns;
            let bytes: Vec<u8> = values
                .flat_map(|v| ((v * 7 % 23) as f32 - 11.0).to_le_bytes())
                .collect();
            pack_panel(GgmlType::F32, columns, &bytes, out);
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
        let matrices = [33, 16, 500].map(|rows| (rows, packed(rows, columns)));
        let run = |workers: usize| {
            let mut outs = matrices
                .each_ref()
                .map(|(rows, _)| vec![f32::NAN; tokens * rows]);
            let mut products: Vec<Product<'_>> = matrices
                .iter()
                .zip(&mut outs)
                .map(|((rows, bytes), out)| Product {
                    weights: Panels::new(GgmlType::F32, *rows, columns, bytes),
                    x,
                    out: TileMut::from_slice(out, tokens, *rows),
                })
                .collect();
            let job = Job::new(kernels, &mut products, workers);
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| job.work());
                }
            });
            drop(products);
            outs
        };
        let alone = run(1);
        assert!(alone.iter().flatten().all(|v| v.is_finite()));
        for workers in [2, 5] {
            assert_eq!(run(workers), alone);
        }
    }
}
