//! Names on FAT volumes: eight and three characters, and the long ones beside them.

/// Text with spaces behind it, cut off where it is too long.
pub(crate) fn padded(text: &str, bytes: usize) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    out.resize(bytes, b' ');
    out
}

/// The short name of a file, and whether it says all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortName {
    pub(crate) bytes: [u8; 11],
    pub(crate) complete: bool,
}

impl ShortName {
    /// A short name for the file of this number in its folder, which keeps those that need it apart.
    pub(crate) fn new(name: &str, number: usize) -> Self {
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-~!#$%&@^".contains(c);
        let clean = |text: &str| -> String {
            let usable = text.chars().filter(|c| *c != ' ' && *c != '.');
            let usable = usable.map(|c| {
                if plain(c) {
                    c.to_ascii_uppercase()
                } else {
                    '_'
                }
            });
            usable.collect()
        };
        let (short_stem, short_ending) = (clean(stem), clean(ending));
        let fits = short_stem.len() <= 8 && short_ending.len() <= 3 && !short_stem.is_empty();
        let complete = fits && short_stem == stem && short_ending == ending;
        let same =
            fits && short_stem == stem.to_uppercase() && short_ending == ending.to_uppercase();
        let stem = if same {
            short_stem
        } else {
            let tail = format!("~{}", number + 1);
            short_stem.chars().take(8 - tail.len()).collect::<String>() + &tail
        };
        let mut bytes = [b' '; 11];
        bytes[..8].copy_from_slice(&padded(&stem, 8));
        bytes[8..].copy_from_slice(&padded(&short_ending, 3));
        Self { bytes, complete }
    }

    fn checksum(&self) -> u8 {
        let add = |sum: u8, byte: &u8| sum.rotate_right(1).wrapping_add(*byte);
        self.bytes.iter().fold(0, add)
    }

    /// The entries of the long name that stand before the file's own.
    pub(crate) fn long_entries(&self, name: &str) -> Vec<[u8; 32]> {
        if self.complete {
            return Vec::new();
        }
        let units: Vec<u16> = name.encode_utf16().collect();
        let count = units.len().div_ceil(13);
        let part = |index: usize| {
            let mut entry = [0xff; 32];
            entry[0] = (index + 1) as u8 | if index + 1 == count { 0x40 } else { 0 };
            entry[11..14].copy_from_slice(&[0x0f, 0, self.checksum()]);
            entry[26..28].fill(0);
            let places = (1..11)
                .step_by(2)
                .chain((14..26).step_by(2))
                .chain([28, 30]);
            // A zero ends the name, and what follows stays as it is.
            let text = units[13 * index..].iter().copied().chain([0]);
            for (place, unit) in places.zip(text) {
                entry[place..place + 2].copy_from_slice(&unit.to_le_bytes());
            }
            entry
        };
        (0..count).rev().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_as_other_systems_make_them() {
        let short = |name| ShortName::new(name, 0);
        assert_eq!(&short("BOOTX64.EFI").bytes, b"BOOTX64 EFI");
        assert!(short("BOOTX64.EFI").complete);
        assert_eq!(&short("strata.toml").bytes, b"STRATA~1TOM");
        assert_eq!(&short("efi").bytes, b"EFI        ");
        assert!(!short("efi").complete);
        assert_eq!(
            &ShortName::new("my long file é.txt", 11).bytes,
            b"MYLON~12TXT"
        );
    }

    #[test]
    fn long_names_go_backwards() {
        let name = "strata.gguf-and-more";
        let entries = ShortName::new(name, 0).long_entries(name);
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[0][0], entries[1][0]), (0x42, 1));
        assert_eq!(&entries[1][1..5], b"s\0t\0");
        assert_eq!(ShortName::new("EFI", 0).long_entries("EFI").len(), 0);
    }
}
