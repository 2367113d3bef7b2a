//! The processor's caches, as Linux tells of them (Documentation/ABI/testing/sysfs-devices-system-cpu), Windows or macOS.

#[cfg(target_os = "macos")]
mod macos;
#[cfg(windows)]
mod windows;

use crate::kernel_files::{number, text};
use std::path::Path;

/// A cache that the first processor reads through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is the nearest.
    pub level: u8,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// The processors that share it, as in `0-3`.
    pub shared_by: String,
}

impl Cache {
    /// All caches of the first processor; none where the system does not tell.
    pub fn all() -> Vec<Cache> {
        #[cfg(not(any(target_os = "macos", windows)))]
        return Self::read(Path::new("/sys/devices/system/cpu/cpu0/cache"));
        #[cfg(target_os = "macos")]
        return macos::read();
        #[cfg(windows)]
        return windows::read();
    }

    #[cfg_attr(
        any(target_os = "macos", windows),
        allow(dead_code, reason = "tests read text everywhere")
    )]
    fn read(folder: &Path) -> Vec<Cache> {
        let entries = (0..16).map(|index| folder.join(format!("index{index}")));
        let cache = |entry: std::path::PathBuf| {
            let word = |name: &str| Some(text(&entry.join(name))?.trim().to_owned());
            Some(Cache {
                level: number(&entry.join("level"))?.try_into().ok()?,
                kind: word("type")?,
                bytes: size(&word("size")?)?,
                shared_by: word("shared_cpu_list").unwrap_or_default(),
            })
        };
        entries.filter_map(cache).collect()
    }
}

/// `32K`, `16M` or plain bytes.
#[cfg_attr(
    any(target_os = "macos", windows),
    allow(dead_code, reason = "tests read text everywhere")
)]
fn size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("32K"), Some(32 << 10));
        assert_eq!(size("16M"), Some(16 << 20));
        assert_eq!(size("512"), Some(512));
        for wrong in ["", "K", "-1K", "1X", "99999999999999999999G"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_machine_that_does_not_tell_has_none() {
        assert_eq!(Cache::read(Path::new("/nowhere")), []);
    }
}
