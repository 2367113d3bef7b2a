//! The part of zip that PyTorch writes: entries that are stored or deflated, and the 64-bit extension.
//!
//! The format is described in PKWARE's APPNOTE. The directory at the end is believed only where the entries agree.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::error::ZipError;
use crate::crc32;
use crate::gguf::Name;

/// The most entries of an archive: a storage for each tensor, and a handful more.
pub(super) const MAX_ENTRIES: u64 = 1 << 17;
/// What an entry may grow by. Weights hardly shrink; a bomb has a thousand.
const MAX_RATIO: u64 = 100;

const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const LOCAL: u32 = 0x0403_4b50;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// One entry's data.
#[derive(Copy, Clone, Debug)]
pub(super) struct Entry<'a> {
    /// As it lies in the file.
    pub(super) bytes: &'a [u8],
    pub(super) deflated: bool,
    /// Bytes when it is not compressed.
    pub(super) len: u64,
    /// The checksum of what it holds; 0 where none was recorded, as PyTorch can be told to do.
    pub(super) crc: u32,
    start: u64,
}

impl Entry<'_> {
    /// Whether a stored entry is what was written. A compressed one is checked when it is unpacked.
    pub(super) fn is_sound(&self) -> bool {
        self.deflated || self.crc == 0 || crc32(self.bytes) == self.crc
    }
}

/// Bytes at a place in the file.
fn at<const N: usize>(file: &[u8], offset: u64, plus: u64) -> Option<[u8; N]> {
    let start = usize::try_from(offset.checked_add(plus)?).ok()?;
    file.get(start..start.checked_add(N)?)?.try_into().ok()
}

fn u16_at(file: &[u8], offset: u64, plus: u64) -> Option<u16> {
    at(file, offset, plus).map(u16::from_le_bytes)
}

fn u32_at(file: &[u8], offset: u64, plus: u64) -> Option<u32> {
    at(file, offset, plus).map(u32::from_le_bytes)
}

fn u64_at(file: &[u8], offset: u64, plus: u64) -> Option<u64> {
    at(file, offset, plus).map(u64::from_le_bytes)
}

fn slice(file: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let end = usize::try_from(start.checked_add(len)?).ok()?;
    file.get(usize::try_from(start).ok()?..end)
}

/// Where the directory is and how many entries it has.
struct Directory {
    offset: u64,
    count: u64,
}

fn directory(file: &[u8]) -> Result<Directory, ZipError> {
    let len = file.len() as u64;
    // The end record is 22 bytes and a comment whose length it states.
    let last = len.checked_sub(22).ok_or(ZipError::NoDirectory)?;
    let first = last.saturating_sub(u64::from(u16::MAX));
    let is_end = |&offset: &u64| {
        u32_at(file, offset, 0) == Some(END)
            && u16_at(file, offset, 20).map(u64::from) == Some(last - offset)
    };
    let end = (first..=last).rev().find(is_end);
    let end = end.ok_or(ZipError::NoDirectory)?;
    let damaged = ZipError::Directory { offset: end };
    let locator = end.checked_sub(20);
    if let Some(locator) = locator.filter(|&at| u32_at(file, at, 0) == Some(LOCATOR64)) {
        let read = || {
            let record = u64_at(file, locator, 8)?;
            (u32_at(file, record, 0)? == END64).then_some(Directory {
                count: u64_at(file, record, 32)?,
                offset: u64_at(file, record, 48)?,
            })
        };
        return read().ok_or(damaged);
    }
    let read = || {
        let disks = (u16_at(file, end, 4)?, u16_at(file, end, 6)?);
        let directory = Directory {
            count: u16_at(file, end, 10)?.into(),
            offset: u32_at(file, end, 16)?.into(),
        };
        Some((disks, directory))
    };
    match read() {
        Some(((0, 0), directory)) => Ok(directory),
        Some(_) => Err(ZipError::Volumes),
        None => Err(damaged),
    }
}

/// The entries of an archive by name.
pub(super) fn entries(file: &[u8]) -> Result<BTreeMap<&str, Entry<'_>>, ZipError> {
    let Directory { mut offset, count } = directory(file)?;
    if count > MAX_ENTRIES {
        return Err(ZipError::EntryCount { count });
    }
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let (name, entry, next) = central(file, offset)?;
        if entries.insert(name, entry).is_some() {
            return Err(ZipError::Duplicate {
                entry: Name::new(name),
            });
        }
        offset = next;
    }
    // Entries that share bytes are how small bombs grow large.
    let mut extents: Vec<_> = entries
        .iter()
        .map(|(name, entry)| (entry.start, entry.start + entry.bytes.len() as u64, *name))
        .collect();
    extents.sort_unstable();
    match extents.array_windows().find(|[a, b]| a.1 > b.0) {
        Some([a, b]) => Err(ZipError::Overlap {
            entry: Name::new(a.2),
            other: Name::new(b.2),
        }),
        None => Ok(entries),
    }
}

