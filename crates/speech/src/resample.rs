//! Any sample rate to [`RATE`]: a low-pass filter (a sinc under a Kaiser window) read at the phases that the two rates
//! have in common. Sums run over the filter's taps in order, in four lanes of f64.

use crate::RATE;

/// Sums that run beside each other.
const LANES: usize = 4;
/// Zeros of the sinc on each side of its middle.
const ZEROS: f64 = 48.0;
/// Where the filter begins to cut, as a share of the lower of the two rates' highest frequencies.
const PASS: f64 = 0.945;
/// Taps of all phases together. The rates that recorders have need far fewer.
const MOST_TAPS: usize = 1 << 18;
/// The window's shape: 90 dB between what is kept and what is left out.
const BETA: f64 = 9.0;

/// Makes samples at 16 kHz of samples at another rate, piece by piece.
#[derive(Clone, Debug)]
pub struct Resampler {
    /// Both rates without their common factor: `up` samples come out where `down` go in.
    up: u64,
    down: u64,
    /// Samples on each side of a place that its value depends on.
    reach: usize,
    /// (up, 2 · reach): the taps of each phase. Empty where the rates are equal.
    taps: Vec<f32>,
    /// Samples that are still needed, the first being the one `first` of the input.
    waiting: Vec<f32>,
    first: i64,
    /// Samples that came in and went out.
    taken: u64,
    given: u64,
}

impl Resampler {
    /// For samples of this rate, if it is between 4 and 192 kHz and not prime to 16 kHz.
    pub fn new(rate: u32) -> Option<Self> {
        if !(4_000..=192_000).contains(&rate) {
            return None;
        }
        let common = gcd(u64::from(rate), RATE as u64);
        let (up, down) = (RATE as u64 / common, u64::from(rate) / common);
        if up == down {
            return Some(Self::with(up, down, 0, Vec::new()));
        }
        // In cycles per input sample.
        let cutoff = PASS * (up as f64 / down as f64).min(1.0);
        let reach = (libm::ceil(ZEROS / cutoff) as usize).next_multiple_of(LANES / 2);
        if up as usize * 2 * reach > MOST_TAPS {
            return None;
        }
        let width = ZEROS / cutoff;
        let bottom = bessel(BETA);
        let tap = |phase: u64, index: usize| {
            let place = phase as f64 / up as f64;
            let distance = index as f64 - (reach - 1) as f64 - place;
            let share = distance / width;
            if share.abs() >= 1.0 {
                return 0.0;
            }
            let angle = core::f64::consts::PI * cutoff * distance;
            let sinc = if angle == 0.0 {
                1.0
            } else {
                libm::sin(angle) / angle
            };
            let window = bessel(BETA * libm::sqrt(1.0 - share * share)) / bottom;
            cutoff * sinc * window
        };
        let mut taps = Vec::with_capacity(up as usize * 2 * reach);
        for phase in 0..up {
            let row: Vec<f64> = (0..2 * reach).map(|index| tap(phase, index)).collect();
            // A constant stays what it is.
            let sum: f64 = row.iter().sum();
            taps.extend(row.iter().map(|tap| (tap / sum) as f32));
        }
        Some(Self::with(up, down, reach, taps))
    }

    fn with(up: u64, down: u64, reach: usize, taps: Vec<f32>) -> Self {
        Self {
            up,
            down,
            reach,
            taps,
            // Silence before the beginning.
            waiting: vec![0.0; reach.saturating_sub(1)],
            first: 1 - reach.max(1) as i64,
            taken: 0,
            given: 0,
        }
    }

    /// Takes samples, and adds to `out` what can be told of them already.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.taken += samples.len() as u64;
        if self.taps.is_empty() {
            out.extend_from_slice(samples);
            return;
        }
        self.waiting.extend_from_slice(samples);
        self.drain(u64::MAX, out);
    }

    /// Adds what is left, with silence after the end.
    pub fn finish(mut self, out: &mut Vec<f32>) {
        if self.taps.is_empty() {
            return;
        }
        let end = (self.taken * self.up).div_ceil(self.down);
        self.waiting.extend(vec![0.0; 2 * self.reach]);
        self.drain(end, out);
    }

    fn drain(&mut self, end: u64, out: &mut Vec<f32>) {
        let span = 2 * self.reach;
        while self.given < end {
            let place = self.given * self.down;
            let (middle, phase) = (place / self.up, place % self.up);
            // The first sample that this one depends on.
            let start = middle as i64 - (self.reach as i64 - 1) - self.first;
            let start = start as usize;
            let Some(samples) = self.waiting.get(start..start + span) else {
                break;
            };
            let taps = &self.taps[phase as usize * span..][..span];
            let mut sums = [0.0; LANES];
            for (samples, taps) in samples.chunks_exact(LANES).zip(taps.chunks_exact(LANES)) {
                for ((sum, &x), &tap) in sums.iter_mut().zip(samples).zip(taps) {
                    *sum += f64::from(x) * f64::from(tap);
                }
            }
            out.push(((sums[0] + sums[2]) + (sums[1] + sums[3])) as f32);
            self.given += 1;
        }
        // Where the next sample's first is; nothing before it is needed again.
        let next = (self.given * self.down / self.up) as i64 - (self.reach as i64 - 1);
        let passed = (next - self.first).clamp(0, self.waiting.len() as i64) as usize;
        // Moving what is left is worth it when it is little.
        if passed >= 4096.max(self.waiting.len() / 2) {
            self.waiting.drain(..passed);
            self.first += passed as i64;
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The modified Bessel function of order 0, by its series.
fn bessel(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..64 {
        term *= quarter / f64::from(k * k);
        sum += term;
        if term < 1e-18 * sum {
            break;
        }
    }
    sum
}
