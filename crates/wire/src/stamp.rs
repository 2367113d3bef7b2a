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

    /// The seed of a request that brings none. It follows from the stamp, so that a request with the same stamp has the
    /// same answer on every server of the same model.
    pub fn seed(&self) -> u64 {
        let number = u64::from_str_radix(&self.id, 16).unwrap_or(0);
        mixed(number.wrapping_add(STEP))
    }

    /// The stamp as the value of the header `strata-stamp`.
    pub fn header(&self) -> String {
        let Self {
            id,
            unix_seconds,
            nanoseconds,
        } = self;
        format!("{id}-{unix_seconds:x}-{nanoseconds:x}")
    }

    /// Reads a value of the header `strata-stamp`: three hexadecimal numbers, the first of 16 digits.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let mut number = |most: usize| {
            let part = parts.next()?;
            let plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let fits = (1..=most).contains(&part.len()) && part.bytes().all(plain);
            let value = fits.then(|| u64::from_str_radix(part, 16).ok())??;
            Some((part, value))
        };
        let (id, _) = number(16)?;
        let (_, unix_seconds) = number(10)?;
        let (_, nanoseconds) = number(8)?;
        let whole = parts.next().is_none() && id.len() == 16 && nanoseconds < 1_000_000_000;
        whole.then(|| Self {
            id: id.into(),
            unix_seconds,
            nanoseconds: nanoseconds as u32,
        })
    }
}

/// The header in which a request brings its stamp.
pub const STAMP_HEADER: &str = "strata-stamp";

/// What splitmix64 counts by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// How it mixes a number.
fn mixed(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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
        mixed(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
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

    #[test]
    fn a_stamp_travels_in_a_header() {
        let stamp = StampSource::new(3).stamp(Duration::new(1_800_000_000, 999_999_999));
        assert_eq!(Stamp::parse(&stamp.header()), Some(stamp.clone()));
        assert_ne!(
            stamp.seed(),
            StampSource::new(4).stamp(Duration::ZERO).seed()
        );
        for bad in [
            "",
            "6e789e6aa1b965f4",
            "6e789e6aa1b965f4-5",
            "6e789e6aa1b965f4-5-6-7",
            "6e789e6aa1b965f-5-6",
            "6E789E6AA1B965F4-5-6",
            "6e789e6aa1b965f4-+5-6",
            "6e789e6aa1b965f4-5-3b9aca00",
            "6e789e6aa1b965f4-fffffffffffffff-0",
            "../../6e789e6aa1b-5-6",
        ] {
            assert_eq!(Stamp::parse(bad), None, "{bad}");
        }
    }
}
