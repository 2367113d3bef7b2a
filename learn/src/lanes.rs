//! Dot products: in sixteen lanes, and of quantized blocks.
//!
//! Both have the bits of the product's kernels (`crates/kernels`), whatever instructions those run on.

use crate::half::f16_to_f32;

// ANCHOR: dot_lanes
/// A dot product in 16 lanes: element i goes to lane i % 16, and the lanes are added as a tree.
pub fn dot_lanes(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    for (a, b) in a.chunks(16).zip(b.chunks(16)) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane = a.mul_add(*b, *lane);
        }
    }
    sum_lanes(lanes)
}

/// Lane j + lane j + 8, then + 4, + 2, + 1: four additions deep instead of fifteen.
pub fn sum_lanes(mut lanes: [f32; 16]) -> f32 {
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] += lanes[j + half];
        }
    }
    lanes[0]
}
// ANCHOR_END: dot_lanes

// ANCHOR: quantize_act
/// 32 activations in 8 bits each.
#[derive(Clone, Debug, PartialEq)]
pub struct ActBlock {
    /// Value = d * q.
    pub d: f32,
    /// From -127 to 127.
    pub q: [i8; 32],
}

/// Takes the largest magnitude to 127.
pub fn quantize_act(x: &[f32; 32]) -> ActBlock {
    let largest = x.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
    ActBlock {
        d: largest / 127.0,
        q: x.map(|x| (x * inverse).round_ties_even() as i8),
    }
}
// ANCHOR_END: quantize_act

// ANCHOR: dot_q4_0
/// A row of Q4_0 blocks times a row of activations.
pub fn dot_q4_0(row: &[u8], x: &[ActBlock]) -> f32 {
    let mut sum = 0.0f32;
    for (block, x) in row.chunks_exact(18).zip(x) {
        let d = f16_to_f32(u16::from_le_bytes([block[0], block[1]]));
        // Integers inside a block: exact, in any order.
        let mut products = 0i32;
        for i in 0..16 {
            let byte = block[2 + i];
            products += (i32::from(byte & 15) - 8) * i32::from(x.q[i]);
            products += (i32::from(byte >> 4) - 8) * i32::from(x.q[i + 16]);
        }
        // Floats between blocks: one rounding, in order.
        sum = (d * x.d).mul_add(products as f32, sum);
    }
    sum
}
// ANCHOR_END: dot_q4_0