/// One line of the directory, and where the next begins.
fn central(file: &[u8], offset: u64) -> Result<(&str, Entry<'_>, u64), ZipError> {
    let damaged = ZipError::Directory { offset };
    let read = || {
        (u32_at(file, offset, 0)? == CENTRAL).then_some(())?;
        let name_len = u64::from(u16_at(file, offset, 28)?);
        let extra_len = u64::from(u16_at(file, offset, 30)?);
        let comment_len = u64::from(u16_at(file, offset, 32)?);
        let name = core::str::from_utf8(slice(file, offset + 46, name_len)?).ok()?;
        let extra = slice(file, offset + 46 + name_len, extra_len)?;
        let mut fields = [
            u64::from(u32_at(file, offset, 24)?),
            u64::from(u32_at(file, offset, 20)?),
            u64::from(u32_at(file, offset, 42)?),
        ];
        widen(&mut fields, extra)?;
        let kind = [8, 10].map(|at| u16_at(file, offset, at));
        let crc = u32_at(file, offset, 16)?;
        let next = offset + 46 + name_len + extra_len + comment_len;
        Some((name, fields, (kind[0]?, kind[1]?, crc), next))
    };
    let (name, [len, compressed, start], (flags, method, crc), next) = read().ok_or(damaged)?;
    let entry = || Name::new(name);
    let climbs = name.split(['/', '\\']).any(|part| part == "..");
    if climbs || name.starts_with(['/', '\\']) || name.contains(':') {
        return Err(ZipError::Path { entry: entry() });
    }
    let encrypted = flags & 1 != 0;
    if encrypted || !matches!(method, STORED | DEFLATED) {
        return Err(ZipError::Method { entry: entry() });
    }
    let local = || {
        (u32_at(file, start, 0)? == LOCAL).then_some(())?;
        let name_len = u64::from(u16_at(file, start, 26)?);
        let extra_len = u64::from(u16_at(file, start, 28)?);
        let same = slice(file, start + 30, name_len)? == name.as_bytes();
        let same = same && u16_at(file, start, 8)? == method;
        slice(file, start + 30 + name_len + extra_len, compressed).filter(|_| same)
    };
    let bytes = local().ok_or_else(|| ZipError::Extent { entry: entry() })?;
    let deflated = method == DEFLATED;
    if !deflated && len != compressed {
        return Err(ZipError::Extent { entry: entry() });
    }
    if deflated && len > compressed.saturating_mul(MAX_RATIO) {
        return Err(ZipError::Ratio {
            entry: entry(),
            len,
            compressed,
        });
    }
    let entry = Entry {
        bytes,
        deflated,
        len,
        crc,
        start,
    };
    Ok((name, entry, next))
}

/// Replaces the fields that are all ones by those of the 64-bit extension. `None` where it lacks them.
fn widen(fields: &mut [u64; 3], mut extra: &[u8]) -> Option<()> {
    const ALL_ONES: u64 = u32::MAX as u64;
    if !fields.contains(&ALL_ONES) {
        return Some(());
    }
    while let Some((head, rest)) = extra.split_first_chunk::<4>() {
        let [id, len] = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_le_bytes);
        let (mut body, rest) = rest.split_at_checked(len.into())?;
        extra = rest;
        if id != 1 {
            continue;
        }
        for field in fields.iter_mut().filter(|field| **field == ALL_ONES) {
            let (value, rest) = body.split_first_chunk::<8>()?;
            *field = u64::from_le_bytes(*value);
            body = rest;
        }
        return Some(());
    }
    None
}

/// Unpacks a deflated entry of exactly `len` bytes with this checksum.
pub(crate) fn inflate(bytes: &[u8], len: usize, crc: u32) -> Option<Vec<u8>> {
    let out = miniz_oxide::inflate::decompress_to_vec_with_limit(bytes, len).ok()?;
    (out.len() == len && (crc == 0 || crc32(&out) == crc)).then_some(out)
}
