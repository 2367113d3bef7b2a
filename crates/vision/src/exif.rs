//! The one thing that is read of EXIF: which way is up (CIPA DC-008, 4.6.4, tag 0x0112).

/// The orientation, from 1 to 8; 1, which is upright, where the bytes do not say.
pub(crate) fn orientation(exif: &[u8]) -> u8 {
    // JPEG files have a name before the TIFF header.
    let tiff = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    read(tiff).unwrap_or(1)
}

fn read(tiff: &[u8]) -> Option<u8> {
    let little = match tiff.get(..4)? {
        [b'I', b'I', 42, 0] => true,
        [b'M', b'M', 0, 42] => false,
        _ => return None,
    };
    let number = |at: usize, len: usize| -> Option<usize> {
        let bytes = tiff.get(at..at.checked_add(len)?)?;
        let join = |all: usize, byte: &u8| all << 8 | usize::from(*byte);
        Some(if little {
            bytes.iter().rev().fold(0, join)
        } else {
            bytes.iter().fold(0, join)
        })
    };
    let table = number(4, 4)?;
    let entries = number(table, 2)?;
    (0..entries).find_map(|entry| {
        let at = table.checked_add(2 + 12 * entry)?;
        let (tag, kind) = (number(at, 2)?, number(at + 2, 2)?);
        let value = number(at + 8, 2)?;
        let says = tag == 0x0112 && kind == 3 && (1..=8).contains(&value);
        says.then_some(value as u8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders_are_read_and_nonsense_is_upright() {
        let little = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0";
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0";
        assert_eq!(orientation(little), 6);
        assert_eq!(orientation(big), 8);
        for end in 0..big.len() - 3 {
            assert_eq!(orientation(&big[..end]), 1, "{end}");
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff"), 1);
        assert_eq!(orientation(b""), 1);
    }
}
