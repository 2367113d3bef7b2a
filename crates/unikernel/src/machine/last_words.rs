//! Why the machine stopped, kept in a page of memory that a reset does not clear.

use crate::boot::memory_map::PAGE;
use core::fmt::{self, Write};

const MAGIC: &[u8; 8] = b"STRATA!\x01";
const HEAD: usize = 16;

/// A page with a text or nothing.
pub struct LastWords<'a>(pub &'a mut [u8; PAGE as usize]);

impl LastWords<'_> {
    /// Keeps a text, cut off where the page ends.
    pub fn keep(&mut self, text: fmt::Arguments<'_>) {
        let mut writer = Cut {
            out: &mut self.0[HEAD..],
            len: 0,
        };
        // What does not fit is left out.
        let _ = writer.write_fmt(text);
        let len = writer.len;
        self.0[..8].copy_from_slice(MAGIC);
        self.0[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        let check = checksum(&self.0[HEAD..HEAD + len]);
        self.0[12..16].copy_from_slice(&check.to_le_bytes());
    }

    /// The text that was kept, if it is whole.
    pub fn read(&self) -> Option<&str> {
        let (head, rest) = self.0.split_first_chunk::<HEAD>()?;
        let len = crate::boot::le::u32(head, 8)? as usize;
        let check = crate::boot::le::u32(head, 12)?;
        let text = rest.get(..len)?;
        let whole = head.starts_with(MAGIC) && check == checksum(text);
        core::str::from_utf8(text).ok().filter(|_| whole)
    }

    /// Forgets it.
    pub fn forget(&mut self) {
        self.0[..HEAD].fill(0);
    }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, &byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

struct Cut<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut room = (self.out.len() - self.len).min(text.len());
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        self.out[self.len..self.len + room].copy_from_slice(&text.as_bytes()[..room]);
        self.len += room;
        if room == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_until_it_is_forgotten() {
        let mut page = [7; 4096];
        let mut words = LastWords(&mut page);
        assert_eq!(words.read(), None);
        words.keep(format_args!("step {} took too long", 5));
        assert_eq!(words.read(), Some("step 5 took too long"));
        words.forget();
        assert_eq!(words.read(), None);
    }

    #[test]
    fn long_texts_are_cut_and_damaged_ones_not_told() {
        let mut page = [0; 4096];
        let long = "é".repeat(5000);
        LastWords(&mut page).keep(format_args!("{long}"));
        let kept = LastWords(&mut page).read().unwrap().len();
        assert_eq!(kept, 4080);
        for at in 0..HEAD + 10 {
            for bit in 0..8 {
                let mut bad = page;
                bad[at] ^= 1 << bit;
                assert_eq!(LastWords(&mut bad).read(), None, "byte {at}");
            }
        }
    }
}
