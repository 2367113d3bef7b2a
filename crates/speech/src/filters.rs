//! Triangles on the mel scale, as Slaney's Auditory Toolbox has them: linear up to 1 kHz, logarithmic above, each of
//! the same area.

use crate::RATE;
use crate::fourier::BINS;

/// One triangle: the first frequency that it covers, and its weights.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) first: usize,
    pub(crate) weights: Vec<f64>,
}

/// Mels of the corner between the two parts.
const CORNER: f64 = 15.0;

fn hertz(mel: f64) -> f64 {
    if mel < CORNER {
        200.0 * mel / 3.0
    } else {
        1000.0 * libm::exp(libm::log(6.4) / 27.0 * (mel - CORNER))
    }
}

/// So many triangles between 0 and 8 kHz.
pub(crate) fn slaney(count: usize) -> Vec<Filter> {
    let highest = RATE as f64 / 2.0;
    let top = CORNER + libm::log(highest / 1000.0) * 27.0 / libm::log(6.4);
    let corners: Vec<f64> = (0..count + 2)
        .map(|i| hertz(top * i as f64 / (count + 1) as f64))
        .collect();
    let filter = |corners: &[f64]| {
        let (left, middle, right) = (corners[0], corners[1], corners[2]);
        let weight = |bin: usize| {
            let frequency = highest * bin as f64 / (BINS - 1) as f64;
            let rising = (frequency - left) / (middle - left);
            let falling = (right - frequency) / (right - middle);
            rising.min(falling).max(0.0) * 2.0 / (right - left)
        };
        let first = (0..BINS).find(|&bin| weight(bin) > 0.0).unwrap_or(0);
        let weights = (first..BINS).map(weight).take_while(|&weight| weight > 0.0);
        Filter {
            first,
            weights: weights.collect(),
        }
    };
    corners.windows(3).map(filter).collect()
}
