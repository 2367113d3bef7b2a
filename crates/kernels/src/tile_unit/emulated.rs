//! A tile unit in plain Rust. Integers are exact in any order, so it gives what hardware gives.

use super::{COLUMNS, Square, TOKENS, TileUnit};
use crate::panel::{Line, PANEL_ROWS};

/// The unit's registers.
pub(crate) struct Emulated {
    x: [[[u8; COLUMNS]; TOKENS]; 2],
    w: [[Line; 8]; 2],
    squares: [[[i32; PANEL_ROWS]; TOKENS]; 4],
}

impl Emulated {
    pub(crate) const fn new() -> Self {
        Self {
            x: [[[0; COLUMNS]; TOKENS]; 2],
            w: [[[0; 64]; 8]; 2],
            squares: [[[0; PANEL_ROWS]; TOKENS]; 4],
        }
    }
}

impl TileUnit for Emulated {
    fn load_x(&mut self, i: usize, x: &[u8], stride: usize) {
        for (t, token) in self.x[i].iter_mut().enumerate() {
            token.copy_from_slice(&x[t * stride..][..COLUMNS]);
        }
    }

    fn load_w(&mut self, i: usize, w: &[Line; 8]) {
        self.w[i] = *w;
    }

    fn multiply(&mut self, q: usize) {
        let (x, w) = (&self.x[q / 2], &self.w[q % 2]);
        for (sums, x) in self.squares[q].iter_mut().zip(x) {
            *sums = [0; PANEL_ROWS];
            for (x, line) in x.as_chunks::<4>().0.iter().zip(w) {
                for (sum, w) in sums.iter_mut().zip(line.as_chunks::<4>().0) {
                    let product = |(&x, &w): (&u8, &u8)| i32::from(x as i8) * i32::from(w as i8);
                    *sum += x.iter().zip(w).map(product).sum::<i32>();
                }
            }
        }
    }

    fn store(&mut self, q: usize, out: &mut Square) {
        for (line, sums) in out.0.iter_mut().zip(&self.squares[q]) {
            *line = bytemuck::cast(*sums);
        }
    }
}
