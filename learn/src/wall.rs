//! The memory wall: how fast this machine reads memory.

use std::hint::black_box;
use std::time::Instant;

// ANCHOR: read_speed
/// Bytes a second that one thread reads from a buffer of `len` bytes, the best of a few rounds.
pub fn read_speed(len: usize) -> f64 {
    let words = vec![1u64; (len / 8).max(1)];
    // Small buffers are read often enough for the clock to see it.
    let passes = (64 << 20) / len.clamp(1, 64 << 20);
    let mut best = 0.0f64;
    for _ in 0..5 {
        let start = Instant::now();
        let mut sum = 0u64;
        for _ in 0..passes {
            sum = sum.wrapping_add(black_box(&words).iter().sum());
        }
        black_box(sum);
        let bytes = (8 * words.len() * passes) as f64;
        best = best.max(bytes / start.elapsed().as_secs_f64());
    }
    best
}
// ANCHOR_END: read_speed
