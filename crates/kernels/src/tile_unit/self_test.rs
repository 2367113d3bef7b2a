//! Whether a tile unit gives the reference's bits: asked before it is used for anything else.

use super::TYPES;
use crate::act::{ActRows, act_format};
use crate::panel::layout::packed_bytes;
use crate::panel::matmul::{Matmul, Panels};
use crate::policy::Choice;
use crate::tile::TileMut;
use crate::{Isa, Kernels, Tiles};

const ROWS: usize = 24;
const COLS: usize = 1280;
const TOKENS: usize = 33;

/// Bytes of the largest matrix, and of the largest row of activations.
const WEIGHTS: usize = 48 << 10;
const ACT: usize = 2 << 10;

impl Kernels {
    /// Whether products on `tiles` have the reference's bits, on random weights of every type: partial tiles of tokens,
    /// panels and stretches among them.
    pub(crate) fn tiles_agree(&self, tiles: Tiles) -> bool {
        let Some(reference) = Self::for_isa(Isa::Scalar) else {
            return false;
        };
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        // Multiples of 8, so that words are where types with words expect them.
        let mut weights = [0u64; WEIGHTS / 8];
        let mut acts = [0u64; TOKENS * ACT / 8];
        TYPES.iter().all(|&ty| {
            weights.fill_with(&mut next);
            let bytes: &[u8] = bytemuck::cast_slice(&weights);
            let w = Panels::new(ty, ROWS, COLS, &bytes[..packed_bytes(ty, ROWS, COLS)]);
            let format = act_format(ty);
            let row = format.row_bytes(COLS);
            let acts: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut acts)[..TOKENS * row];
            for out in acts.chunks_exact_mut(row) {
                let x: [f32; COLS] = core::array::from_fn(|_| next() as i32 as f32 / 1e9);
                reference.quantize_act(format, &x, out);
            }
            let x = ActRows::new(format, COLS, acts);
            let [mut expected, mut found] = [[0f32; TOKENS * ROWS]; 2];
            reference.matmul_by_vectors(Matmul::new(
                w,
                x,
                TileMut::from_slice(&mut expected, TOKENS, ROWS),
                Choice::default(),
            ));
            let out = TileMut::from_slice(&mut found, TOKENS, ROWS);
            self.matmul_by_tiles(tiles, Matmul::new(w, x, out, Choice::default()));
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            expected.iter().zip(&found).all(same)
        })
    }
}
