//! What `strata image` puts behind the image: options and a model, in a section of their own.
//!
//! The image begins with a PE header, whoever loads it. A section `.strata` there says where the attachment lies: eight
//! bytes `STRATA\0\x01`, the options' length and the model's offset (four bytes each), the model's length (eight), then
//! the options; the model on a page of its own.

use crate::le;
use core::ops::Range;

const MAGIC: &[u8; 8] = b"STRATA\0\x01";
const NAME: &[u8; 8] = b".strata\0";
const HEADER: usize = 24;
const PAGE: u64 = 4096;

/// Options and a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment<'a> {
    /// As on a command line.
    pub options: &'a [u8],
    /// Where the model is, if there is one.
    pub model: Option<Range<u64>>,
}

/// Where the attachment lies, counted from the image's start, whose first bytes are given.
pub fn place(head: &[u8]) -> Option<Range<u64>> {
    let signature = le::u32(head, 0x3c)? as usize;
    if head.get(signature..)?.get(..4)? != b"PE\0\0" {
        return None;
    }
    let sections = le::u16(head, signature + 6)?;
    let table = signature + 24 + usize::from(le::u16(head, signature + 20)?);
    (0..usize::from(sections)).find_map(|index| {
        let section = head.get(table + 40 * index..)?;
        let bytes = u64::from(le::u32(section, 8)?);
        let start = u64::from(le::u32(section, 12)?);
        (section.get(..8)? == NAME).then_some(start..start + bytes)
    })
}

/// Reads the attachment at an address.
pub fn read(bytes: &[u8], address: u64) -> Option<Attachment<'_>> {
    if bytes.get(..8)? != MAGIC {
        return None;
    }
    let (options, offset) = (le::u32(bytes, 8)? as usize, le::u32(bytes, 12)?);
    let start = address.checked_add(offset.into())?;
    let end = start.checked_add(le::u64(bytes, 16)?)?;
    let inside = end - address <= bytes.len() as u64 && start.is_multiple_of(PAGE);
    Some(Attachment {
        options: bytes.get(HEADER..HEADER.checked_add(options)?)?,
        model: (inside && start < end).then_some(start..end),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn head() -> Vec<u8> {
        let mut head = [0; 4096];
        head[0x3c] = 0x40;
        head[0x40..0x44].copy_from_slice(b"PE\0\0");
        head[0x46] = 2;
        head[0x54] = 16;
        let table = 0x40 + 24 + 16;
        head[table..table + 5].copy_from_slice(b".text");
        let section = table + 40;
        head[section..section + 8].copy_from_slice(NAME);
        head[section + 8..section + 12].copy_from_slice(&8192u32.to_le_bytes());
        head[section + 12..section + 16].copy_from_slice(&0x30_0000u32.to_le_bytes());
        head.into()
    }

    fn attachment() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(4096u32.to_le_bytes());
        bytes.extend(100u64.to_le_bytes());
        bytes.extend(b"name=tx");
        bytes.resize(8192, 0);
        bytes
    }

    #[test]
    fn options_and_model_are_found() {
        assert_eq!(place(&head()), Some(0x30_0000..0x30_2000));
        let bytes = attachment();
        let found = read(&bytes, 0x50_0000).unwrap();
        assert_eq!(found.options, b"name=tx");
        assert_eq!(found.model, Some(0x50_1000..0x50_1064));
    }

    #[test]
    fn without_a_section_there_is_nothing() {
        let mut bare = head();
        bare[0x46] = 1;
        assert_eq!(place(&bare), None);
        assert_eq!(place(&[0; 4096]), None);
    }

    #[test]
    fn no_bytes_make_it_panic_or_leave_the_section() {
        let (head, whole) = (head(), attachment());
        for at in 0..128 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = head.clone();
                bad[at] = value;
                place(&bad);
                let mut bad = whole.clone();
                bad[at] = value;
                if let Some(Attachment {
                    model: Some(model), ..
                }) = read(&bad, 0x50_0000)
                {
                    assert!(model.start >= 0x50_0000 && model.end <= 0x50_2000);
                }
            }
            assert!(read(&whole[..at], 0).is_none_or(|a| a.model.is_none()));
            place(&head[..at]);
        }
    }
}
