//! Attention over whole sequences: the contract written out, and the same bits everywhere.

use crate::support::{Random, assert_same, others, scalar};
use strata_kernels::{Kernels, WHOLE_KEYS, WHOLE_ROWS, WholeScores, WholeSums};

type Line = [f32; 16];

/// Rows as panels, column by column.
fn panels(rows: &[f32], dim: usize) -> Vec<Line> {
    let count = rows.len() / dim;
    let mut out = vec![[0.0; 16]; count.div_ceil(16) * dim];
    for (index, row) in rows.chunks_exact(dim).enumerate() {
        for (column, &x) in row.iter().enumerate() {
            out[index / 16 * dim + column][index % 16] = x;
        }
    }
    out
}

/// Everything about one panel of queries.
struct Case {
    dim: usize,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    /// Where the sequence begins within the first panel of keys.
    from: usize,
}

impl Case {
    fn new(random: &mut Random, dim: usize, keys: usize, from: usize) -> Self {
        Self {
            dim,
            queries: random.floats(WHOLE_ROWS * dim),
            keys: random.floats((from + keys) * dim),
            values: random.floats((from + keys) * dim),
            from,
        }
    }

    fn lines(&self) -> usize {
        self.dim.div_ceil(16)
    }

    /// Maxima, sums and weighted values as the kernels give them, block by block.
    fn run(&self, kernels: &Kernels) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let (dim, lines) = (self.dim, self.lines());
        let (queries, keys) = (panels(&self.queries, dim), panels(&self.keys, dim));
        let mut values = vec![[0.0; 16]; self.values.len() / dim * lines];
        for (row, line) in self.values.chunks_exact(dim).zip(values.chunks_mut(lines)) {
            line.as_flattened_mut()[..dim].copy_from_slice(row);
        }
        let mut scores: WholeScores = [[f32::NAN; WHOLE_KEYS + WHOLE_ROWS]; WHOLE_ROWS];
        let (mut maxima, mut sums) = ([f32::NEG_INFINITY; 16], [0.0; 16]);
        let mut acc = vec![[0.0; 16]; WHOLE_ROWS * lines];
        let end = self.keys.len() / dim;
        for block in (self.from..end).step_by(WHOLE_KEYS) {
            let n = WHOLE_KEYS.min(end - block);
            let (panel, from) = (block / 16, block % 16);
            let count = (from + n).div_ceil(16);
            kernels.whole_scores(&queries, &keys[panel * dim..][..count * dim], &mut scores);
            let mut total = WholeSums {
                maxima: &mut maxima,
                sums: &mut sums,
                acc: &mut acc,
            };
            kernels.whole_softmax(&mut scores, from, n, &mut total);
            let values = &values[block * lines..][..n * lines];
            kernels.whole_accumulate(&scores, from, values, &mut acc);
        }
        (maxima.to_vec(), sums.to_vec(), acc.as_flattened().to_vec())
    }

    /// The same written out, with the exponentials of the reference.
    fn expected(&self) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
        let (dim, wide) = (self.dim, 16 * self.lines());
        let (mut maxima, mut sums) = (vec![f32::NEG_INFINITY; 16], vec![0.0f32; 16]);
        let mut acc = vec![0.0f32; 16 * wide];
        let end = self.keys.len() / dim;
        for row in 0..WHOLE_ROWS {
            let query = &self.queries[row * dim..][..dim];
            let acc = &mut acc[row * wide..][..wide];
            for block in (self.from..end).step_by(WHOLE_KEYS) {
                let keys = block..end.min(block + WHOLE_KEYS);
                let score = |key: usize| {
                    let key = &self.keys[key * dim..][..dim];
                    let pairs = query.iter().zip(key);
                    pairs.fold(0.0f32, |sum, (q, k)| q.mul_add(*k, sum))
                };
                let mut weights: Vec<f32> = keys.clone().map(score).collect();
                let before = maxima[row];
                let greatest = weights.iter().copied().fold(before, f32::max);
                maxima[row] = greatest;
                let sum = scalar().exp_sub(&mut weights, greatest);
                if before == f32::NEG_INFINITY {
                    sums[row] = sum;
                } else if before == greatest {
                    sums[row] += sum;
                } else {
                    let shrink = scalar().exp_sub(&mut [before - greatest], 0.0);
                    sums[row] = sums[row] * shrink + sum;
                    acc.iter_mut().for_each(|x| *x *= shrink);
                }
                for (key, weight) in keys.zip(weights) {
                    for (acc, value) in acc.iter_mut().zip(&self.values[key * dim..][..dim]) {
                        *acc = weight.mul_add(*value, *acc);
                    }
                }
            }
        }
        (maxima, sums, acc)
    }
}

#[test]
fn every_isa_gives_the_bits_of_the_contract() {
    let mut random = Random::new(70);
    for dim in [4, 16, 20, 64, 72, 80, 100, 128] {
        for (keys, from) in [(1, 0), (16, 0), (47, 5), (192, 0), (193, 15), (450, 3)] {
            let case = Case::new(&mut random, dim, keys, from);
            let expected = case.expected();
            for kernels in others().into_iter().chain([scalar()]) {
                let what = format!("{keys} keys of {dim} from {from}, {}", kernels.isa());
                let found = case.run(kernels);
                assert_same(&found.0, &expected.0, &format!("maxima, {what}"));
                assert_same(&found.1, &expected.1, &format!("sums, {what}"));
                assert_same(&found.2, &expected.2, &format!("values, {what}"));
            }
        }
    }
}

#[test]
fn a_hidden_key_has_no_weight() {
    let (dim, lines) = (16, 1);
    let mut random = Random::new(71);
    let values: Vec<Line> = (0..32)
        .map(|_| random.floats(16).try_into().expect("sixteen"))
        .collect();
    for kernels in others().into_iter().chain([scalar()]) {
        let mut scores: WholeScores = [[0.0; WHOLE_KEYS + WHOLE_ROWS]; WHOLE_ROWS];
        for row in &mut scores {
            row[1..32].fill(-1e30);
        }
        let (mut maxima, mut sums) = ([f32::NEG_INFINITY; 16], [0.0; 16]);
        let mut acc = vec![[0.0; 16]; WHOLE_ROWS * lines];
        let mut total = WholeSums {
            maxima: &mut maxima,
            sums: &mut sums,
            acc: &mut acc,
        };
        kernels.whole_softmax(&mut scores, 0, 32, &mut total);
        kernels.whole_accumulate(&scores, 0, &values, &mut acc);
        assert_eq!(sums, [1.0; 16], "{dim}, {}", kernels.isa());
        assert!(acc.iter().all(|acc| *acc == values[0]), "{}", kernels.isa());
    }
}
