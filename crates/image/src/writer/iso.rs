//! A disc: ISO 9660 (ECMA-119) with an El Torito entry for EFI, whose volume is an EFI system partition by GPT too, so
//! that the same file works on a stick.

use super::gpt::{self, Part, SECTOR};
use super::names::padded;
use crate::Layout;
use thiserror::Error;

const BLOCK: u64 = 2048;
const ROOT: u32 = 21;
const CATALOG: u32 = 22;
/// Where the volume begins, in the disc's blocks. The GPT's front half is in the blocks before 16.
const VOLUME: u32 = 32;
/// The same in sectors.
pub(crate) const VOLUME_SECTOR: u32 = VOLUME * (BLOCK / SECTOR) as u32;
const CATALOG_NAME: &[u8] = b"BOOT.CAT;1";
const VOLUME_NAME: &[u8] = b"EFIBOOT.IMG;1";

/// Why there is no disc.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum IsoError {
    /// The lengths of files have 32 bits.
    #[error("a volume of {bytes} bytes does not fit on a disc, where files have less than 4 GiB")]
    TooLarge {
        /// The volume's bytes.
        bytes: u64,
    },
}

/// A disc that boots from a volume.
pub fn disc<'a>(volume: Layout<'a>, label: &str) -> Result<Layout<'a>, IsoError> {
    let too_large = IsoError::TooLarge {
        bytes: volume.len(),
    };
    let bytes = volume.len().next_multiple_of(BLOCK);
    let length = u32::try_from(bytes).map_err(|_| too_large)?;
    let fingerprint = volume.fingerprint();
    let mut disc = Layout::new(0);
    disc.embed(u64::from(VOLUME) * BLOCK, volume);
    disc.pad(BLOCK);
    let part = Part::system(VOLUME_SECTOR.into(), bytes / SECTOR);
    gpt::partition(&mut disc, &[part], fingerprint);
    let blocks = (disc.len() / BLOCK) as u32;
    let mut at = |block: u32, bytes: Vec<u8>| disc.put(u64::from(block) * BLOCK, bytes);
    at(16, primary(label, blocks));
    at(17, boot_record());
    at(18, b"\xffCD001\x01".to_vec());
    at(19, path_table(u32::to_le_bytes, u16::to_le_bytes));
    at(20, path_table(u32::to_be_bytes, u16::to_be_bytes));
    at(ROOT, root(length));
    at(CATALOG, catalog(bytes / SECTOR));
    Ok(disc)
}

/// A number in both orders.
fn both_32(value: u32) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

fn both_16(value: u16) -> Vec<u8> {
    [value.to_le_bytes(), value.to_be_bytes()].concat()
}

fn primary(label: &str, blocks: u32) -> Vec<u8> {
    let mut out = b"\x01CD001\x01\0".to_vec();
    out.extend(padded("", 32));
    out.extend(padded(label, 32));
    out.extend([0; 8]);
    out.extend(both_32(blocks));
    out.extend([0; 32]);
    for value in [1, 1, BLOCK as u16] {
        out.extend(both_16(value));
    }
    out.extend(both_32(10));
    // Where the path tables are, for each order, and their copies, of which there are none.
    out.extend([19u32, 0].map(u32::to_le_bytes).concat());
    out.extend([20u32, 0].map(u32::to_be_bytes).concat());
    out.extend(record(&[0], ROOT, BLOCK as u32, 2));
    for bytes in [128, 128, 128, 128, 37, 37, 37] {
        out.extend(padded("", bytes));
    }
    // Four dates that are not given.
    for _ in 0..4 {
        out.extend(*b"0000000000000000\0");
    }
    out.extend([1, 0]);
    out
}

/// A directory record.
fn record(name: &[u8], block: u32, bytes: u32, flags: u8) -> Vec<u8> {
    let mut out = vec![0; 2];
    out.extend(both_32(block));
    out.extend(both_32(bytes));
    // The first day of 1980, as on the volume.
    out.extend([80, 1, 1, 0, 0, 0, 0, flags, 0, 0]);
    out.extend(both_16(1));
    out.push(name.len() as u8);
    out.extend(name);
    out.resize(out.len().next_multiple_of(2), 0);
    out[0] = out.len() as u8;
    out
}

fn root(volume_bytes: u32) -> Vec<u8> {
    let own = |name: u8| record(&[name], ROOT, BLOCK as u32, 2);
    let mut out = [own(0), own(1)].concat();
    out.extend(record(CATALOG_NAME, CATALOG, BLOCK as u32, 0));
    out.extend(record(VOLUME_NAME, VOLUME, volume_bytes, 0));
    out
}

fn path_table(u32_bytes: fn(u32) -> [u8; 4], u16_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let mut out = vec![1, 0];
    out.extend(u32_bytes(ROOT));
    out.extend(u16_bytes(1));
    out.extend([0, 0]);
    out
}

fn boot_record() -> Vec<u8> {
    let mut out = b"\0CD001\x01EL TORITO SPECIFICATION".to_vec();
    out.resize(71, 0);
    out.extend(CATALOG.to_le_bytes());
    out
}

/// One entry, for EFI, without emulation.
fn catalog(sectors: u64) -> Vec<u8> {
    let mut out = vec![1, 0xef, 0, 0];
    out.resize(28, 0);
    out.extend([0, 0, 0x55, 0xaa]);
    let words = out.chunks_exact(2);
    let sum = words.fold(0u16, |sum, word| {
        sum.wrapping_add(u16::from_le_bytes([word[0], word[1]]))
    });
    out[28..30].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
    out.extend([0x88, 0, 0, 0, 0, 0]);
    // More than can be said is said as none, which stands for all the rest of the disc.
    out.extend(u16::try_from(sectors).unwrap_or(0).to_le_bytes());
    out.extend(VOLUME.to_le_bytes());
    out
}
