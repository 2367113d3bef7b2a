//! A small seeded generator (xoshiro256++), so that the same command writes the same file everywhere.

pub(crate) struct Random([u64; 4]);

impl Random {
    /// Every (seed, stream) gives an unrelated sequence.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut state = seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        // SplitMix64 spreads a poor seed over the whole state.
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in -1..1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f32 {
        (self.u64() >> 40) as f32 * (2.0 / (1u64 << 24) as f32) - 1.0
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut chunks = bytes.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&self.u64().to_le_bytes());
        }
        let rest = chunks.into_remainder();
        let last = self.u64().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}
