//! What a character is: its general category and three properties, as one bit mask that sets are tested against.
//!
//! The table follows Oniguruma, the engine behind Hugging Face's `tokenizers`. llama.cpp carries an older Unicode, so
//! characters assigned since then may split differently there.

use super::unicode_table::RANGES;

pub(crate) const LU: u32 = 1 << 0;
pub(crate) const LL: u32 = 1 << 1;
pub(crate) const LT: u32 = 1 << 2;
pub(crate) const LM: u32 = 1 << 3;
pub(crate) const LO: u32 = 1 << 4;
pub(crate) const MN: u32 = 1 << 5;
pub(crate) const MC: u32 = 1 << 6;
pub(crate) const ME: u32 = 1 << 7;
pub(crate) const ND: u32 = 1 << 8;
pub(crate) const NL: u32 = 1 << 9;
pub(crate) const NO: u32 = 1 << 10;
pub(crate) const P: u32 = 1 << 11;
pub(crate) const S: u32 = 1 << 12;
pub(crate) const CC: u32 = 1 << 14;
pub(crate) const CF: u32 = 1 << 15;
pub(crate) const CO: u32 = 1 << 16;
/// The character belongs to the Han script.
pub(crate) const HAN: u32 = 1 << 18;
/// The character has the White_Space property.
pub(crate) const WS: u32 = 1 << 19;
/// Carriage return or line feed.
pub(crate) const NEWLINE: u32 = 1 << 20;

pub(crate) const L: u32 = LU | LL | LT | LM | LO;
pub(crate) const M: u32 = MN | MC | ME;
pub(crate) const N: u32 = ND | NL | NO;
/// Every category: what a negated set starts from.
pub(crate) const ANY: u32 = (1 << 18) - 1;

/// The category bit of a character, with the bits of the properties it has.
#[inline]
pub(crate) fn mask(c: char) -> u32 {
    match ASCII.get(c as usize) {
        Some(mask) => *mask,
        None => look_up(c as u32),
    }
}

const ASCII: [u32; 128] = {
    let mut masks = [0; 128];
    let mut range = 0;
    let mut c = 0;
    while c < 128 {
        while RANGES[range + 1] >> 8 <= c as u32 {
            range += 1;
        }
        masks[c] = decode(RANGES[range]);
        c += 1;
    }
    masks
};

const fn decode(entry: u32) -> u32 {
    let properties = entry >> 5 & 7;
    1 << (entry & 31) | properties << 18
}

fn look_up(point: u32) -> u32 {
    let after = RANGES.partition_point(|entry| entry >> 8 <= point);
    after
        .checked_sub(1)
        .and_then(|i| RANGES.get(i))
        .map_or(0, |e| decode(*e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_match_known_characters() {
        for (c, expected) in [
            ('A', LU),
            ('z', LL),
            ('ǅ', LT),
            ('ʰ', LM),
            ('ש', LO),
            ('\u{301}', MN),
            ('\u{903}', MC),
            ('\u{20dd}', ME),
            ('7', ND),
            ('٣', ND),
            ('Ⅷ', NL),
            ('½', NO),
            ('!', P),
            ('€', S),
            ('\u{0}', CC),
            ('\u{200d}', CF),
            ('\u{e000}', CO),
            ('\n', CC | WS | NEWLINE),
            ('\u{85}', CC | WS),
            ('漢', LO | HAN),
            ('〇', NL | HAN),
        ] {
            assert_eq!(mask(c), expected, "{c:?}");
        }
        assert_eq!(mask(' ') & WS, WS);
        assert_eq!(mask('\u{3000}') & WS, WS);
        assert_eq!(mask(char::MAX) & (L | M | N | P | S | WS), 0);
    }

    #[test]
    fn white_space_is_the_unicode_property() {
        for c in '\0'..=char::MAX {
            assert_eq!(mask(c) & WS != 0, c.is_whitespace(), "{c:?}");
        }
    }
}
