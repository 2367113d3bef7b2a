//! A recurrent layer: the short convolution of LFM2, with its state of a few positions.

// ANCHOR: short_conv
/// A layer that remembers the last few positions, and nothing else.
#[derive(Clone, Debug)]
pub struct ShortConv {
    /// (positions, channels): what each position counts, the oldest first.
    taps: Vec<Vec<f32>>,
    /// The inputs of the positions before this one, the oldest first.
    state: Vec<Vec<f32>>,
}

impl ShortConv {
    /// A layer before its first token: what came before is zero.
    pub fn new(taps: Vec<Vec<f32>>) -> ShortConv {
        let silence = taps
            .iter()
            .skip(1)
            .map(|tap| vec![0.0; tap.len()])
            .collect();
        ShortConv {
            taps,
            state: silence,
        }
    }

    /// One token: the gated sum over the last positions, channel by channel.
    pub fn step(&mut self, x: &[f32], gate: &[f32]) -> Vec<f32> {
        self.state.push(x.to_vec());
        let mut out = vec![0.0f32; x.len()];
        for (tap, column) in self.taps.iter().zip(&self.state) {
            for ((out, tap), x) in out.iter_mut().zip(tap).zip(column) {
                *out = tap.mul_add(*x, *out);
            }
        }
        // The oldest is forgotten; the state never grows.
        self.state.remove(0);
        out.iter().zip(gate).map(|(sum, gate)| gate * sum).collect()
    }
}
// ANCHOR_END: short_conv
