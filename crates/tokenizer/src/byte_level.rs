//! GPT-2's alphabet: a printable character for each of the 256 bytes.

use alloc::vec::Vec;

/// The character that stands for each byte.
pub(crate) const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let (mut byte, mut shifted) = (0_usize, 0);
    while byte < 256 {
        let point = if stands_for_itself(byte as u32) {
            byte as u32
        } else {
            shifted += 1;
            255 + shifted
        };
        chars[byte] = match char::from_u32(point) {
            Some(c) => c,
            None => '\0',
        };
        byte += 1;
    }
    chars
};

const fn stands_for_itself(point: u32) -> bool {
    matches!(point, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The byte a character stands for.
pub(crate) fn byte(c: char) -> Option<u8> {
    match c as u32 {
        point if stands_for_itself(point) => Some(point as u8),
        // 0 to 32, 127 to 160 and 173, in that order.
        point @ 0x100..=0x120 => Some((point - 0x100) as u8),
        point @ 0x121..=0x142 => Some((point - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Adds the bytes a token stands for. One with a character outside the alphabet stands for its own text.
pub(crate) fn decode(token: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for c in token.chars() {
        let Some(byte) = byte(c) else {
            out.truncate(start);
            out.extend_from_slice(token.as_bytes());
            return;
        };
        out.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for value in 0..=255_u8 {
            assert_eq!(byte(CHARS[usize::from(value)]), Some(value));
        }
        assert_eq!(CHARS[usize::from(b' ')], 'Ġ');
        assert_eq!(CHARS[usize::from(b'\n')], 'Ċ');
        assert_eq!(byte('Ń'), Some(0xad));
        assert_eq!(byte('ń'), None);
    }
}
