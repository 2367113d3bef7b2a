//! Random bytes for keys, from a seed that nobody knows. What was drawn cannot be found again in what is left.

use strata_platform::Sha256;

/// A source of random bytes.
pub struct Random([u8; 32]);

impl Random {
    /// The source that a seed makes.
    pub fn new(seed: [u8; 32]) -> Self {
        Self(seed)
    }

    fn hash(&self, number: u8) -> [u8; 32] {
        let mut sum = Sha256::new();
        sum.update(self.0);
        sum.update([number]);
        sum.finalize()
    }

    /// The next bytes.
    pub fn draw(&mut self) -> [u8; 32] {
        let drawn = self.hash(1);
        self.0 = self.hash(0);
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_twice() {
        let mut random = Random::new([1; 32]);
        let first = random.draw();
        assert_ne!(first, random.draw());
        assert_eq!(first, Random::new([1; 32]).draw());
        assert_ne!(first, Random::new([2; 32]).draw());
        assert_ne!(random.0, [1; 32]);
    }
}
