//! How many dot products of bytes, and products of floats, a processor can do: the instructions alone, with nothing to wait
//! for.

use core::hint::black_box;

use crate::lanes::{Dot, MAX_PARTS, Op};

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

/// Multiplies and adds floats `rounds` times and gives the number of operations.
pub(crate) struct FloatPeak {
    pub(crate) rounds: usize,
}

/// Sums that do not wait for each other.
const FLOAT_SUMS: usize = 10;

impl Op for FloatPeak {
    type Out = u64;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> u64 {
        let lines = [[1.0f32; 16]; 2];
        let mut sums = [l.splat_f(0.0); FLOAT_SUMS];
        let lines = black_box(&lines);
        let (a, b) = (l.load_f(&lines[0], 0), l.load_f(&lines[1], 0));
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = l.fma(a, b, *sum);
            }
        }
        for sum in sums {
            let mut lanes = [l.splat_f(0.0); MAX_PARTS];
            lanes[0] = sum;
            black_box(l.sum(&lanes));
        }
        (self.rounds * FLOAT_SUMS * 16 / L::PARTS * 2) as u64
    }
}
