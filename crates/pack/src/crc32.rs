//! CRC-32 as ZIP has it, eight bytes at a time: models are large.

const TABLES: [[u32; 256]; 8] = tables();

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
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 255) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(!0u32, |sum, word| {
        let word = u64::from_le_bytes(*word) ^ u64::from(sum);
        let bytes = word.to_le_bytes();
        (0..8).fold(0, |sum, i| sum ^ TABLES[7 - i][usize::from(bytes[i])])
    });
    let next = |sum: u32, &byte: &u8| (sum >> 8) ^ TABLES[0][usize::from(sum as u8 ^ byte)];
    !rest.iter().fold(sum, next)
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_check_value_of_the_catalogue() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(crc32(&bytes), 0x2905_8c73);
    }
}
