//! Exercise 2.1: a sum in sixteen lanes.

use crate::lanes::sum_lanes;

/// The sum of a vector: element i in lane i % 16, the lanes added by [`sum_lanes`].
pub fn lane_sum(x: &[f32]) -> f32 {
    let mut lanes = [0.0; 16];
    for x in x.chunks(16) {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane += x;
        }
    }
    sum_lanes(lanes)
}
