//! Exercise 3.2: rotary positions as GPT-NeoX, Qwen and Gemma pair them.

/// Turns one head: number i is paired with number i + n/2 instead of its neighbour. `angles` has a (sine, cosine) for
/// each pair.
pub fn rope_half_split(head: &mut [f32], angles: &[(f32, f32)]) {
    // Your code here.
    head[0] = angles[0].0;
}
