//! One token of a linear recurrence: a head's state of keys × values forgets, takes in the token, and is read.
//!
//! A value is a lane. All sums run over the keys in order, begin at 0 and add with a fused multiply-add each; what is left
//! of the state is `decay · state`, rounded, before anything is added to it.

use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};
use crate::math;
use crate::vector::padded;

/// How much of a state is left.
#[derive(Copy, Clone, Debug)]
pub enum Decay<'a> {
    /// One factor for all of it.
    All(f32),
    /// A factor for each key.
    Keys(&'a [f32]),
    /// e^(rate · step): a rate for each key and value, keys × values, and a step for each value.
    Rates {
        /// Rates.
        rates: &'a [f32],
        /// Steps.
        steps: &'a [f32],
    },
}

/// What a token does to a state S, which has a row for each key.
#[derive(Copy, Clone, Debug)]
pub enum StateRule<'a> {
    /// S ← decay · S + k vᵀ; reads Sᵀq. Mamba, lightning attention.
    Add,
    /// S ← decay · S, then S + k (β (v − Sᵀk))ᵀ; reads Sᵀq. The delta rule.
    Delta(f32),
    /// Reads (S + (bonus ⊙ k) vᵀ)ᵀq; then S ← decay · S + k vᵀ. RWKV 6.
    Bonus(&'a [f32]),
    /// S ← decay · S + k vᵀ + write (Sᵀread)ᵀ; reads Sᵀq. RWKV 7.
    Replace {
        /// What is looked for.
        read: &'a [f32],
        /// Where it is added.
        write: &'a [f32],
    },
}

/// One token and one head.
#[derive(Debug)]
pub struct StateStep<'a> {
    /// Keys × values, as little-endian f32.
    pub state: &'a mut [u8],
    /// What is left of it.
    pub decay: Decay<'a>,
    /// What the token does to it.
    pub rule: StateRule<'a>,
    /// By key.
    pub key: &'a [f32],
    /// By key.
    pub query: &'a [f32],
    /// By value.
    pub value: &'a [f32],
    /// What is read, by value.
    pub out: &'a mut [f32],
}

impl StateStep<'_> {
    pub(crate) fn fits(&self) -> bool {
        let (keys, values) = (self.key.len(), self.value.len());
        let decay = match self.decay {
            Decay::All(_) => true,
            Decay::Keys(factors) => factors.len() == keys,
            Decay::Rates { rates, steps } => rates.len() == keys * values && steps.len() == values,
        };
        let rule = match self.rule {
            StateRule::Add | StateRule::Delta(_) => true,
            StateRule::Bonus(bonus) => bonus.len() == keys,
            StateRule::Replace { read, write } => read.len() == keys && write.len() == keys,
        };
        let sizes = self.query.len() == keys && self.out.len() == values;
        decay && rule && sizes && self.state.len() == keys * values * size_of::<f32>()
    }
}

/// Sixteen lanes, a register or more.
type Line<L> = [<L as Lanes>::F; MAX_PARTS];

/// Up to 16 values: where they begin, how many there are.
#[derive(Copy, Clone)]
struct Columns {
    start: usize,
    count: usize,
}

impl Columns {
    /// Those of a slice by value.
    #[inline(always)]
    fn load<L: Dot, const WHOLE: bool>(self, l: L, x: &[f32]) -> Line<L> {
        let floats: [f32; 16] = if WHOLE {
            x[self.start..][..16].try_into().expect("16 floats")
        } else {
            padded(&x[self.start..][..self.count], 0.0)
        };
        let mut line = [l.splat_f(0.0); MAX_PARTS];
        for part in 0..L::PARTS {
            line[part] = l.load_f(&floats, part);
        }
        line
    }
}

