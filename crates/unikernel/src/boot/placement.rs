//! Where the program appears: at addresses that nobody can foresee.
//!
//! Its memory stays where the loader has put it. Above all memory and all windows of files there are 24 bits of places, of
//! 2 MiB each, from which one is drawn.

use super::memory_map::Range;

/// Pages of this size are what the first tables map.
pub const LARGE: u64 = 2 << 20;
const GIGABYTE: u64 = 1 << 30;
/// Memory is mapped to itself, below 64 TiB; files have what lies between that and this.
const START: u64 = 0x6000_0000_0000;
const END: u64 = 0x7f00_0000_0000;

/// Where an image that is at `physical` shall appear: as far into a page of 2 MiB as there, and all of it in one
/// gigabyte, which is one table. Nothing if it is larger than that.
pub fn draw(random: u64, physical: Range) -> Option<u64> {
    let before = physical.start % LARGE;
    let pages = before.checked_add(physical.len())?.div_ceil(LARGE);
    let inside = (GIGABYTE / LARGE).checked_sub(pages)? + 1;
    let gigabytes = (END - START) / GIGABYTE;
    let (gigabyte, page) = (random / inside % gigabytes, random % inside);
    Some(START + gigabyte * GIGABYTE + page * LARGE + before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn places_are_many_and_suit_the_first_tables() {
        let mut state = 1u64;
        for physical in [
            Range::new(0x20_0000, 0x80_0000),
            Range::new(0x7e3f_d000, 0x71_3000),
            Range::new(0x1000, 0x1000),
            Range::new(0x20_0000, GIGABYTE),
        ] {
            let mut places = BTreeSet::new();
            for _ in 0..10_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let place = draw(state ^ state >> 29, physical).unwrap();
                assert_eq!(place % LARGE, physical.start % LARGE);
                let last = place + physical.len() - 1;
                assert_eq!(place / GIGABYTE, last / GIGABYTE);
                assert!(place >= START && last < END, "{place:#x}");
                places.insert(place);
            }
            // The last fills its gigabyte.
            let most = if physical.len() == GIGABYTE {
                7000
            } else {
                9900
            };
            assert!(places.len() > most, "{}", places.len());
        }
        for extreme in [0, u64::MAX] {
            assert!(draw(extreme, Range::new(0x20_0000, 0x80_0000)).is_some());
        }
        assert_eq!(draw(1, Range::new(0x20_1000, GIGABYTE)), None);
        assert_eq!(draw(1, Range::new(0, u64::MAX)), None);
    }
}
