//! Dates as people and JSON write them.

use alloc::format;
use alloc::string::String;

/// Seconds since 1970 as `2026-01-31T12:00:00Z`.
pub fn rfc3339(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years that begin in March end with the leap day, and 400 of them always have as many days.
    let days = days.saturating_add(719_468);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + later;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The same with a fraction of a second: `2026-01-31T12:00:00.500000000Z`.
pub fn rfc3339_nanos(unix_seconds: u64, nanoseconds: u32) -> String {
    let mut date = rfc3339(unix_seconds);
    date.pop();
    format!("{date}.{:09}Z", nanoseconds.min(999_999_999))
}

#[cfg(test)]
mod tests {
    use super::{rfc3339, rfc3339_nanos};

    #[test]
    fn fractions_keep_their_zeros() {
        assert_eq!(rfc3339_nanos(0, 5_000), "1970-01-01T00:00:00.000005000Z");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_760_000_000, "2025-10-09T08:53:20Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), date);
        }
        assert!(rfc3339(u64::MAX).ends_with('Z'));
    }
}
