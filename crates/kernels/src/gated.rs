//! The first half of a feed-forward network in one go: two matmuls, the activation between them, and the result encoded
//! for the matrix that comes next, while all of it is in the cache.
#![allow(unsafe_code)]

use crate::job::{PanelRun, PanelWork, Product};
use crate::{ActRowsMut, Activation, Kernels, PANEL_ROWS};

/// hidden = f(gate(x)) · up(x), or f(gate(x)) where there is no `up`.
pub struct Gated<'a> {
    gate: Product<'a>,
    up: Option<Product<'a>>,
    /// Of gate and up.
    biases: [Option<&'a [f32]>; 2],
    activation: Activation,
    encoded: Option<ActRowsMut<'a>>,
}

impl<'a> Gated<'a> {
    /// The result goes where gate's products go.
    ///
    /// # Panics
    /// If the outputs' sizes differ.
    pub fn new(gate: Product<'a>, up: Option<Product<'a>>, activation: Activation) -> Self {
        for product in [Some(&gate), up.as_ref()].into_iter().flatten() {
            let rows = product.weights.rows();
            assert_eq!(rows, product.out.rows(), "the output's rows");
        }
        if let Some(up) = &up {
            assert_eq!(
                (up.out.rows(), up.out.tokens()),
                (gate.out.rows(), gate.out.tokens()),
                "gate and up are alike"
            );
        }
        Self {
            gate,
            up,
            biases: [None; 2],
            activation,
            encoded: None,
        }
    }

    /// What is added to the products of gate and of up.
    ///
    /// # Panics
    /// If a bias is not a float for each row.
    pub fn with_biases(self, biases: [Option<&'a [f32]>; 2]) -> Self {
        let rows = self.gate.out.rows();
        assert!(
            biases.iter().flatten().all(|bias| bias.len() == rows),
            "a bias for each row"
        );
        Self { biases, ..self }
    }

    /// Encodes the result as well.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn encoding(self, encoded: ActRowsMut<'a>) -> Self {
        assert_eq!(
            (encoded.cols(), encoded.tokens()),
            (self.gate.out.rows(), self.gate.out.tokens()),
            "room for the result"
        );
        Self {
            encoded: Some(encoded),
            ..self
        }
    }
}

// SAFETY: it writes only the rows of the panels that it is asked for, and the blocks that are made of them: runs are
// whole blocks.
unsafe impl PanelWork for Gated<'_> {
    fn panels(&self) -> usize {
        self.gate.panels()
    }

    fn granule(&self) -> usize {
        match &self.encoded {
            Some(encoded) => encoded.format().block_len().div_ceil(PANEL_ROWS),
            None => 1,
        }
    }

    fn weights_from(&self, panel: usize) -> &[u8] {
        self.gate.weights_from(panel)
    }

    unsafe fn compute(&self, kernels: &Kernels, run: PanelRun<'_>, scratch: &mut [u8]) {
        let start = run.panel * PANEL_ROWS;
        let rows = (run.count * PANEL_ROWS).min(self.gate.out.rows() - start);
        let up = self.up.as_ref().map(|up| up.weights_from(run.panel));
        let after_gate = (up.unwrap_or(run.next), &mut *scratch);
        // SAFETY: the caller says that nobody else has these rows, of any of the outputs; the job borrows them mutably.
        let mut gate = unsafe { self.gate.out.share_rows(start, rows) };
        self.gate
            .multiply(kernels, start, gate.reborrow(), after_gate);
        let mut up = self.up.as_ref().map(|up| {
            // SAFETY: likewise.
            let mut out = unsafe { up.out.share_rows(start, rows) };
            up.multiply(kernels, start, out.reborrow(), (run.next, scratch));
            out
        });
        let mut encoded = self.encoded.as_ref().map(|encoded| {
            // SAFETY: likewise; these blocks are of these rows.
            (encoded.format(), unsafe { encoded.share_cols(start, rows) })
        });
        for t in 0..gate.tokens() {
            let gate = gate.token_mut(t);
            if let Some(bias) = self.biases[0] {
                kernels.add(gate, &bias[start..][..rows]);
            }
            match &mut up {
                None => kernels.activate(self.activation, gate),
                Some(up) => {
                    let up = up.token_mut(t);
                    if let Some(bias) = self.biases[1] {
                        kernels.add(up, &bias[start..][..rows]);
                    }
                    kernels.activate_mul(self.activation, gate, up);
                }
            }
            if let Some((format, encoded)) = &mut encoded {
                kernels.quantize_blocks(*format, gate, encoded.token_mut(t));
            }
        }
    }
}
