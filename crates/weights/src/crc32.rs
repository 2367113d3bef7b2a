//! CRC-32 as ZIP has it, eight bytes at a time: models are large.

/// What a byte adds, by the number of bytes that follow it in its group.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut byte = 0;
        while byte < 256 {
            let sum = tables[after - 1][byte];
            tables[after][byte] = (sum >> 8) ^ tables[0][(sum & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// The CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    let (groups, rest) = bytes.as_chunks::<8>();
    let sum = groups.iter().fold(!0u32, |sum, group| {
        let group = (u64::from_le_bytes(*group) ^ u64::from(sum)).to_le_bytes();
        let tables = TABLES.iter().rev();
        tables
            .zip(group)
            .fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    });
    !rest.iter().fold(sum, |sum, &byte| {
        (sum >> 8) ^ TABLES[0][usize::from(sum as u8 ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn check_values() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let text = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(crc32(text), 0x414f_a339);
    }
}
