//! Exercise 2.1: a sum in sixteen lanes.

use crate::lanes::sum_lanes;

/// The sum of a vector: element i in lane i % 16, the lanes added by [`sum_lanes`].
pub fn lane_sum(x: &[f32]) -> f32 {
    // Your code here.
    sum_lanes([x.len() as f32; 16])
}
