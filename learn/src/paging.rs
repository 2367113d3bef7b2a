//! Page tables as a processor walks them: four levels of 512 entries (Intel SDM volume 3, chapter 5).

// ANCHOR: paging
/// The entry is valid.
pub const PRESENT: u64 = 1;
/// The entry is a large page instead of a table.
pub const LARGE: u64 = 1 << 7;
/// The bits of an entry that are an address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Physical memory with nothing but tables in it; table `i` is at address `i * 4096`.
#[derive(Debug)]
pub struct Tables(Vec<[u64; 512]>);

impl Default for Tables {
    /// An empty table of the highest level, at address 0.
    fn default() -> Tables {
        Tables(vec![[0; 512]])
    }
}

/// The entry of an address in its table of a level; level 1 is the lowest.
fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * (level - 1)) & 511) as usize
}

impl Tables {
    /// Maps a page: of 4 KiB at level 1, of 2 MiB at level 2.
    pub fn map(&mut self, address: u64, physical: u64, level: u32) {
        let mut table = 0;
        for above in (level + 1..=4).rev() {
            let i = index(address, above);
            if self.0[table][i] & PRESENT == 0 {
                self.0.push([0; 512]);
                self.0[table][i] = (self.0.len() as u64 - 1) << 12 | PRESENT;
            }
            table = (self.0[table][i] & ADDRESS) as usize >> 12;
        }
        let large = if level > 1 { LARGE } else { 0 };
        self.0[table][index(address, level)] = physical & ADDRESS | PRESENT | large;
    }

    /// Where an address really is, or `None`: a page fault.
    pub fn walk(&self, address: u64) -> Option<u64> {
        let mut table = 0;
        for level in (1..=4).rev() {
            let entry = self.0[table][index(address, level)];
            if entry & PRESENT == 0 {
                return None;
            }
            if level == 1 || entry & LARGE != 0 {
                // The lower bits are the place inside the page.
                let inside = (1 << (12 + 9 * (level - 1))) - 1;
                return Some(entry & ADDRESS & !inside | address & inside);
            }
            table = (entry & ADDRESS) as usize >> 12;
        }
        None
    }

    /// How many tables there are, of 4 KiB each.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}
// ANCHOR_END: paging
