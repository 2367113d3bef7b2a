//! The physical memory that may be used, as ranges of whole pages.

/// A page of the smallest size.
pub const PAGE: u64 = 4096;

/// More ranges than any firmware reports; the rest is not used.
const CAPACITY: usize = 128;

/// Physical addresses from `start` up to but not including `end`.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
}

impl Range {
    /// From `start`, `len` bytes or up to the last address.
    pub const fn new(start: u64, len: u64) -> Self {
        Self {
            start,
            end: start.saturating_add(len),
        }
    }

    /// How many bytes.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The whole pages inside.
    pub const fn pages_inside(self) -> Self {
        let start = match self.start.checked_next_multiple_of(PAGE) {
            Some(start) => start,
            None => self.end,
        };
        Self {
            start,
            end: self.end / PAGE * PAGE,
        }
    }

    /// The whole pages that hold any of it.
    pub const fn pages_around(self) -> Self {
        let end = match self.end.checked_next_multiple_of(PAGE) {
            Some(end) => end,
            None => u64::MAX / PAGE * PAGE,
        };
        Self {
            start: self.start / PAGE * PAGE,
            end,
        }
    }

    /// Whether all of `other` is inside.
    pub const fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Usable memory: ranges that are sorted, do not touch each other, and consist of whole pages.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    ranges: [Range; CAPACITY],
    len: usize,
}

impl MemoryMap {
    /// No memory.
    pub const fn new() -> Self {
        Self {
            ranges: [Range { start: 0, end: 0 }; CAPACITY],
            len: 0,
        }
    }

    /// The ranges, from low to high.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges[..self.len]
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> u64 {
        self.ranges().iter().map(|range| range.len()).sum()
    }

    /// Whether all of `range` is usable.
    pub fn contains(&self, range: Range) -> bool {
        self.ranges().iter().any(|own| own.contains(range))
    }

    /// Adds the whole pages inside of `range`, whatever of them is known already. Where there is no place for another
    /// range it is left out.
    pub fn add(&mut self, range: Range) {
        let mut new = range.pages_inside();
        if new.is_empty() {
            return;
        }
        let mut kept = 0;
        for index in 0..self.len {
            let old = self.ranges[index];
            if old.start <= new.end && new.start <= old.end {
                new = Range {
                    start: new.start.min(old.start),
                    end: new.end.max(old.end),
                };
            } else {
                self.ranges[kept] = old;
                kept += 1;
            }
        }
        self.len = kept;
        self.insert(new);
    }

    /// Takes away every page that holds any of `range`.
    pub fn remove(&mut self, range: Range) {
        let gone = range.pages_around();
        if range.is_empty() {
            return;
        }
        let old = self.clone();
        self.len = 0;
        for range in old.ranges() {
            let before = Range {
                start: range.start,
                end: range.end.min(gone.start),
            };
            let after = Range {
                start: range.start.max(gone.end),
                end: range.end,
            };
            self.insert(before);
            self.insert(after);
        }
    }

    /// Takes `bytes` (whole pages) from the end of the highest range below `limit` that has them, aligned to `align`.
    pub fn take(&mut self, bytes: u64, align: u64, limit: u64) -> Option<Range> {
        let bytes = bytes.checked_next_multiple_of(PAGE)?;
        let align = align.max(PAGE);
        let taken = self.ranges().iter().rev().find_map(|range| {
            let end = range.end.min(limit);
            let start = end.checked_sub(bytes)? / align * align;
            (start >= range.start).then_some(Range::new(start, bytes))
        })?;
        self.remove(taken);
        Some(taken)
    }

    fn insert(&mut self, range: Range) {
        if range.is_empty() || self.len == CAPACITY {
            return;
        }
        let at = self.ranges().partition_point(|old| old.start < range.start);
        self.ranges.copy_within(at..self.len, at + 1);
        self.ranges[at] = range;
        self.len += 1;
    }
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const K: u64 = 1024;

    fn map(ranges: &[(u64, u64)]) -> MemoryMap {
        let mut map = MemoryMap::new();
        for &(start, end) in ranges {
            map.add(Range { start, end });
        }
        map
    }

    fn shape(map: &MemoryMap) -> Vec<(u64, u64)> {
        map.ranges()
            .iter()
            .map(|range| (range.start / K, range.end / K))
            .collect()
    }

    #[test]
    fn ranges_are_sorted_merged_and_cut_to_pages() {
        let map = map(&[
            (64 * K, 128 * K),
            (0, 16 * K),
            (16 * K, 20 * K),
            (100 * K, 140 * K + 100),
            (200 * K + 1, 203 * K),
        ]);
        assert_eq!(shape(&map), [(0, 20), (64, 140)]);
        assert_eq!(map.bytes(), 96 * K);
    }

    #[test]
    fn what_is_removed_is_gone_with_its_pages() {
        let mut map = map(&[(0, 64 * K)]);
        map.remove(Range::new(9 * K, K));
        assert_eq!(shape(&map), [(0, 8), (12, 64)]);
        map.remove(Range::new(60 * K, 100 * K));
        map.remove(Range::new(0, 0));
        assert_eq!(shape(&map), [(0, 8), (12, 60)]);
        map.remove(Range::new(0, u64::MAX));
        assert_eq!(shape(&map), []);
    }

    #[test]
    fn pages_are_taken_from_below_the_limit() {
        let mut map = map(&[(4 * K, 64 * K), (1024 * K, 8192 * K)]);
        assert_eq!(map.take(1, 1, 64 * K), Some(Range::new(60 * K, 4 * K)));
        assert_eq!(
            map.take(2048 * K, 2048 * K, u64::MAX),
            Some(Range::new(6144 * K, 2048 * K))
        );
        assert_eq!(shape(&map), [(4, 60), (1024, 6144)]);
        assert_eq!(map.take(64 * K, 1, 64 * K), None);
        assert_eq!(map.take(u64::MAX, 1, u64::MAX), None);
    }

    #[test]
    fn extreme_ranges_do_not_overflow() {
        let mut map = map(&[(u64::MAX - 10, u64::MAX), (5, 3), (K, 2 * K)]);
        assert_eq!(shape(&map), []);
        map.add(Range::new(1, u64::MAX));
        assert_eq!(map.ranges().len(), 1);
        for i in 0..1000 {
            map.remove(Range::new(i * 16 * K, 1));
        }
        assert_eq!(map.ranges().len(), CAPACITY);
    }
}
