//! A data partition, byte by byte. Numbers are little-endian.
//!
//! It is counted in units of 4 KiB. The first two are superblocks, the others a ring of records that begin at units: a
//! header, what was put, and zeros up to the next unit.

use strata_image::le;
use strata_platform::PageKey;
use strata_weights::crc32;

/// What everything is a multiple of.
pub(super) const UNIT: usize = 4096;
/// Units before the ring.
pub(super) const SUPERBLOCKS: u64 = 2;
/// Bytes before what was put.
pub(super) const HEADER: usize = 84;

const VERSION: u32 = 1;
const OF_SUPERBLOCK: &[u8; 8] = b"STRATLOG";
const OF_RECORD: &[u8; 8] = b"STRATREC";
const SUPERBLOCK: usize = 56;

/// Where the ring's oldest record is. The one of the two with the higher generation counts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) generation: u64,
    /// What records of this log are marked with: a partition that began anew has others on it too.
    pub(super) log: u64,
    /// Units of the ring.
    pub(super) units: u64,
    /// The unit of the ring where the oldest record is, and its number.
    pub(super) tail: u64,
    pub(super) sequence: u64,
}

/// What a unit is that should be a superblock.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Superblock(Superblock),
    /// One of a version that is not known.
    Foreign(u32),
    /// None, or a damaged one.
    Nothing,
}

impl Superblock {
    pub(super) fn write(&self) -> [u8; UNIT] {
        let mut unit = [0; UNIT];
        unit[..8].copy_from_slice(OF_SUPERBLOCK);
        unit[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let fields = [
            self.generation,
            self.log,
            self.units,
            self.tail,
            self.sequence,
        ];
        for (field, place) in fields.iter().zip(unit[16..].chunks_exact_mut(8)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = crc32(&unit[..SUPERBLOCK]);
        unit[SUPERBLOCK..SUPERBLOCK + 4].copy_from_slice(&sum.to_le_bytes());
        unit
    }

    pub(super) fn read(unit: &[u8]) -> Found {
        let read = || {
            let sum = le::u32(unit, SUPERBLOCK)?;
            let whole = unit.starts_with(OF_SUPERBLOCK) && crc32(&unit[..SUPERBLOCK]) == sum;
            let version = le::u32(unit, 8).filter(|_| whole)?;
            if version != VERSION {
                return Some(Found::Foreign(version));
            }
            let field = |index: usize| le::u64(unit, 16 + 8 * index);
            let superblock = Self {
                generation: field(0)?,
                log: field(1)?,
                units: field(2)?,
                tail: field(3)?,
                sequence: field(4)?,
            };
            let sound = superblock.tail < superblock.units && superblock.generation < u64::MAX;
            sound.then_some(Found::Superblock(superblock))
        };
        read().unwrap_or(Found::Nothing)
    }
}

/// What a record is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A page of a cache, which may be given up.
    Page,
    /// What somebody has saved, which may not.
    Saved,
    /// Says that everything before it was flushed before it was written.
    Commit,
    /// Says that the ring goes on at its beginning.
    Jump,
}

const KINDS: [Kind; 4] = [Kind::Page, Kind::Saved, Kind::Commit, Kind::Jump];

/// What stands at the beginning of a record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Units of the record.
    pub(super) units: u64,
    /// Records are numbered without gaps.
    pub(super) sequence: u64,
    pub(super) log: u64,
    /// The sum of the header before it: what was written before a power cut, and not committed, is no continuation of
    /// what was written after it.
    pub(super) previous: u32,
    /// The sum of what was put, and how many bytes it has.
    pub(super) checksum: u32,
    pub(super) bytes: u64,
    pub(super) key: PageKey,
}

impl Header {
    /// With its own sum at its end.
    pub(super) fn write(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(OF_RECORD);
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        out[8] = kind.unwrap_or_default() as u8;
        out[12..16].copy_from_slice(&(self.units as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.log.to_le_bytes());
        out[32..36].copy_from_slice(&self.previous.to_le_bytes());
        out[36..40].copy_from_slice(&self.checksum.to_le_bytes());
        out[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        out[48..80].copy_from_slice(&self.key);
        let sum = crc32(&out[..80]);
        out[80..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The header that a unit begins with, and its sum, if there is one and the record can be so long.
    pub(super) fn read(unit: &[u8]) -> Option<(Self, u32)> {
        let (bytes, _) = unit.split_first_chunk::<HEADER>()?;
        let sum = le::u32(bytes, 80)?;
        if !bytes.starts_with(OF_RECORD) || crc32(&bytes[..80]) != sum {
            return None;
        }
        let header = Self {
            kind: *KINDS.get(usize::from(bytes[8]))?,
            units: le::u32(bytes, 12)?.into(),
            sequence: le::u64(bytes, 16)?,
            log: le::u64(bytes, 24)?,
            previous: le::u32(bytes, 32)?,
            checksum: le::u32(bytes, 36)?,
            bytes: le::u64(bytes, 40)?,
            key: bytes[48..80].try_into().ok()?,
        };
        let units = units_of(header.bytes)?;
        let fits = match header.kind {
            Kind::Jump => header.units >= units,
            _ => header.units == units,
        };
        fits.then_some((header, sum))
    }
}

/// Units of a record of so many bytes.
pub(super) fn units_of(bytes: u64) -> Option<u64> {
    Some(bytes.checked_add(HEADER as u64)?.div_ceil(UNIT as u64))
}
