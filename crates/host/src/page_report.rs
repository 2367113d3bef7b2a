//! What kind of pages a piece of memory got, from `/proc/self/smaps` (Documentation/filesystems/proc.rst).

use crate::size::Size;
use std::fmt;
use std::ops::Range;

/// The pages under some bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PageReport {
    /// How many bytes were asked about.
    pub bytes: u64,
    /// How many have memory: those that were touched.
    pub resident_bytes: u64,
    /// How many of these lie in huge pages.
    pub huge_bytes: u64,
}

impl PageReport {
    /// The pages under `bytes`; `None` where the system does not tell.
    ///
    /// The kernel reports by area: where one also holds other memory, this counts at most the share that `bytes`
    /// could have. Regions of [`HugePages`](crate::HugePages) have their own.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if cfg!(windows) {
            return None;
        }
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = bytes.as_ptr() as u64;
        Some(Self::parse(&smaps, start..start + bytes.len() as u64))
    }

    fn parse(smaps: &str, asked: Range<u64>) -> Self {
        let mut report = Self {
            bytes: asked.end - asked.start,
            ..Self::default()
        };
        let mut area = Area::default();
        for line in smaps.lines() {
            if let Some(addresses) = addresses(line) {
                report.add(&area);
                let overlap = addresses
                    .end
                    .min(asked.end)
                    .saturating_sub(addresses.start.max(asked.start));
                area = Area {
                    overlap,
                    ..Area::default()
                };
            } else if area.overlap > 0
                && let Some((key, bytes)) = kilobytes(line)
            {
                match key {
                    "Rss" => area.resident = area.resident.saturating_add(bytes),
                    // These are not part of Rss.
                    "Shared_Hugetlb" | "Private_Hugetlb" => {
                        area.resident = area.resident.saturating_add(bytes);
                        area.huge = area.huge.saturating_add(bytes);
                    }
                    "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => {
                        area.huge = area.huge.saturating_add(bytes);
                    }
                    _ => {}
                }
            }
        }
        report.add(&area);
        report
    }

    fn add(&mut self, area: &Area) {
        self.resident_bytes += area.resident.min(area.overlap);
        self.huge_bytes += area.huge.min(area.overlap);
    }
}

impl fmt::Display for PageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} of it in 2 MiB pages",
            Size(self.bytes),
            Size(self.huge_bytes)
        )
    }
}

#[derive(Default)]
struct Area {
    /// How much of it was asked about.
    overlap: u64,
    resident: u64,
    huge: u64,
}

/// The addresses that start an area's entry: `7f00-7fff rw-p 00000000 00:00 0`.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

/// A line of an entry: `Rss:   12 kB`.
fn kilobytes(line: &str) -> Option<(&str, u64)> {
    let (key, value) = line.split_once(':')?;
    let number: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((key, number.checked_mul(1024)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00100000-00500000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
AnonHugePages:      4096 kB
VmFlags: rd wr mr mw me ac sd hg
00500000-00900000 rw-p 00000000 00:00 0 [anon:x: 12 kB]
Rss:                2052 kB
AnonHugePages:      2048 kB
FilePmdMapped:         0 kB
00a00000-00e00000 rw-p 00000000 00:00 0
Rss:                   0 kB
Private_Hugetlb:    4096 kB
";

    fn report(asked: Range<u64>) -> (u64, u64) {
        let report = PageReport::parse(SMAPS, asked.clone());
        assert_eq!(report.bytes, asked.end - asked.start);
        (report.resident_bytes >> 10, report.huge_bytes >> 10)
    }

    #[test]
    fn areas_inside_count_whole_and_others_by_their_share() {
        assert_eq!(report(0..0x0010_0000), (0, 0));
        assert_eq!(report(0x0010_0000..0x0050_0000), (4096, 4096));
        assert_eq!(report(0x0050_0000..0x0090_0000), (2052, 2048));
        assert_eq!(report(0x0040_0000..0x0090_0000), (1024 + 2052, 1024 + 2048));
        assert_eq!(report(0x00a0_0000..0x00e0_0000), (4096, 4096));
        assert_eq!(
            report(0..u64::MAX),
            (4096 + 2052 + 4096, 4096 + 2048 + 4096)
        );
    }

    #[test]
    fn garbage_is_passed_over() {
        let garbage =
            "x\n-\nzz-yy rw\nRss:\nRss: many kB\n:\n1-\nAnonHugePages: 99999999999999999999 kB";
        assert_eq!(PageReport::parse(garbage, 0..100).huge_bytes, 0);
        let twice = "0-ff rw\nRss: 18014398509481983 kB\nPrivate_Hugetlb: 18014398509481983 kB\n";
        assert_eq!(PageReport::parse(twice, 0..255).resident_bytes, 255);
    }

    #[test]
    fn it_reads_as_a_sentence() {
        let report = PageReport {
            bytes: 812_000_000,
            resident_bytes: 812_000_000,
            huge_bytes: 808_400_000,
        };
        assert_eq!(
            report.to_string(),
            "812.0 MB, 808.4 MB of it in 2 MiB pages"
        );
    }
}
