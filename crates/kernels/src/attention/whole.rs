//! Attention over whole sequences: many queries of one head meet many keys.
//!
//! Queries and keys lie in panels of 16, column by column, so that 16 keys are the lanes; values lie in rows of whole lines
//! of 16. A score is one sum over the columns in order, a weighted value one sum over the keys in order, and a row's softmax
//! runs over blocks of [`WHOLE_KEYS`] keys, each joined to what the blocks before it gave.

use crate::lanes::{Dot, Lanes, Op};
use crate::math;
use crate::vector::{exp_sub, greatest};

/// Queries, and keys, in a panel.
pub const WHOLE_ROWS: usize = 16;

/// Keys between two looks at the maximum.
pub const WHOLE_KEYS: usize = 192;

/// A block of scores: one that begins within a panel has a panel more.
pub type WholeScores = [[f32; WHOLE_KEYS + WHOLE_ROWS]; WHOLE_ROWS];

/// A panel's column, or a line of a value.
pub(crate) type Line = [f32; 16];

/// How many registers sums can stay in.
enum Registers {
    /// Lanes are memory.
    None,
    /// 16.
    Few,
    /// 32.
    Many,
}

/// Those of a backend.
#[inline(always)]
fn registers<L: Lanes>() -> Registers {
    match (L::PARTS, L::TILE) {
        (_, ..2) | (1, ..8) => Registers::None,
        (2, _) => Registers::Few,
        _ => Registers::Many,
    }
}

/// scores[i][j] = q[i] · k[j].
pub(crate) struct PanelScores<'a> {
    /// A panel: by column, its queries.
    pub(crate) q: &'a [Line],
    /// Panels of keys, as many as fit the scores.
    pub(crate) k: &'a [Line],
    pub(crate) out: &'a mut WholeScores,
}

impl Op for PanelScores<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(mut self, l: L) {
        let panels = self.k.len() / self.q.len();
        let mut panel = 0;
        while panel < panels {
            panel += match (panels - panel, registers::<L>()) {
                (_, Registers::None) => self.panels::<L, 1, 1>(l, panel),
                (1 | 2, Registers::Few) => self.panels::<L, 4, 1>(l, panel),
                (_, Registers::Few) => self.panels::<L, 4, 3>(l, panel),
                (1 | 2, Registers::Many) => self.panels::<L, 8, 1>(l, panel),
                (_, Registers::Many) => self.panels::<L, 8, 3>(l, panel),
            };
        }
    }
}

impl PanelScores<'_> {
    /// P panels of keys from `first` on, T queries at a time, as many as the registers hold. Returns P.
    #[inline(always)]
    fn panels<L: Lanes, const T: usize, const P: usize>(&mut self, l: L, first: usize) -> usize {
        let dim = self.q.len();
        let mut k: [&[Line]; P] = [&[]; P];
        for p in 0..P {
            k[p] = &self.k[(first + p) * dim..][..dim];
        }
        for row in (0..WHOLE_ROWS).step_by(T) {
            for part in 0..L::PARTS {
                let mut acc = [[l.splat_f(0.0); P]; T];
                for d in 0..dim {
                    let mut keys = [l.splat_f(0.0); P];
                    for p in 0..P {
                        keys[p] = l.load_f(&k[p][d], part);
                    }
                    let q = &self.q[d][row..][..T];
                    for t in 0..T {
                        let q = l.splat_f(q[t]);
                        for p in 0..P {
                            acc[t][p] = l.fma(q, keys[p], acc[t][p]);
                        }
                    }
                }
                for t in 0..T {
                    let (lines, _) = self.out[row + t].as_chunks_mut::<16>();
                    for p in 0..P {
                        l.store_f(acc[t][p], &mut lines[first + p], part);
                    }
                }
            }
        }
        P
    }
}

/// The softmax of a panel of queries so far: for each the greatest score m, Σ e^(s − m), and Σ e^(s − m) · v.
pub struct WholeSums<'a> {
    /// The greatest scores; −∞ before there are any.
    pub maxima: &'a mut [f32; WHOLE_ROWS],
    /// Σ e^(s − m).
    pub sums: &'a mut [f32; WHOLE_ROWS],
    /// Σ e^(s − m) · v: rows of whole lines, one after the other.
    pub acc: &'a mut [[f32; 16]],
}

