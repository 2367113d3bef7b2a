//! Finds out what pays on this processor, by multiplying some of a model's own weights.
//!
//! It depends on the processor, the type of the weights and the number of workers, and is known only from trying. It never
//! shows in a result.

use crate::compute::Compute;
use crate::matrix::Matrix;
use crate::model::Model;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{ActRows, Prefetch, Product, TileMut, Weights, act_format};
use strata_platform::Clock;
use strata_quant::GgmlType;

/// Weights of a type that are multiplied with one token at least, so that no cache has them the next time, and at most.
const BYTES: (usize, usize) = (48 << 20, 96 << 20);

/// Times that each choice is tried, in turns.
const ROUNDS: usize = 5;

/// A choice must be so much quicker than the usual one, in percent.
const MARGIN: u64 = 2;

/// What was found for one type.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TypeTuning {
    /// The type.
    pub ty: GgmlType,
    /// How far ahead one token's weights are asked for, in bytes.
    pub distance: usize,
}

impl Model {
    /// The types of which the model has enough to measure with.
    pub fn measurable_types(&self) -> Vec<GgmlType> {
        let enough = |&ty: &GgmlType| {
            let bytes = self.packed_of(ty).map(|matrix| matrix.packed_bytes());
            bytes.sum::<usize>() >= BYTES.0
        };
        GgmlType::ALL.iter().copied().filter(enough).collect()
    }

    /// Tries the distances for weights of type `ty`, for some tens of milliseconds, and leaves the best one set.
    pub fn tune(&self, ty: GgmlType, compute: Compute<'_>, clock: &dyn Clock) -> TypeTuning {
        let prefetch = compute.kernels.prefetch();
        let matrices = self.sample(ty);
        let distance = quickest(Prefetch::DISTANCES, prefetch.distance(ty), |distance| {
            prefetch.set_distance(ty, distance);
            self.time(&matrices, compute, clock)
        });
        prefetch.set_distance(ty, distance);
        TypeTuning { ty, distance }
    }

    /// How long it takes to multiply one token with each of these.
    fn time(&self, matrices: &[Matrix], compute: Compute<'_>, clock: &dyn Clock) -> u64 {
        let longest = |size: fn(&Matrix) -> usize| matrices.iter().map(size).max().unwrap_or(0);
        let x = vec![0; longest(|matrix| act_format(matrix.ty).row_bytes(matrix.columns))];
        let mut out = vec![0.0; longest(|matrix| matrix.rows)];
        let start = clock.now_ns();
        for matrix in matrices {
            let format = act_format(matrix.ty);
            let product = Product {
                weights: self.weights(matrix),
                x: ActRows::new(
                    format,
                    matrix.columns,
                    &x[..format.row_bytes(matrix.columns)],
                ),
                out: TileMut::from_slice(&mut out[..matrix.rows], 1, matrix.rows),
            };
            compute.multiply(&mut [product], &mut []);
        }
        clock.now_ns() - start
    }

    /// The first matrices of a type, as many as are multiplied.
    fn sample(&self, ty: GgmlType) -> Vec<Matrix> {
        let mut bytes = 0;
        self.packed_of(ty)
            .take_while(|matrix| {
                let enough = bytes >= BYTES.1;
                bytes += matrix.packed_bytes();
                !enough
            })
            .collect()
    }

    /// The packed matrices of a type, the first of each tensor.
    fn packed_of(&self, ty: GgmlType) -> impl Iterator<Item = Matrix> {
        let all = self.tensors().iter().map(|tensor| tensor.matrix);
        all.filter(move |matrix| {
            matrix.ty == ty && matches!(self.weights(matrix), Weights::Packed(_))
        })
    }
}

/// The choice that takes the least time, or the usual one where none is clearly quicker.
fn quickest<const N: usize>(
    choices: [usize; N],
    usual: usize,
    mut time: impl FnMut(usize) -> u64,
) -> usize {
    let mut times = [u64::MAX; N];
    for _ in 0..ROUNDS {
        for (&choice, least) in choices.iter().zip(&mut times) {
            *least = (*least).min(time(choice));
        }
    }
    let all = || choices.iter().copied().zip(times);
    let of_usual = all().find(|&(choice, _)| choice == usual);
    let enough = of_usual.map_or(u64::MAX, |(_, time)| time / 100 * (100 - MARGIN));
    let best = all().min_by_key(|&(_, time)| time);
    match best {
        Some((choice, time)) if time < enough => choice,
        _ => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::quickest;

    #[test]
    fn a_choice_must_be_clearly_quicker() {
        let times = |times: [u64; 3]| move |choice: usize| times[choice] * 1000;
        assert_eq!(quickest([0, 1, 2], 1, times([100, 100, 100])), 1);
        assert_eq!(quickest([0, 1, 2], 1, times([99, 100, 101])), 1);
        assert_eq!(quickest([0, 1, 2], 1, times([90, 100, 80])), 2);
        assert_eq!(quickest([0, 1, 2], 7, times([90, 100, 80])), 2);
    }
}
