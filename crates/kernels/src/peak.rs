//! How many dot products of bytes a processor can do: the instructions alone, with nothing to wait for.

use core::hint::black_box;

use crate::lanes::{Dot, Op};

/// The most registers of weights, and of activations. All sums together must fit into the registers beside them.
const MOST: usize = 4;

/// Multiplies `rounds` times and gives the number of operations; a multiplication and an addition are two.
pub(crate) struct DotPeak {
    pub(crate) rounds: usize,
}

impl Op for DotPeak {
    type Out = u64;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> u64 {
        // 512-bit backends have 32 registers, the others 16 or so to spare.
        let weights = if L::PARTS == 1 { MOST } else { 2 };
        let lines = [[1u8; 64]; MOST];
        let x = black_box([0x0101_0101, 0x0001_0101, 0x0100_0101, 0x0101_0001]);
        let mut sums = [[l.zero(); MOST]; MOST];
        for _ in 0..self.rounds {
            // Weights that might have changed: otherwise a backend that multiplies and adds in two steps would multiply
            // only once.
            let lines = black_box(&lines);
            for i in 0..weights {
                let w = l.load(&lines[i], 0);
                for t in 0..MOST {
                    sums[i][t] = l.dot(sums[i][t], w, x[t]);
                }
            }
        }
        for sum in sums.as_flattened() {
            black_box(l.finish(*sum));
        }
        let lanes = 16 / L::PARTS;
        (self.rounds * weights * MOST * lanes * 4 * 2) as u64
    }
}
