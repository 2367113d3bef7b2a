//! How long a step takes, learned from those that were taken: time ≈ base + each · tokens.

use core::time::Duration;

/// What a step counts for after the next one, and so on. About the last twenty matter: attention gets dearer as sequences
/// grow, and other programs come and go.
const MEMORY: f64 = 0.95;

/// A line through the latest steps, by least squares with weights that fade.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepTime {
    /// Weighted sums of 1, tokens, tokens², seconds, tokens · seconds.
    sums: [f64; 5],
    /// Seconds that a step takes whatever is in it.
    base: f64,
    /// Seconds for each token.
    each: f64,
    /// Tokens of the largest of the latest steps.
    largest: f64,
}

/// Steps this large are tried whatever is known; larger ones only after some half as large.
const TRIED: f64 = 32.0;

impl StepTime {
    /// Takes in a step.
    pub(crate) fn learn(&mut self, tokens: usize, time: Duration) {
        let (x, y) = (tokens as f64, time.as_secs_f64());
        if tokens == 0 || y <= 0.0 {
            return;
        }
        self.largest = x.max(self.largest * MEMORY);
        for (sum, new) in self.sums.iter_mut().zip([1.0, x, x * x, y, x * y]) {
            *sum = *sum * MEMORY + new;
        }
        let [n, sx, sxx, sy, sxy] = self.sums;
        let (mean_x, mean_y) = (sx / n, sy / n);
        let spread = sxx / n - mean_x * mean_x;
        // Steps of nearly one size say nothing about the slope.
        if spread > 0.01 * mean_x * mean_x {
            let slope = (sxy / n - mean_x * mean_y) / spread;
            self.each = slope.max(0.02 * mean_y / mean_x);
        } else if self.each == 0.0 {
            self.each = mean_y / mean_x;
        }
        self.each = self.each.min(mean_y / mean_x);
        self.base = (mean_y - self.each * mean_x).max(0.0);
    }

    /// Whether anything is known.
    pub(crate) fn is_known(&self) -> bool {
        self.each > 0.0
    }

    /// How long a step of so many tokens takes; nothing where nothing is known.
    pub(crate) fn predict(&self, tokens: usize) -> Duration {
        seconds(self.base + self.each * tokens as f64)
    }

    /// How many tokens a step can have to take `target`. Where a step takes about that long with any, as many as
    /// make it half as long again: fewer would not make it short, only useless.
    pub(crate) fn tokens_within(&self, target: Duration) -> usize {
        if !self.is_known() {
            return usize::MAX;
        }
        let allowance = (target.as_secs_f64() - self.base).max(self.base / 2.0);
        // A line through small steps says little about large ones.
        (allowance / self.each).min((2.0 * self.largest).max(TRIED)) as usize
    }

    /// How long so many tokens take, in steps of at most `batch`.
    pub(crate) fn predict_all(&self, tokens: usize, batch: usize) -> Duration {
        let steps = tokens.div_ceil(batch.max(1)) as f64;
        seconds(self.base * steps + self.each * tokens as f64)
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Stream};

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.1 * b
    }

    #[test]
    fn the_line_is_found_through_noise_and_followed_when_it_moves() {
        let mut random = Random::new(3, Stream::Token);
        let mut time = StepTime::default();
        for (base, each) in [(0.04, 0.005), (0.02, 0.012), (0.3, 0.001)] {
            for _ in 0..100 {
                let tokens = 1 + (random.next_u64() % 64) as usize;
                let noise = 0.97 + 0.06 * random.next_f64();
                let taken = (base + each * tokens as f64) * noise;
                time.learn(tokens, Duration::from_secs_f64(taken));
            }
            for tokens in [8, 40] {
                let exact = base + each * tokens as f64;
                assert!(close(time.predict(tokens).as_secs_f64(), exact));
            }
        }
    }

    #[test]
    fn steps_of_one_size_do_not_mislead_it() {
        let mut time = StepTime::default();
        for _ in 0..200 {
            time.learn(1, Duration::from_millis(40));
        }
        // Nothing but single tokens was seen: the most cautious reading is that each takes as long.
        assert_eq!(time.tokens_within(Duration::from_millis(200)), 5);
        for _ in 0..3 {
            time.learn(6, Duration::from_millis(50));
        }
        assert_eq!(time.tokens_within(Duration::from_millis(200)), 32);
    }

    #[test]
    fn a_machine_slower_than_the_target_still_gets_batches() {
        let mut time = StepTime::default();
        for tokens in [1, 9, 4, 2, 30] {
            time.learn(tokens, Duration::from_millis(2000 + 10 * tokens as u64));
        }
        assert!(time.tokens_within(Duration::from_millis(200)) > 50);
    }
}
