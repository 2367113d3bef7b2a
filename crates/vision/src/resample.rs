//! Resizing as Pillow has long done it: weights in whole numbers of 22 bits, rows first, then columns, bytes in between.
//!
//! Where an image shrinks, the filter is stretched so that it covers all that a pixel stands for (antialiasing).

use crate::bitmap::Bitmap;
use core::f64::consts::PI;

/// How pixels between pixels are made.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Linear.
    Bilinear,
    /// Cubic, with a slope of −½.
    Bicubic,
    /// A sine cut off after three lobes.
    Lanczos,
}

impl Filter {
    /// How far from its middle it is not 0, in pixels of the smaller image.
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn at(self, x: f64) -> f64 {
        const SLOPE: f64 = -0.5;
        let sinc = |x: f64| {
            if x == 0.0 {
                1.0
            } else {
                libm::sin(x * PI) / (x * PI)
            }
        };
        match self {
            Self::Bilinear => (1.0 - x.abs()).max(0.0),
            Self::Bicubic => {
                let x = x.abs();
                if x < 1.0 {
                    ((SLOPE + 2.0) * x - (SLOPE + 3.0)) * x * x + 1.0
                } else if x < 2.0 {
                    (((x - 5.0) * x + 8.0) * x - 4.0) * SLOPE
                } else {
                    0.0
                }
            }
            Self::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Self::Lanczos => 0.0,
        }
    }
}

/// Bits of a weight after the point.
const BITS: u32 = 32 - 8 - 2;

/// What one pixel of a row is made of.
struct Mix {
    first: usize,
    weights: Vec<i32>,
}

/// The mixes that make `to` pixels of `from`.
fn mixes(from: usize, to: usize, filter: Filter) -> Vec<Mix> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = filter.support() * stretch;
    let mix = |index: usize| {
        let center = (index as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let last = ((center + support + 0.5) as usize).min(from);
        let weight = |x: usize| filter.at((x as f64 - center + 0.5) / stretch);
        let weights: Vec<f64> = (first..last).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let whole = |weight: &f64| {
            let weight = if sum == 0.0 { *weight } else { weight / sum };
            let weight = weight * f64::from(1 << BITS);
            (if weight < 0.0 {
                weight - 0.5
            } else {
                weight + 0.5
            }) as i32
        };
        Mix {
            first,
            weights: weights.iter().map(whole).collect(),
        }
    };
    (0..to).map(mix).collect()
}

/// A byte from a sum of weighted bytes.
fn rounded(sum: i64) -> u8 {
    ((sum + (1 << (BITS - 1))) >> BITS).clamp(0, 255) as u8
}

/// The image in another size.
pub fn resize(image: &Bitmap, width: usize, height: usize, filter: Filter) -> Bitmap {
    let mut out = image.clone();
    if width != image.width {
        let columns = mixes(image.width, width, filter);
        let mut pixels = Vec::with_capacity(width * image.height * 3);
        for y in 0..image.height {
            let row = image.row(y);
            for Mix { first, weights } in &columns {
                let mut sums = [0i64; 3];
                for (pixel, &weight) in row[first * 3..].chunks_exact(3).zip(weights) {
                    for (sum, &color) in sums.iter_mut().zip(pixel) {
                        *sum += i64::from(weight) * i64::from(color);
                    }
                }
                pixels.extend(sums.map(rounded));
            }
        }
        out = Bitmap {
            width,
            height: image.height,
            pixels,
        };
    }
    if height != image.height {
        let mut pixels = Vec::with_capacity(width * height * 3);
        let mut sums = vec![0i64; width * 3];
        for Mix { first, weights } in mixes(image.height, height, filter) {
            sums.fill(0);
            for (y, &weight) in (first..).zip(&weights) {
                for (sum, &color) in sums.iter_mut().zip(out.row(y)) {
                    *sum += i64::from(weight) * i64::from(color);
                }
            }
            pixels.extend(sums.iter().map(|&sum| rounded(sum)));
        }
        out = Bitmap {
            width,
            height,
            pixels,
        };
    }
    out
}