impl StateStep<'_> {
    /// A key's row of the state.
    #[inline(always)]
    fn row<L: Dot, const WHOLE: bool>(&self, l: L, key: usize, columns: Columns) -> Line<L> {
        let at = (key * self.value.len() + columns.start) * size_of::<f32>();
        let mut line = [l.splat_f(0.0); MAX_PARTS];
        let bytes: [u8; 64] = if WHOLE {
            self.state[at..][..64].try_into().expect("64 bytes")
        } else {
            let mut bytes = [0; 64];
            let size = columns.count * size_of::<f32>();
            bytes[..size].copy_from_slice(&self.state[at..][..size]);
            bytes
        };
        for part in 0..L::PARTS {
            line[part] = l.of_bits(l.load(&bytes, part));
        }
        line
    }

    /// Puts a key's row back.
    #[inline(always)]
    fn put<L: Dot, const WHOLE: bool>(
        &mut self,
        l: L,
        key: usize,
        columns: Columns,
        line: &Line<L>,
    ) {
        let at = (key * self.value.len() + columns.start) * size_of::<f32>();
        let mut floats = [0.0; 16];
        for part in 0..L::PARTS {
            l.store_f(line[part], &mut floats, part);
        }
        let count = if WHOLE { 16 } else { columns.count };
        let bytes = self.state[at..][..count * size_of::<f32>()]
            .as_chunks_mut()
            .0;
        for (bytes, x) in bytes.iter_mut().zip(floats) {
            *bytes = x.to_le_bytes();
        }
    }

    /// decay · state.
    #[inline(always)]
    fn left<L: Dot, const WHOLE: bool>(
        &self,
        l: L,
        key: usize,
        columns: Columns,
        row: &Line<L>,
    ) -> Line<L> {
        let mut left = *row;
        match self.decay {
            Decay::All(factor) => {
                for part in 0..L::PARTS {
                    left[part] = l.mul_f(l.splat_f(factor), row[part]);
                }
            }
            Decay::Keys(factors) => {
                for part in 0..L::PARTS {
                    left[part] = l.mul_f(l.splat_f(factors[key]), row[part]);
                }
            }
            Decay::Rates { rates, steps } => {
                let rates = &rates[key * steps.len()..][..steps.len()];
                let rates = columns.load::<L, WHOLE>(l, rates);
                let steps = columns.load::<L, WHOLE>(l, steps);
                for part in 0..L::PARTS {
                    let factor = math::exp(l, l.mul_f(rates[part], steps[part]));
                    left[part] = l.mul_f(factor, row[part]);
                }
            }
        }
        left
    }

    /// Up to 16 · N values, all keys.
    #[inline(always)]
    fn columns<L: Dot, const WHOLE: bool, const N: usize>(&mut self, l: L, columns: [Columns; N]) {
        let keys = self.key.len();
        let zero = [[l.splat_f(0.0); MAX_PARTS]; N];
        let (mut value, mut found, mut out) = (zero, zero, zero);
        for n in 0..N {
            value[n] = columns[n].load::<L, WHOLE>(l, self.value);
        }
        match self.rule {
            StateRule::Add | StateRule::Bonus(_) => {}
            StateRule::Delta(beta) => {
                for key in 0..keys {
                    let k = l.splat_f(self.key[key]);
                    for n in 0..N {
                        let row = self.row::<L, WHOLE>(l, key, columns[n]);
                        let row = self.left::<L, WHOLE>(l, key, columns[n], &row);
                        for part in 0..L::PARTS {
                            found[n][part] = l.fma(k, row[part], found[n][part]);
                        }
                    }
                }
                for n in 0..N {
                    for part in 0..L::PARTS {
                        let change = l.sub_f(value[n][part], found[n][part]);
                        value[n][part] = l.mul_f(l.splat_f(beta), change);
                    }
                }
            }
            StateRule::Replace { read, .. } => {
                for key in 0..keys {
                    let read = l.splat_f(read[key]);
                    for n in 0..N {
                        let row = self.row::<L, WHOLE>(l, key, columns[n]);
                        for part in 0..L::PARTS {
                            found[n][part] = l.fma(read, row[part], found[n][part]);
                        }
                    }
                }
            }
        }
        for key in 0..keys {
            let (k, q) = (l.splat_f(self.key[key]), l.splat_f(self.query[key]));
            for n in 0..N {
                let row = self.row::<L, WHOLE>(l, key, columns[n]);
                let mut next = self.left::<L, WHOLE>(l, key, columns[n], &row);
                for part in 0..L::PARTS {
                    next[part] = l.fma(k, value[n][part], next[part]);
                    if let StateRule::Replace { write, .. } = self.rule {
                        next[part] = l.fma(l.splat_f(write[key]), found[n][part], next[part]);
                    }
                    let seen = match self.rule {
                        StateRule::Bonus(bonus) => {
                            let own = l.splat_f(bonus[key] * self.key[key]);
                            l.fma(own, value[n][part], row[part])
                        }
                        _ => next[part],
                    };
                    out[n][part] = l.fma(q, seen, out[n][part]);
                }
                self.put::<L, WHOLE>(l, key, columns[n], &next);
            }
        }
        for n in 0..N {
            let mut floats = [0.0; 16];
            for part in 0..L::PARTS {
                l.store_f(out[n][part], &mut floats, part);
            }
            let Columns { start, count } = columns[n];
            self.out[start..][..count].copy_from_slice(&floats[..count]);
        }
    }

    /// Whole lines of values from `start` on, N at a time; returns where they end.
    #[inline(always)]
    fn lines<L: Dot, const N: usize>(&mut self, l: L, mut start: usize) -> usize {
        while self.value.len() - start >= 16 * N {
            let columns = core::array::from_fn(|n| Columns {
                start: start + 16 * n,
                count: 16,
            });
            self.columns::<L, true, N>(l, columns);
            start += 16 * N;
        }
        start
    }
}

impl Op for StateStep<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(mut self, l: L) {
        // As many lines as registers hold: so memory is read in its order, and sums do not wait for each other.
        let start = match L::PARTS {
            1 => self.lines::<L, 4>(l, 0),
            2 => self.lines::<L, 2>(l, 0),
            _ => 0,
        };
        let start = self.lines::<L, 1>(l, start);
        let count = self.value.len() - start;
        if count > 0 {
            self.columns::<L, false, 1>(l, [Columns { start, count }]);
        }
    }
}
