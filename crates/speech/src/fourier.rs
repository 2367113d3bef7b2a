//! The power spectrum of 400 real samples, in f64: they are 200 complex numbers, which a Stockham transform of radices
//! 5, 5, 4 and 2 takes apart.

use core::f64::consts::PI;

/// Samples of a frame.
pub(crate) const SAMPLES: usize = 400;
/// Frequencies from 0 to half the sample rate.
pub(crate) const BINS: usize = SAMPLES / 2 + 1;

const HALF: usize = SAMPLES / 2;
const RADICES: [usize; 4] = [5, 5, 4, 2];

type Complex = (f64, f64);

fn add(a: Complex, b: Complex) -> Complex {
    (a.0 + b.0, a.1 + b.1)
}

fn mul(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// Tables, and room for one frame.
#[derive(Clone, Debug)]
pub(crate) struct Fourier {
    /// e^(−2πik/400).
    roots: Vec<Complex>,
    from: Vec<Complex>,
    into: Vec<Complex>,
}

impl Fourier {
    pub(crate) fn new() -> Self {
        let root = |k: usize| {
            let angle = -2.0 * PI * k as f64 / SAMPLES as f64;
            (libm::cos(angle), libm::sin(angle))
        };
        Self {
            roots: (0..SAMPLES).map(root).collect(),
            from: vec![(0.0, 0.0); HALF],
            into: vec![(0.0, 0.0); HALF],
        }
    }

    /// |X|² of a frame, frequency by frequency.
    pub(crate) fn power(&mut self, frame: &[f64; SAMPLES], out: &mut [f64; BINS]) {
        for (z, pair) in self.from.iter_mut().zip(frame.chunks_exact(2)) {
            *z = (pair[0], pair[1]);
        }
        self.transform();
        for (k, out) in out.iter_mut().enumerate() {
            let z = self.from[k % HALF];
            let mirrored = self.from[(HALF - k) % HALF];
            // The even samples' spectrum, and that of the odd ones.
            let even = ((z.0 + mirrored.0) / 2.0, (z.1 - mirrored.1) / 2.0);
            let odd = ((z.1 + mirrored.1) / 2.0, (mirrored.0 - z.0) / 2.0);
            let x = add(even, mul(self.roots[k], odd));
            *out = x.0 * x.0 + x.1 * x.1;
        }
    }

    /// The transform of `from`, in its place.
    fn transform(&mut self) {
        let (mut len, mut stride) = (HALF, 1);
        for radix in RADICES {
            let part = len / radix;
            // A root of `len` is so many of 400.
            let (step, small) = (SAMPLES / len, SAMPLES / radix);
            for p in 0..part {
                for q in 0..stride {
                    for u in 0..radix {
                        let mut sum = self.from[q + stride * p];
                        for t in 1..radix {
                            let x = self.from[q + stride * (p + part * t)];
                            sum = add(sum, mul(x, self.roots[t * u % radix * small]));
                        }
                        self.into[q + stride * (radix * p + u)] =
                            mul(sum, self.roots[p * u * step]);
                    }
                }
            }
            core::mem::swap(&mut self.from, &mut self.into);
            (len, stride) = (part, stride * radix);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_sum_that_defines_it() {
        let mut frame = [0.0; SAMPLES];
        let mut state = 1u32;
        for x in &mut frame {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *x = f64::from(state >> 8) / f64::from(1 << 23) - 1.0;
        }
        let mut power = [0.0; BINS];
        Fourier::new().power(&frame, &mut power);
        for (k, &found) in power.iter().enumerate() {
            let sum = (0..SAMPLES).fold((0.0, 0.0), |sum, n| {
                let angle = -2.0 * PI * (k * n % SAMPLES) as f64 / SAMPLES as f64;
                add(
                    sum,
                    (frame[n] * libm::cos(angle), frame[n] * libm::sin(angle)),
                )
            });
            let expected = sum.0 * sum.0 + sum.1 * sum.1;
            assert!((found - expected).abs() < 1e-9, "{k}: {found} {expected}");
        }
    }
}
