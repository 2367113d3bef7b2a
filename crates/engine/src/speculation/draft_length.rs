//! How many tokens to draft: as many as recent acceptance says will pay.

/// What computing one token more costs, in parts of what reading the weights costs. From the rates of packed 4-bit
/// panels on two cores: a model of 0.8 GB is read 25 times a second, and 180 tokens a second pass the integer units.
const TOKEN: f32 = 1.0 / 7.0;

/// How much one outcome moves the estimate.
const GAIN: f32 = 1.0 / 4.0;

/// Steps skipped before a drafter that does not pay is tried again: after its first failure, and at most.
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

/// A running estimate of how often drafted tokens are accepted.
#[derive(Clone, Debug)]
pub(crate) struct DraftLength {
    rate: f32,
    /// Steps skipped since the last draft.
    skipped: u32,
    /// How many to skip.
    pause: u32,
}

impl DraftLength {
    /// Starts from this acceptance rate.
    pub(crate) fn new(rate: f32) -> Self {
        Self {
            rate,
            skipped: 0,
            pause: PAUSES.0,
        }
    }

    /// How many tokens to draft now, at most `most`: as long as all up to the next one are accepted with at least this
    /// probability. Where none pays, one is drafted now and then to see whether that has changed.
    pub(crate) fn choose(&mut self, break_even: f32, most: usize) -> usize {
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

    /// Tokens that a draft of this length is expected to yield, less what they cost.
    pub(crate) fn gain(&self, break_even: f32, length: usize) -> f32 {
        let mut reached = 1.0;
        let tokens = (0..length).map(|_| {
            reached *= self.rate;
            reached - break_even
        });
        tokens.sum()
    }

    /// The same for the best length up to `most`.
    pub(crate) fn best_gain(&self, break_even: f32, most: usize) -> f32 {
        let mut reached = 1.0;
        let tokens = (0..most).map(|_| {
            reached *= self.rate;
            reached - break_even
        });
        tokens.take_while(|&gain| gain > 0.0).sum()
    }

    /// Takes in how many drafted tokens were accepted, and whether the one after them was rejected.
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
    fn accepted_drafts_grow_at_once() {
        let mut draft_length = DraftLength::new(0.5);
        let mut lengths = [0; 5];
        for length in &mut lengths {
            *length = draft_length.choose(break_even(1, 0.0), 16);
            draft_length.learn(*length, false);
        }
        assert!(lengths.is_sorted(), "{lengths:?}");
        assert_eq!(lengths[4], 16);
    }

    #[test]
    fn rejected_drafts_become_rare_and_then_recover() {
        let mut draft_length = DraftLength::new(0.9);
        let mut drafted = 0;
        for _ in 0..1000 {
            let length = draft_length.choose(break_even(1, 0.0), 16);
            drafted += length;
            draft_length.learn(0, length > 0);
        }
        assert!(drafted < 60, "{drafted} tokens drafted for nothing");
        let mut steps = 0;
        while draft_length.choose(break_even(1, 0.0), 16) < 16 {
            steps += 1;
            // Whatever is drafted is accepted from now on.
            if draft_length.skipped == 0 {
                draft_length.learn(4, false);
            }
        }
        assert!(steps <= 70, "no long draft within {steps} steps");
    }

    #[test]
    fn larger_batches_need_likelier_drafts() {
        let alone = break_even(1, 0.0);
        let crowd = break_even(32, 0.0);
        assert!(alone < 0.2 && crowd > 0.7, "{alone} {crowd}");
        assert!(break_even(1, 0.2) > alone, "a drafter's own work counts");
        let mut draft_length = DraftLength::new(0.7);
        assert!(draft_length.choose(alone, 16) > 3);
        assert_eq!(draft_length.choose(crowd, 16), 0);
    }

    #[test]
    fn no_room_is_no_draft() {
        let mut draft_length = DraftLength::new(0.99);
        assert!((0..200).all(|_| draft_length.choose(0.0, 0) == 0));
    }
}
