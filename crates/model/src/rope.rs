//! Rotary positions: each dimension pair's frequency, worked out once, and cosines and sines for positions.

use crate::config::{RopeConfig, RopeScaling};
use crate::spec::YarnRange;
use alloc::vec::Vec;
use core::f64::consts::PI;
use strata_kernels::sin_cos;

/// One RoPE's frequencies.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    /// Radians by position, one for each pair of dimensions.
    frequencies: Vec<f64>,
    magnitude: f32,
    /// The axis that each pair turns by; empty where positions have only one.
    axes: Vec<u8>,
}

impl Rope {
    /// `factors` divide the frequencies one by one, as `rope_freqs` tensors do.
    pub(crate) fn new(config: &RopeConfig, factors: Option<&[f32]>) -> Self {
        let pairs = config.dimensions / 2;
        let frequencies = (0..pairs)
            .map(|i| {
                let exponent = -2.0 * i as f64 / config.dimensions as f64;
                let own = libm::pow(f64::from(config.base), exponent);
                let own = factors.map_or(own, |factors| own / f64::from(factors[i]));
                stretch(config, own, i)
            })
            .collect();
        Self {
            frequencies,
            magnitude: config.magnitude,
            axes: config.axes(),
        }
    }

    /// How many pairs of dimensions turn.
    pub(crate) fn pairs(&self) -> usize {
        self.frequencies.len()
    }

    /// Whether pairs turn by different axes of a position.
    pub(crate) fn has_axes(&self) -> bool {
        !self.axes.is_empty()
    }

    /// Writes the cosines of places on the axes, then their sines.
    pub(crate) fn write_axes(&self, places: [usize; 3], out: &mut [f32]) {
        let (cosines, sines) = out.split_at_mut(self.pairs());
        let turns = self.frequencies.iter().zip(&self.axes);
        for ((turn, cosine), sine) in turns.zip(cosines).zip(sines) {
            let (frequency, &axis) = turn;
            let (s, c) = sin_cos(frequency * places[axis as usize] as f64);
            *cosine = c * self.magnitude;
            *sine = s * self.magnitude;
        }
    }

    /// Writes a position's cosines, then its sines.
    pub(crate) fn write(&self, position: usize, out: &mut [f32]) {
        let (cosines, sines) = out.split_at_mut(self.pairs());
        for ((frequency, cosine), sine) in self.frequencies.iter().zip(cosines).zip(sines) {
            let (s, c) = sin_cos(frequency * position as f64);
            *cosine = c * self.magnitude;
            *sine = s * self.magnitude;
        }
    }
}

fn stretch(config: &RopeConfig, own: f64, pair: usize) -> f64 {
    match config.scaling {
        RopeScaling::None => own,
        RopeScaling::Linear { factor } => own / f64::from(factor),
        RopeScaling::Yarn {
            factor,
            beta_fast,
            beta_slow,
            range,
        } => {
            // The pair that turns `rotations` times over the original context.
            let pair_of = |rotations: f32| {
                let length = config.original_context as f64 / (f64::from(rotations) * 2.0 * PI);
                config.dimensions as f64 * libm::log(length)
                    / (2.0 * libm::log(f64::from(config.base)))
            };
            let (low, high) = (pair_of(beta_fast), pair_of(beta_slow));
            let (low, high) = match range {
                YarnRange::Rounded => (libm::floor(low), libm::ceil(high)),
                YarnRange::Exact => (low, high),
            };
            let low = low.max(0.0);
            let high = high.min(config.dimensions as f64 - 1.0);
            let ramp = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            own / f64::from(factor) * ramp + own * (1.0 - ramp)
        }
    }
}
