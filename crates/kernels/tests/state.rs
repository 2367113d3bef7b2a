//! Linear recurrences: the same bits everywhere, and those of the formulas in their order.

use crate::support::{Random, others, scalar};
use strata_kernels::{Decay, Kernels, StateRule, StateStep};

/// The numbers of one step.
struct Numbers {
    keys: usize,
    values: usize,
    state: Vec<f32>,
    rates: Vec<f32>,
    /// By key, five of them.
    by_key: [Vec<f32>; 6],
    /// By value.
    by_value: [Vec<f32>; 2],
}

impl Numbers {
    fn new(random: &mut Random, keys: usize, values: usize) -> Self {
        Self {
            keys,
            values,
            state: random.floats(keys * values),
            rates: random
                .floats(keys * values)
                .iter()
                .map(|x| -x.abs())
                .collect(),
            by_key: core::array::from_fn(|_| random.floats(keys)),
            by_value: core::array::from_fn(|_| random.floats(values)),
        }
    }

    fn rules(&self) -> [StateRule<'_>; 4] {
        let [_, _, bonus, read, write, _] = &self.by_key;
        [
            StateRule::Add,
            StateRule::Delta(0.7),
            StateRule::Bonus(bonus),
            StateRule::Replace { read, write },
        ]
    }

    fn decays(&self) -> [Decay<'_>; 3] {
        let (rates, steps) = (&self.rates, &self.by_value[1]);
        let factors = &self.by_key[5];
        [
            Decay::All(0.9),
            Decay::Keys(factors),
            Decay::Rates { rates, steps },
        ]
    }

    /// The state and what is read, as bits.
    fn run(&self, kernels: &Kernels, decay: Decay<'_>, rule: StateRule<'_>) -> Vec<u32> {
        let mut state: Vec<u8> = self.state.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut out = vec![f32::NAN; self.values];
        kernels.state_step(StateStep {
            state: &mut state,
            decay,
            rule,
            key: &self.by_key[0],
            query: &self.by_key[1],
            value: &self.by_value[0],
            out: &mut out,
        });
        let state = state.as_chunks().0.iter().map(|x| u32::from_le_bytes(*x));
        state.chain(out.iter().map(|x| x.to_bits())).collect()
    }

    /// The same by the formulas, a value at a time.
    fn expected(&self, decay: Decay<'_>, rule: StateRule<'_>) -> Vec<u32> {
        let (keys, values) = (self.keys, self.values);
        let [key, query, ..] = &self.by_key;
        let (mut state, mut out) = (self.state.clone(), vec![0.0f32; values]);
        for v in 0..values {
            let left = |k: usize, x: f32| match decay {
                Decay::All(factor) => factor * x,
                Decay::Keys(factors) => factors[k] * x,
                Decay::Rates { rates, steps } => {
                    let mut rate = [rates[k * values + v] * steps[v]];
                    scalar().exp_sub(&mut rate, 0.0);
                    rate[0] * x
                }
            };
            let at = |k: usize| k * values + v;
            let mut value = self.by_value[0][v];
            let mut found = 0.0f32;
            for k in 0..keys {
                found = match rule {
                    StateRule::Delta(_) => key[k].mul_add(left(k, state[at(k)]), found),
                    StateRule::Replace { read, .. } => read[k].mul_add(state[at(k)], found),
                    _ => 0.0,
                };
            }
            if let StateRule::Delta(beta) = rule {
                value = beta * (value - found);
            }
            for k in 0..keys {
                let before = state[at(k)];
                let mut next = key[k].mul_add(value, left(k, before));
                if let StateRule::Replace { write, .. } = rule {
                    next = write[k].mul_add(found, next);
                }
                let seen = match rule {
                    StateRule::Bonus(bonus) => (bonus[k] * key[k]).mul_add(value, before),
                    _ => next,
                };
                out[v] = query[k].mul_add(seen, out[v]);
                state[at(k)] = next;
            }
        }
        state.iter().chain(&out).map(|x| x.to_bits()).collect()
    }
}

#[test]
fn a_step_follows_its_formula_on_every_instruction_set() {
    let mut random = Random::new(77);
    for (keys, values) in [(1, 1), (3, 16), (16, 8), (5, 33), (64, 64), (17, 100)] {
        let numbers = Numbers::new(&mut random, keys, values);
        for decay in numbers.decays() {
            for rule in numbers.rules() {
                let expected = numbers.expected(decay, rule);
                for kernels in others().into_iter().chain([scalar()]) {
                    let got = numbers.run(kernels, decay, rule);
                    assert!(
                        got == expected,
                        "{keys} × {values}, {decay:?}, {rule:?}, {}",
                        kernels.isa()
                    );
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "a number for each key and value")]
fn a_state_of_another_size_is_refused() {
    let numbers = Numbers::new(&mut Random::new(1), 4, 4);
    let rates = &numbers.by_key[0];
    numbers.run(
        scalar(),
        Decay::Rates {
            rates,
            steps: rates,
        },
        StateRule::Add,
    );
}
