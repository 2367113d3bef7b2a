//! Finds out what pays on this processor, by multiplying some of a model's own weights.
//!
//! It depends on the processor, the type of the weights and the number of workers, and is known only from trying. It never
//! shows in a result.

use crate::compute::Compute;
use crate::matrix::Matrix;
use crate::model::Model;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{ActRows, Choice, Product, TileMut, Tiles, Weights, act_format};
use strata_platform::Clock;
use strata_quant::GgmlType;

/// Weights of a type that are multiplied with one token at least, so that no cache has them the next time, and at most.
const BYTES: (usize, usize) = (48 << 20, 96 << 20);

/// Weights of a type that are multiplied with several tokens, at most: enough to pass through the caches.
const BATCH_BYTES: usize = 8 << 20;

/// Tokens of such a batch.
const BATCH: usize = 32;

/// Times that each choice is tried, in turns.
const ROUNDS: usize = 5;

/// A choice must be so much quicker than the usual one, in percent.
const MARGIN: u64 = 2;

/// What was found for one type.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TypeTuning {
    /// The type.
    pub ty: GgmlType,
    /// What pays.
    pub choice: Choice,
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

    /// Tries what there is to choose for weights of type `ty`, for some tens of milliseconds, and leaves the best chosen.
    pub fn tune(&self, ty: GgmlType, compute: Compute<'_>, clock: &dyn Clock) -> TypeTuning {
        let policy = compute.kernels.policy();
        let mut choice = Choice {
            tiles_from: Choice::NEVER,
            ..policy.get(ty)
        };
        let matrices = self.sample(ty, BYTES.1);
        choice.distance = quickest(Choice::DISTANCES, choice.distance, |distance| {
            policy.set(ty, Choice { distance, ..choice });
            self.time(&matrices, 1, compute, clock)
        });
        let matrices = self.sample(ty, BATCH_BYTES);
        choice.pass = quickest(Choice::PASSES, choice.pass, |pass| {
            policy.set(ty, Choice { pass, ..choice });
            self.time(&matrices, BATCH, compute, clock)
        });
        choice.resident_kib = quickest(Choice::RESIDENTS_KIB, choice.resident_kib, |resident| {
            let resident_kib = resident;
            policy.set(
                ty,
                Choice {
                    resident_kib,
                    ..choice
                },
            );
            self.time(&matrices, BATCH, compute, clock)
        });
        if policy.tiles() == Tiles::Off {
            choice.tiles_from = Choice::default().tiles_from;
        } else {
            // The width from which on tiles are quicker at every width.
            for width in Choice::TILE_WIDTHS.into_iter().rev().skip(1) {
                let from = quickest([Choice::NEVER, width], Choice::NEVER, |tiles_from| {
                    policy.set(
                        ty,
                        Choice {
                            tiles_from,
                            ..choice
                        },
                    );
                    self.time(&matrices, width, compute, clock)
                });
                if from == Choice::NEVER {
                    break;
                }
                choice.tiles_from = width;
            }
        }
        policy.set(ty, choice);
        TypeTuning { ty, choice }
    }

    /// How long it takes to multiply `tokens` tokens with each of these.
    fn time(
        &self,
        matrices: &[Matrix],
        tokens: usize,
        compute: Compute<'_>,
        clock: &dyn Clock,
    ) -> u64 {
        let longest = |size: fn(&Matrix) -> usize| matrices.iter().map(size).max().unwrap_or(0);
        // Ordinary numbers: some processors are slower with them than with zeros.
        let row: Vec<f32> = (0..longest(|matrix| matrix.columns))
            .map(|i| (i % 31) as f32 - 15.0)
            .collect();
        let mut x = vec![0; tokens * longest(|it| act_format(it.ty).row_bytes(it.columns))];
        let mut out = vec![0.0; tokens * longest(|matrix| matrix.rows)];
        let mut time = 0;
        for matrix in matrices {
            let format = act_format(matrix.ty);
            let bytes = format.row_bytes(matrix.columns);
            let x = &mut x[..tokens * bytes];
            for x in x.chunks_exact_mut(bytes) {
                compute
                    .kernels
                    .quantize_act(format, &row[..matrix.columns], x);
            }
            let out = &mut out[..tokens * matrix.rows];
            let product = Product {
                weights: self.weights(matrix),
                x: ActRows::new(format, matrix.columns, x),
                out: TileMut::from_slice(out, tokens, matrix.rows),
            };
            let start = clock.now_ns();
            compute.multiply(&mut [product], &mut []);
            time += clock.now_ns() - start;
        }
        time
    }

    /// The first matrices of a type, `most` bytes or one more.
    fn sample(&self, ty: GgmlType, most: usize) -> Vec<Matrix> {
        let mut bytes = 0;
        self.packed_of(ty)
            .take_while(|matrix| {
                let enough = bytes >= most;
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
