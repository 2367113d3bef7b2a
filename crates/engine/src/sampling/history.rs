//! The latest tokens of a sequence, and how often each occurs among those that the penalties look at.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::settings::SamplerSettings;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct History {
    recent: VecDeque<u32>,
    /// How many tokens are kept.
    reach: usize,
    /// How many of them are counted.
    counted: usize,
    /// (token, occurrences) in the order of the tokens.
    counts: Vec<(u32, u32)>,
}

impl History {
    /// Keeps what the knobs that are on look at.
    pub(crate) fn new(settings: &SamplerSettings) -> Self {
        let reach_if = |on: bool, reach: usize| if on { reach } else { 0 };
        let penalties = &settings.penalties;
        let counted = reach_if(penalties.is_on(), penalties.lookback.reach());
        let dry = reach_if(settings.dry.is_on(), settings.dry.lookback.reach());
        Self {
            recent: VecDeque::new(),
            reach: counted.max(dry),
            counted,
            counts: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, token: u32) {
        if self.reach == 0 {
            return;
        }
        self.recent.push_back(token);
        if self.counted > 0 {
            match self.counts.binary_search_by_key(&token, |c| c.0) {
                Ok(at) => self.counts[at].1 += 1,
                Err(at) => self.counts.insert(at, (token, 1)),
            }
            if self.recent.len() > self.counted {
                self.uncount(self.recent[self.recent.len() - 1 - self.counted]);
            }
        }
        if self.recent.len() > self.reach {
            self.recent.pop_front();
        }
    }

    fn uncount(&mut self, token: u32) {
        if let Ok(at) = self.counts.binary_search_by_key(&token, |c| c.0) {
            self.counts[at].1 -= 1;
            if self.counts[at].1 == 0 {
                self.counts.remove(at);
            }
        }
    }

    /// (token, occurrences) in the order of the tokens.
    pub(crate) fn counts(&self) -> &[(u32, u32)] {
        &self.counts
    }

    pub(crate) fn len(&self) -> usize {
        self.recent.len()
    }

    /// The token `back` before the latest one.
    pub(crate) fn back(&self, back: usize) -> u32 {
        self.recent[self.recent.len() - 1 - back]
    }

    /// The kept tokens, oldest first.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> {
        self.recent.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::{Dry, Lookback, Penalties};
    use alloc::vec;

    #[test]
    fn counts_follow_the_shorter_window() {
        let mut history = History::new(&SamplerSettings {
            penalties: Penalties {
                lookback: Lookback::Last(3),
                presence: 1.0,
                ..Penalties::default()
            },
            dry: Dry {
                multiplier: 1.0,
                lookback: Lookback::Last(5),
                ..Dry::default()
            },
            ..SamplerSettings::default()
        });
        for token in [9, 1, 2, 1, 1, 5] {
            history.push(token);
        }
        assert_eq!(history.counts(), [(1, 2), (5, 1)]);
        assert_eq!(history.tokens().collect::<Vec<_>>(), vec![1, 2, 1, 1, 5]);
        assert_eq!((history.back(0), history.back(3)), (5, 2));
    }

    #[test]
    fn nothing_is_kept_when_nothing_looks() {
        let mut history = History::new(&SamplerSettings::default());
        history.push(1);
        assert_eq!(history.len(), 0);
    }
}
