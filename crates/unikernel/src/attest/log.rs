//! The list of what was measured, as tools read it (TCG PC Client Platform Firmware Profile 1.06, section 10): what firmware
//! has written, and our events behind it.

use super::commands::SHA_256;
use crate::boot::le;
use alloc::vec::Vec;

/// What an operating system's loader measures.
const LOADED: u32 = 0x0d;
const NO_ACTION: u32 = 3;
/// No event is longer.
const LONGEST: usize = 1 << 20;
const MOST_DIGESTS: u32 = 8;
const FIRST_HEAD: usize = 32;

/// Bytes of an event that begins there; nothing if it is none or is cut off.
pub fn event(bytes: &[u8]) -> Option<usize> {
    let mut at = 12;
    let digests = le::u32(bytes, 8).filter(|count| (1..=MOST_DIGESTS).contains(count))?;
    for _ in 0..digests {
        at += 2 + match le::u16(bytes, at)? {
            0x04 => 20,
            SHA_256 | 0x12 | 0x27 => 32,
            0x0c | 0x28 => 48,
            0x0d | 0x29 => 64,
            _ => return None,
        };
    }
    ended(bytes, at)
}

/// The same for the first event of a log, which has an older form.
pub fn first_event(bytes: &[u8]) -> Option<usize> {
    ended(bytes, FIRST_HEAD - 4)
}

/// An event whose data's length is at `at`.
fn ended(bytes: &[u8], at: usize) -> Option<usize> {
    let len = le::u32(bytes, at)? as usize;
    let end = at + 4 + len;
    (len <= LONGEST && end <= bytes.len()).then_some(end)
}

/// Events of a table that begin there, without the first `skipped`.
pub fn later_events(bytes: &[u8], count: u64, skipped: u64) -> &[u8] {
    let (mut start, mut at) = (0, 0);
    for number in 0..count {
        if number == skipped {
            start = at;
        }
        match event(&bytes[at..]) {
            Some(len) => at += len,
            None => break,
        }
    }
    if skipped < count {
        &bytes[start..at]
    } else {
        &[]
    }
}

/// A log that nobody has begun: its first event says that digests are SHA-256.
pub(super) fn begin() -> Vec<u8> {
    let mut out = Vec::from([0; FIRST_HEAD]);
    out[4] = NO_ACTION as u8;
    let mut data = Vec::from(*b"Spec ID Event03\0");
    // A client's platform, version 2.0 with errata 0, numbers of eight bytes, one kind of digest.
    data.extend([0, 0, 0, 0, 0, 2, 0, 2, 1, 0, 0, 0]);
    data.extend(SHA_256.to_le_bytes());
    data.extend([32, 0, 0]);
    out[FIRST_HEAD - 4..].copy_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend(data);
    out
}

/// Adds an event.
pub(super) fn add(log: &mut Vec<u8>, register: u32, digest: &[u8; 32], what: &str) {
    for number in [register, LOADED, 1] {
        log.extend(number.to_le_bytes());
    }
    log.extend(SHA_256.to_le_bytes());
    log.extend(digest);
    // A text ends with a zero.
    log.extend((what.len() as u32 + 1).to_le_bytes());
    log.extend(what.as_bytes());
    log.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart() {
        let mut log = begin();
        let first = first_event(&log).unwrap();
        assert_eq!(first, log.len());
        add(&mut log, 8, &[1; 32], "one");
        let second = event(&log[first..]).unwrap();
        add(&mut log, 9, &[2; 32], "another");
        let third = event(&log[first + second..]).unwrap();
        assert_eq!(first + second + third, log.len());
        let events = &log[first..];
        assert_eq!(later_events(events, 2, 0), events);
        assert_eq!(later_events(events, 2, 1), &events[second..]);
        assert!(later_events(events, 2, 2).is_empty());
        // A table that says more than it has.
        assert_eq!(later_events(events, 9, 1), &events[second..]);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut log = begin();
        add(&mut log, 8, &[1; 32], "one");
        for at in 0..log.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = log.clone();
                bad[at] = value;
                for start in [0, 5, at] {
                    event(&bad[start..]);
                    first_event(&bad[start..]);
                    later_events(&bad[start..], u64::MAX, 1);
                }
            }
            assert!(event(&log[log.len() - at..]).is_none_or(|len| len <= at));
        }
    }
}
