//! Numbers from the kernel's text files. What cannot be read or understood is not there.

use std::path::Path;

/// A file that holds one number; `max` means none.
pub(crate) fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// All of a file.
pub(crate) fn text(path: &Path) -> Option<String> {
    String::from_utf8(std::fs::read(path).ok()?).ok()
}

/// The number after `key` on a line of its own: `key 12`, or `key: 12 kB` in bytes.
pub(crate) fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next()?.trim_end_matches(':') != key {
            return None;
        }
        let number: u64 = words.next()?.parse().ok()?;
        match words.next() {
            None => Some(number),
            Some("kB") => number.checked_mul(1024),
            Some(_) => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = "VmRSSx:\t 1 kB\nVmRSS:\t    1234 kB\ninactive_file 77\nread_bytes: 5\n";
        assert_eq!(field(status, "VmRSS"), Some(1234 * 1024));
        assert_eq!(field(status, "inactive_file"), Some(77));
        assert_eq!(field(status, "read_bytes"), Some(5));
        assert_eq!(field(status, "Vm"), None);
    }

    #[test]
    fn nonsense_has_no_number() {
        for text in [
            "",
            "VmRSS",
            "VmRSS:",
            "VmRSS: x kB",
            "VmRSS: -1 kB",
            "VmRSS: 99999999999999999 kB",
            "VmRSS: 1 MB",
        ] {
            assert_eq!(field(text, "VmRSS"), None, "{text:?}");
        }
    }
}
