//! A counter-based random generator: draw `k` of a seed is a pure function of the seed, the stream and `k`.
//!
//! Nothing but the position has to be saved to continue, fork or replay a request, and a draw can be looked at without
//! being used up. The function is Philox4x32 with 10 rounds (Salmon and others, "Parallel random numbers: as easy as
//! 1, 2, 3", 2011): integer arithmetic only, so the same on every platform.

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// One block of Philox4x32-10.
#[must_use]
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..ROUNDS {
        let a = u64::from(MULTIPLIERS[0]) * u64::from(c0);
        let b = u64::from(MULTIPLIERS[1]) * u64::from(c2);
        (c0, c1, c2, c3) = (
            (b >> 32) as u32 ^ c1 ^ k0,
            b as u32,
            (a >> 32) as u32 ^ c3 ^ k1,
            a as u32,
        );
        k0 = k0.wrapping_add(KEY_STEPS[0]);
        k1 = k1.wrapping_add(KEY_STEPS[1]);
    }
    [c0, c1, c2, c3]
}

/// An independent sequence of draws under one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Stream {
    /// Which token is drawn.
    Token = 0,
    /// Whether XTC acts on a token.
    Xtc = 1,
}

/// The draws of one stream, and how many have been taken. The three fields are the whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random {
    /// What the caller chose.
    pub seed: u64,
    /// Which sequence under that seed.
    pub stream: Stream,
    /// The number of the next draw.
    pub position: u64,
}

impl Random {
    /// The first draw of a stream.
    #[must_use]
    pub fn new(seed: u64, stream: Stream) -> Self {
        Self {
            seed,
            stream,
            position: 0,
        }
    }

    /// The same sequence at another position.
    #[must_use]
    pub fn at(self, position: u64) -> Self {
        Self { position, ..self }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let counter = [
            self.position as u32,
            (self.position >> 32) as u32,
            self.stream as u32,
            0,
        ];
        self.position = self.position.wrapping_add(1);
        let [low, high, ..] = philox(counter, [self.seed as u32, (self.seed >> 32) as u32]);
        u64::from(high) << 32 | u64::from(low)
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [0, 1), a multiple of 2⁻²⁴.
    pub fn next_f32(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 * (1.0 / (1u32 << 24) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with Random123.
    #[test]
    fn philox_gives_the_published_answers() {
        let ones = u32::MAX;
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [ones; 4],
                [ones; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, answer) in cases {
            assert_eq!(philox(counter, key), answer);
        }
    }

    #[test]
    fn a_draw_depends_on_its_position_only() {
        let start = Random::new(42, Stream::Token);
        let mut walked = start;
        for position in 0..100 {
            let mut jumped = start.at(position);
            assert_eq!(walked.next_u64(), jumped.next_u64());
        }
        assert_eq!(walked.position, 100);
        assert_ne!(
            start.clone().next_u64(),
            Random::new(42, Stream::Xtc).next_u64()
        );
        assert_ne!(
            start.clone().next_u64(),
            Random::new(42 | 1 << 40, Stream::Token).next_u64()
        );
    }

    #[test]
    fn uniform_draws_fill_the_unit_interval_evenly() {
        let mut random = Random::new(7, Stream::Token);
        let mut bins = [0u32; 10];
        for _ in 0..100_000 {
            let x = random.next_f64();
            assert!((0.0..1.0).contains(&x));
            bins[(x * 10.0) as usize] += 1;
            assert!((0.0..1.0).contains(&random.next_f32()));
        }
        // Standard deviation of a bin is 95.
        for count in bins {
            assert!(count.abs_diff(10_000) < 400, "{bins:?}");
        }
    }
}
