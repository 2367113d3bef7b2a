//! How far to guess: as far as recent guesses say that it pays.

/// What computing one token more costs, in parts of what reading the weights costs. From the rates of packed 4-bit
/// panels on two cores: a model of 0.8 GB is read 25 times a second, and 180 tokens a second pass the integer units.
const TOKEN: f32 = 1.0 / 7.0;

/// How much one outcome moves the estimate.
const GAIN: f32 = 1.0 / 4.0;

/// Chances let go by before a drafter that does not pay is tried again: after its first failure, and at most.
const PAUSES: (u32, u32) = (4, 64);

/// The probability from which a drafted token pays for itself in a batch of `decoding` requests, where the drafter
/// takes `drafter` of a pass over the weights for each token.
///
/// A pass over the weights costs 1 and yields a token for each of n requests, at `(1 + n * TOKEN) / n` apiece. A
/// drafted token costs `TOKEN` and its share of the drafter's pass, and has to be as cheap.
pub(crate) fn break_even(decoding: usize, drafter: f32) -> f32 {
    let tokens = decoding as f32 * TOKEN;
    (tokens + drafter) / (tokens + 1.0)
}

/// A running estimate of how often guesses are right.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    rate: f32,
    /// Chances let go by since the last guess.
    skipped: u32,
    /// How many to let go by.
    pause: u32,
}

impl Pace {
    /// A pace that expects this share of the guesses to be right until it knows better.
    pub(crate) fn new(rate: f32) -> Self {
        Self {
            rate,
            skipped: 0,
            pause: PAUSES.0,
        }
    }

    /// How many tokens to guess now, `most` at most: as long as all up to the next one are right with at least this
    /// probability. Where none pays, one is guessed now and then to see whether that has changed.
    pub(crate) fn length(&mut self, break_even: f32, most: usize) -> usize {
        let mut length = 0;
        let mut reached = self.rate;
        while length < most && reached > break_even {
            length += 1;
            reached *= self.rate;
        }
        if length == 0 && most > 0 {
            self.skipped += 1;
            if self.skipped >= self.pause {
                self.skipped = 0;
                self.pause = (2 * self.pause).min(PAUSES.1);
                length = 1;
            }
        }
        length
    }

    /// Takes in how many guesses were right, and whether the one after them was wrong.
    pub(crate) fn learn(&mut self, right: usize, wrong: bool) {
        for _ in 0..right {
            self.rate += (1.0 - self.rate) * GAIN;
        }
        if right > 0 {
            self.pause = PAUSES.0;
        }
        if wrong {
            self.rate -= self.rate * GAIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_that_are_right_reach_further_at_once() {
        let mut pace = Pace::new(0.5);
        let mut lengths = [0; 5];
        for length in &mut lengths {
            *length = pace.length(break_even(1, 0.0), 16);
            pace.learn(*length, false);
        }
        assert!(lengths.is_sorted(), "{lengths:?}");
        assert_eq!(lengths[4], 16);
    }

    #[test]
    fn guesses_that_are_wrong_become_rare_and_then_recover() {
        let mut pace = Pace::new(0.9);
        let mut guessed = 0;
        for _ in 0..1000 {
            let length = pace.length(break_even(1, 0.0), 16);
            guessed += length;
            pace.learn(0, length > 0);
        }
        assert!(guessed < 60, "{guessed} guesses for nothing");
        let mut steps = 0;
        while pace.length(break_even(1, 0.0), 16) < 16 {
            steps += 1;
            // Whatever is guessed is right from now on.
            if pace.skipped == 0 {
                pace.learn(4, false);
            }
        }
        assert!(steps <= 70, "no long guess within {steps} steps");
    }

    #[test]
    fn the_more_run_together_the_surer_a_guess_must_be() {
        let alone = break_even(1, 0.0);
        let crowd = break_even(32, 0.0);
        assert!(alone < 0.2 && crowd > 0.7, "{alone} {crowd}");
        assert!(break_even(1, 0.2) > alone, "a drafter's own work counts");
        let mut pace = Pace::new(0.7);
        assert!(pace.length(alone, 16) > 3);
        assert_eq!(pace.length(crowd, 16), 0);
    }

    #[test]
    fn no_room_is_no_guess() {
        let mut pace = Pace::new(0.99);
        assert!((0..200).all(|_| pace.length(0.0, 0) == 0));
    }
}