/// Turns `n` scores of each row, `from` on, into weights, and brings the sums so far to the new maxima.
pub(crate) struct PanelSoftmax<'a, 's> {
    pub(crate) scores: &'a mut WholeScores,
    pub(crate) from: usize,
    pub(crate) n: usize,
    pub(crate) total: &'a mut WholeSums<'s>,
}

impl Op for PanelSoftmax<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let Self {
            scores,
            from,
            n,
            total,
        } = self;
        let lines = total.acc.len() / WHOLE_ROWS;
        for row in 0..WHOLE_ROWS {
            let scores = &mut scores[row][from..][..n];
            let before = total.maxima[row];
            let now = greatest(l, scores);
            let maximum = if now > before { now } else { before };
            total.maxima[row] = maximum;
            let sum = exp_sub(l, scores, maximum);
            if before == f32::NEG_INFINITY {
                total.sums[row] = sum;
            } else if before == maximum {
                total.sums[row] += sum;
            } else {
                let mut shrink = [before - maximum; 16];
                for part in 0..L::PARTS {
                    let x = l.load_f(&shrink, part);
                    l.store_f(math::exp(l, x), &mut shrink, part);
                }
                let shrink = shrink[0];
                total.sums[row] = total.sums[row] * shrink + sum;
                for line in &mut total.acc[row * lines..][..lines] {
                    line.iter_mut().for_each(|x| *x *= shrink);
                }
            }
        }
    }
}

/// acc[i] += Σ weights[i][from + j] · v[j], in the order of j.
pub(crate) struct PanelValues<'a> {
    pub(crate) weights: &'a WholeScores,
    pub(crate) from: usize,
    /// Rows of whole lines.
    pub(crate) v: &'a [Line],
    /// As many rows as a panel has.
    pub(crate) acc: &'a mut [Line],
}

impl Op for PanelValues<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(mut self, l: L) {
        let lines = self.acc.len() / WHOLE_ROWS;
        let mut line = 0;
        while line < lines {
            line += match (lines - line, registers::<L>()) {
                (_, Registers::None) => self.lines::<L, 1, 1>(l, line),
                (1, Registers::Few) => self.lines::<L, 4, 1>(l, line),
                (2 | 4, Registers::Few) => self.lines::<L, 4, 2>(l, line),
                (_, Registers::Few) => self.lines::<L, 4, 3>(l, line),
                (1, Registers::Many) => self.lines::<L, 8, 1>(l, line),
                (2 | 4, Registers::Many) => self.lines::<L, 8, 2>(l, line),
                (_, Registers::Many) => self.lines::<L, 8, 3>(l, line),
            };
        }
    }
}

impl PanelValues<'_> {
    /// C lines of the values from `first` on, T rows at a time, as many as the registers hold. Returns C.
    #[inline(always)]
    fn lines<L: Lanes, const T: usize, const C: usize>(&mut self, l: L, first: usize) -> usize {
        let lines = self.acc.len() / WHOLE_ROWS;
        let n = self.v.len() / lines;
        for row in (0..WHOLE_ROWS).step_by(T) {
            let mut weights: [&[f32]; T] = [&[]; T];
            for t in 0..T {
                weights[t] = &self.weights[row + t][self.from..][..n];
            }
            for part in 0..L::PARTS {
                let mut acc = [[l.splat_f(0.0); C]; T];
                for t in 0..T {
                    for c in 0..C {
                        acc[t][c] = l.load_f(&self.acc[(row + t) * lines + first + c], part);
                    }
                }
                for (j, v) in self.v.chunks_exact(lines).enumerate() {
                    let v = &v[first..][..C];
                    let mut values = [l.splat_f(0.0); C];
                    for c in 0..C {
                        values[c] = l.load_f(&v[c], part);
                    }
                    for t in 0..T {
                        let weight = l.splat_f(weights[t][j]);
                        for c in 0..C {
                            acc[t][c] = l.fma(weight, values[c], acc[t][c]);
                        }
                    }
                }
                for t in 0..T {
                    for c in 0..C {
                        l.store_f(
                            acc[t][c],
                            &mut self.acc[(row + t) * lines + first + c],
                            part,
                        );
                    }
                }
            }
        }
        C
    }
}
