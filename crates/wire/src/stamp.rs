//! What tells one answer from another.

use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use strata_chat::RequestContext;

/// What tells one answer from another; the server makes it up, so that no dialect depends on a clock or on chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Unlike any other answer's: letters and digits.
    pub id: String,
    /// Seconds since 1970.
    pub unix_seconds: u64,
    /// The rest of the second.
    pub nanoseconds: u32,
}

impl Stamp {
    /// What a request with this stamp is prepared with; `seed` is for one that brings none.
    pub fn context(&self, seed: u64) -> RequestContext<'_> {
        RequestContext::new(self.unix_seconds, seed, &self.id)
    }
}

/// Names answers and seeds requests (splitmix64). No secret depends on it.
#[derive(Debug)]
pub struct StampSource(AtomicU64);

impl StampSource {
    /// A source whose numbers follow from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number unlike others.
    pub fn random(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15;
        let before = self.0.fetch_add(step, Ordering::Relaxed);
        let state = before.wrapping_add(step);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A stamp at a time since 1970.
    pub fn stamp(&self, now: Duration) -> Stamp {
        Stamp {
            id: format!("{:016x}", self.random()),
            unix_seconds: now.as_secs(),
            nanoseconds: now.subsec_nanos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        let source = StampSource::new(0);
        assert_eq!(source.random(), 0xe220_a839_7b1d_cdaf);
        let stamp = source.stamp(Duration::new(5, 6));
        assert_eq!(stamp.id, "6e789e6aa1b965f4");
        assert_eq!((stamp.unix_seconds, stamp.nanoseconds), (5, 6));
    }
}
