//! TQ1_0 and TQ2_0.

use crate::Quantize;
use crate::fit::{Linear, fit_symmetric, nearest_levels};
use crate::number::F16;
use crate::ternary::{BlockTQ1_0, BlockTQ2_0};

/// The scale of a block and its values over it. Ternary weights come back as they are; others are cut where the error
/// is least, which can be far below the largest.
fn ternary(x: &[f32; 256], w: Option<&[f32; 256]>) -> (F16, [i8; 256]) {
    static ONES: [f32; 256] = [1.0; 256];
    let reach = 6.0;
    let scale = fit_symmetric::<Linear<-1, 1>, 256>(x, w.unwrap_or(&ONES), reach);
    let d = F16::from_f32_saturating(scale.abs());
    (d, nearest_levels::<Linear<-1, 1>, 256>(x, d.to_f32()))
}

impl Quantize for BlockTQ1_0 {
    fn quantize(values: &[f32; 256], weights: Option<&[f32; 256]>) -> Self {
        let (d, trits) = ternary(values, weights);
        Self::from_trits(d, &trits)
    }
}

impl Quantize for BlockTQ2_0 {
    fn quantize(values: &[f32; 256], weights: Option<&[f32; 256]>) -> Self {
        let (d, trits) = ternary(values, weights);
        Self::from_trits(d, &trits)
    }
}
