//! Archives of stored files behind a program, as PKWARE's APPNOTE 6.3 has them, with 64-bit sizes throughout. Files that
//! are mapped begin at multiples of 64 KiB, the largest page of the systems that matter.

use crate::error::PackError;
use std::borrow::Cow;
use std::ops::Range;
use strata_image::Layout;
use strata_weights::crc32;

pub(crate) const MODEL_ALIGNMENT: u64 = 64 << 10;

/// 1 January 1980, midnight: the first moment that the format knows.
const DATE: u16 = 0x0021;
/// Readers need version 4.5, for 64-bit sizes.
const VERSION: u16 = 45;
/// Made on Unix, for the modes of files.
const MADE_BY: u16 = 3 << 8 | VERSION;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const IN_EXTRA: u32 = u32::MAX;
const MODE: u32 = 0o100_644 << 16;
/// What tells our archives from others: the comment at the very end.
const COMMENT: &[u8] = b"strata pack";

const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;
const LOCAL_BYTES: u64 = 30;
const LOCAL_EXTRA: u64 = 20;
const CENTRAL_BYTES: usize = 46;
const CENTRAL_EXTRA: usize = 28;
const END_64_BYTES: usize = 56;
const LOCATOR_BYTES: usize = 20;
const END_BYTES: usize = 22;
/// More entries than any artifact has.
const MOST_ENTRIES: u64 = 1024;

/// A file to be archived.
pub(crate) struct NewEntry<'a> {
    pub(crate) name: String,
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) align: u64,
}

/// Little-endian fields, one after the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

/// Appends an archive to what is there. Offsets count from the file's beginning, so that every reader finds its way.
pub(crate) fn append<'a>(
    layout: &mut Layout<'a>,
    entries: Vec<NewEntry<'a>>,
) -> Result<(), PackError> {
    let count = entries.len() as u64;
    let mut directory = Fields::default();
    for entry in entries {
        let (name, size) = (entry.name.as_bytes(), entry.bytes.len() as u64);
        let name_length =
            u16::try_from(name.len()).map_err(|_| PackError::Name(entry.name.clone()))?;
        let head = LOCAL_BYTES + u64::from(name_length) + LOCAL_EXTRA;
        let data = (layout.len() + head).next_multiple_of(entry.align);
        let at = data - head;
        let sum = crc32(&entry.bytes);
        let common = |fields: Fields| {
            fields
                .u16(VERSION)
                .u16(FLAGS)
                .u16(0)
                .u16(0)
                .u16(DATE)
                .u32(sum)
                .u32(IN_EXTRA)
                .u32(IN_EXTRA)
                .u16(name_length)
        };
        let local = common(Fields::default().u32(LOCAL))
            .u16(LOCAL_EXTRA as u16)
            .bytes(name)
            .u16(1)
            .u16(16)
            .u64(size)
            .u64(size);
        directory = common(directory.u32(CENTRAL).u16(MADE_BY))
            .u16(CENTRAL_EXTRA as u16)
            .u16(0)
            .u16(0)
            .u16(0)
            .u32(MODE)
            .u32(IN_EXTRA)
            .bytes(name)
            .u16(1)
            .u16(24)
            .u64(size)
            .u64(size)
            .u64(at);
        layout.put(at, local.0);
        layout.put(data, entry.bytes);
    }
    let (at, size) = (layout.len(), directory.0.len() as u64);
    let end = directory
        .u32(END_64)
        .u64(END_64_BYTES as u64 - 12)
        .u16(MADE_BY)
        .u16(VERSION)
        .u32(0)
        .u32(0)
        .u64(count)
        .u64(count)
        .u64(size)
        .u64(at)
        .u32(LOCATOR_64)
        .u32(0)
        .u64(at + size)
        .u32(1)
        .u32(END)
        .u16(0)
        .u16(0)
        .u16(u16::MAX)
        .u16(u16::MAX)
        .u32(u32::MAX)
        .u32(u32::MAX)
        .u16(COMMENT.len() as u16)
        .bytes(COMMENT);
    layout.put(at, end.0);
    Ok(())
}

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Where its bytes are in the whole file.
    pub range: Range<u64>,
}

/// An archive that [`Contents::layout`](crate::Contents::layout) appended, taken apart.
#[derive(Clone, Debug)]
pub struct Zip {
    /// Its files, in order.
    pub entries: Vec<Entry>,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], at: u64, what: &'static str) -> Result<Self, PackError> {
        let start = usize::try_from(at).ok().filter(|at| *at <= bytes.len());
        let at = start.ok_or(PackError::Damaged { what, at })?;
        Ok(Self { bytes, at, what })
    }

    fn damaged(&self) -> PackError {
        PackError::Damaged {
            what: self.what,
            at: self.at as u64,
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], PackError> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len());
        let taken = end.map(|end| &self.bytes[self.at..end]);
        let taken = taken.ok_or_else(|| self.damaged())?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self, count: usize) -> Result<u64, PackError> {
        let bytes = self.take(count)?.iter().rev();
        Ok(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn expect(&mut self, value: u64, count: usize) -> Result<(), PackError> {
        let error = self.damaged();
        if self.number(count)? == value {
            Ok(())
        } else {
            Err(error)
        }
    }
}

impl Zip {
    /// Whether a file ends as our archives do.
    pub fn is_at_end_of(bytes: &[u8]) -> bool {
        bytes.ends_with(COMMENT)
    }

    /// Reads the directory at the end of a file.
    pub fn read(bytes: &[u8]) -> Result<Self, PackError> {
        if !Self::is_at_end_of(bytes) {
            return Err(PackError::Unknown);
        }
        let tail = LOCATOR_BYTES + END_BYTES + COMMENT.len();
        let locator = bytes.len().checked_sub(tail).ok_or(PackError::Unknown)?;
        let mut reader = Reader::new(bytes, locator as u64, "the end of the archive")?;
        reader.expect(LOCATOR_64.into(), 4)?;
        reader.expect(0, 4)?;
        let end = reader.number(8)?;
        let mut reader = Reader::new(bytes, end, "the end of the archive")?;
        reader.expect(END_64.into(), 4)?;
        reader.take(20)?;
        let count = reader.number(8)?;
        reader.expect(count, 8)?;
        reader.take(8)?;
        let directory = reader.number(8)?;
        if count > MOST_ENTRIES {
            return Err(reader.damaged());
        }
        let mut reader = Reader::new(bytes, directory, "the archive's directory")?;
        let entries = (0..count).map(|_| entry(bytes, &mut reader));
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// The file of a name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

fn entry(bytes: &[u8], reader: &mut Reader<'_>) -> Result<Entry, PackError> {
    reader.expect(CENTRAL.into(), 4)?;
    reader.take(CENTRAL_BYTES - 4 - 18)?;
    let name_length = reader.number(2)? as usize;
    reader.expect(CENTRAL_EXTRA as u64, 2)?;
    reader.take(14)?;
    let name = std::str::from_utf8(reader.take(name_length)?);
    let name = name.map_err(|_| reader.damaged())?.to_owned();
    reader.expect(1, 2)?;
    reader.expect(24, 2)?;
    let size = reader.number(8)?;
    reader.expect(size, 8)?;
    let at = reader.number(8)?;
    let start = at.checked_add(LOCAL_BYTES + name_length as u64 + LOCAL_EXTRA);
    let end = start.and_then(|start| start.checked_add(size));
    match (start, end) {
        (Some(start), Some(end)) if end <= bytes.len() as u64 => Ok(Entry {
            name,
            range: start..end,
        }),
        _ => Err(reader.damaged()),
    }
}
