//! Log-mel spectrograms: power in bands of the mel scale, a frame every 10 ms, as decibels that models can read.

use crate::filters::{Filter, slaney};
use crate::fourier::{BINS, Fourier, SAMPLES};

/// Samples from one frame to the next: 10 ms.
pub const HOP: usize = 160;

/// A spectrogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrogram {
    /// (frames, bands).
    pub values: Vec<f32>,
    /// Bands of a frame.
    pub bands: usize,
}

impl Spectrogram {
    /// How many frames there are.
    pub fn frames(&self) -> usize {
        self.values.len() / self.bands
    }

    /// `count` frames from `first` on; zeros where there are none.
    pub fn window(&self, first: usize, count: usize) -> Vec<f32> {
        let start = first.min(self.frames()) * self.bands;
        let end = (first + count).min(self.frames()) * self.bands;
        let mut values = self.values[start..end.max(start)].to_vec();
        values.resize(count * self.bands, 0.0);
        values
    }
}

/// Makes spectrograms with so many bands.
#[derive(Clone, Debug)]
pub struct LogMel {
    window: Vec<f64>,
    filters: Vec<Filter>,
}

impl LogMel {
    /// With 80 bands, 128, or any other number.
    pub fn new(bands: usize) -> Self {
        let hann = |n: usize| {
            let angle = 2.0 * core::f64::consts::PI * n as f64 / SAMPLES as f64;
            0.5 - 0.5 * libm::cos(angle)
        };
        Self {
            window: (0..SAMPLES).map(hann).collect(),
            filters: slaney(bands),
        }
    }

    /// The spectrogram of samples at 16 kHz, of which silence makes at least `least`: a frame for each whole hop.
    pub fn spectrogram(&self, samples: &[f32], least: usize) -> Spectrogram {
        let len = samples.len().max(least);
        let at = |place: i64| {
            // Beyond the ends the sound is reflected.
            let last = len as i64 - 1;
            let place = if place < 0 { -place } else { place };
            let place = if place > last {
                2 * last - place
            } else {
                place
            };
            let place = usize::try_from(place).ok();
            let sample = place.and_then(|place| samples.get(place));
            sample.map_or(0.0, |&x| f64::from(x))
        };
        let (frames, bands) = (len / HOP, self.filters.len());
        let mut values = Vec::with_capacity(frames * bands);
        let mut fourier = Fourier::new();
        let (mut frame, mut power) = ([0.0; SAMPLES], [0.0; BINS]);
        for index in 0..frames {
            let start = (index * HOP) as i64 - (SAMPLES / 2) as i64;
            for (n, x) in frame.iter_mut().enumerate() {
                *x = at(start + n as i64) * self.window[n];
            }
            fourier.power(&frame, &mut power);
            values.extend(self.filters.iter().map(|filter| {
                let pairs = power[filter.first..].iter().zip(&filter.weights);
                let sum = pairs.fold(0.0, |sum, (power, weight)| sum + power * weight);
                libm::log10(sum.max(1e-10)) as f32
            }));
        }
        let peak = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for value in &mut values {
            *value = (value.max(peak - 8.0) + 4.0) / 4.0;
        }
        Spectrogram { values, bands }
    }
}
