//! Records in a ring, of which a power cut leaves all that were committed, whole, and no part of another.
//!
//! - Records are only ever added, behind the last one. Then the disk is flushed, a commit is added, and the disk flushed
//!   again. What is found later counts up to the last commit of an unbroken chain: the number of each record is the one
//!   after that of the record before it, whose header's sum it names.
//! - Room is made at the other end: what is old is given up, but for what somebody has saved, and what was of use since it
//!   was written, which is added once more. All of that is committed before a superblock says where the ring begins now, and
//!   that is flushed before anything is written where old records were.
//!
//! So whatever order the disk writes in between two flushes, and whichever sectors it does not get to, records that count
//! are never written over, and what is written over does not count.

mod room;

use super::area::Area;
use super::format::{Found, HEADER, Header, Kind, SUPERBLOCKS, Superblock, UNIT, units_of};
use crate::storage::StorageError;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use strata_platform::PageKey;
use strata_weights::crc32;
use thiserror::Error;

/// Units of the smallest ring. A quarter may be saved, an eighth lost where the ring ends, a quarter is taken by a record that
/// comes, with an eighth before it, and another to make room with: in smaller rings there is nothing left.
const FEWEST: u64 = 128;
/// Units of the largest: 16 GiB. Where each record is stays in memory.
const MOST: u64 = 4 << 20;
/// Units that are written at once.
const PIECE: usize = 256;

/// Why something is not kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum DataError {
    /// The disk failed. Nothing is written any more.
    #[error("the data partition cannot be used: {0}")]
    Storage(#[from] StorageError),
    /// It is of a version that this one does not know, and is left as it is.
    #[error("the data partition is of version {version}, which this one does not know")]
    Version {
        /// Which.
        version: u32,
    },
    /// It is too small.
    #[error("the data partition has {bytes} bytes, and needs {fewest}")]
    TooSmall {
        /// What it has.
        bytes: u64,
        /// What it needs.
        fewest: u64,
    },
    /// A record is too large.
    #[error("{bytes} bytes are more than the data partition keeps at once, which is {most}")]
    TooLarge {
        /// The record's.
        bytes: u64,
        /// At most.
        most: u64,
    },
    /// What was saved leaves no room.
    #[error("the data partition has no room for {bytes} bytes more beside what was saved")]
    Full {
        /// The record's.
        bytes: u64,
    },
}

/// A record in the ring.
struct Placed {
    at: u64,
    units: u64,
    sequence: u64,
    /// What it was put under.
    key: Option<PageKey>,
}

/// Where a key's record is.
#[derive(Copy, Clone)]
struct Entry {
    kind: Kind,
    at: u64,
    units: u64,
    bytes: u64,
    checksum: u32,
    /// Whether somebody wanted it since it was written.
    used: bool,
}

/// A record to be added.
struct New<'c> {
    kind: Kind,
    key: PageKey,
    units: u64,
    bytes: u64,
    checksum: u32,
    content: Content<'c>,
}

/// Where its content comes from.
enum Content<'c> {
    Bytes(&'c [u8]),
    /// The record at a unit of the ring, which has the same.
    Record(u64),
}

impl New<'_> {
    /// One without content.
    fn mark(kind: Kind, units: u64) -> Self {
        Self {
            kind,
            key: [0; 32],
            units,
            bytes: 0,
            checksum: 0,
            content: Content::Bytes(&[]),
        }
    }
}

/// A ring of records.
pub struct RecordLog {
    area: Area,
    /// Units of the ring.
    units: u64,
    log: u64,
    generation: u64,
    /// Where the next record goes, its number, and the sum of the header before it.
    head: u64,
    sequence: u64,
    previous: u32,
    /// Where the ring begins for whoever finds the disk as it is.
    tail: u64,
    /// The oldest first.
    records: VecDeque<Placed>,
    index: BTreeMap<PageKey, Entry>,
    /// Units of what was saved.
    saved: u64,
    /// Units that were written since the last commit.
    pending: u64,
    failed: Option<StorageError>,
}

impl RecordLog {
    /// The log on a partition, or a new one that is marked with `mark` where there is none. Says also whether it is new.
    pub fn open(area: Area, mark: u64) -> Result<(Self, bool), DataError> {
        let units = area.units().saturating_sub(SUPERBLOCKS).min(MOST);
        if units < FEWEST {
            return Err(DataError::TooSmall {
                bytes: area.units() * UNIT as u64,
                fewest: (FEWEST + SUPERBLOCKS) * UNIT as u64,
            });
        }
        let mut best: Option<Superblock> = None;
        let mut unit = vec![0; UNIT];
        for place in 0..SUPERBLOCKS {
            area.read(place, &mut unit)?;
            match Superblock::read(&unit) {
                Found::Foreign(version) => return Err(DataError::Version { version }),
                Found::Superblock(found) if found.units == units => {
                    best = best
                        .filter(|best| best.generation > found.generation)
                        .or(Some(found));
                }
                // A partition of another size begins anew.
                Found::Superblock(_) | Found::Nothing => {}
            }
        }
        let start = best.unwrap_or(Superblock {
            generation: 0,
            log: mark,
            units,
            tail: 0,
            sequence: 1,
        });
        let mut log = Self {
            area,
            units,
            log: start.log,
            generation: start.generation,
            head: start.tail,
            sequence: start.sequence,
            previous: 0,
            tail: start.tail,
            records: VecDeque::new(),
            index: BTreeMap::new(),
            saved: 0,
            pending: 0,
            failed: None,
        };
        if best.is_some() {
            log.scan(&mut unit)?;
        } else {
            log.mark_tail()?;
        }
        Ok((log, best.is_none()))
    }

    /// Finds the records that count.
    fn scan(&mut self, unit: &mut [u8]) -> Result<(), StorageError> {
        let (mut at, mut sequence, mut previous, mut passed) = (self.tail, self.sequence, None, 0);
        let mut waiting = Vec::new();
        loop {
            self.area.read(SUPERBLOCKS + at, unit)?;
            let Some((header, sum)) = Header::read(unit) else {
                return Ok(());
            };
            let rest = self.units - at;
            let fits = match header.kind {
                Kind::Jump => header.units == rest,
                _ => header.units <= rest.min(self.largest()),
            };
            let follows = (header.log, header.sequence) == (self.log, sequence)
                && previous.is_none_or(|previous| previous == header.previous);
            passed += header.units;
            if !fits || !follows || passed >= self.units {
                return Ok(());
            }
            waiting.push((at, header));
            at = (at + header.units) % self.units;
            sequence = sequence.wrapping_add(1);
            previous = Some(sum);
            if header.kind == Kind::Commit {
                for (at, header) in waiting.drain(..) {
                    self.enter(at, &header);
                }
                (self.head, self.sequence, self.previous) = (at, sequence, sum);
            }
        }
    }

    /// Notes a record that is in the ring now.
    fn enter(&mut self, at: u64, header: &Header) {
        let &Header {
            kind,
            units,
            bytes,
            checksum,
            ..
        } = header;
        let key = matches!(kind, Kind::Page | Kind::Saved).then_some(header.key);
        self.records.push_back(Placed {
            at,
            units,
            sequence: header.sequence,
            key,
        });
        if let Some(key) = key {
            self.forget(&key);
            if kind == Kind::Saved {
                self.saved += units;
            }
            self.index.insert(
                key,
                Entry {
                    kind,
                    at,
                    units,
                    bytes,
                    checksum,
                    used: false,
                },
            );
        }
    }

    /// Forgets what is under a key, until a power cut. The record stays until its place is needed.
    pub fn forget(&mut self, key: &PageKey) {
        if let Some(entry) = self.index.remove(key)
            && entry.kind == Kind::Saved
        {
            self.saved -= entry.units;
        }
    }

    /// Whether something is under a key.
    pub fn contains(&self, key: &PageKey) -> bool {
        self.index.contains_key(key)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &PageKey> {
        self.index.keys()
    }

    /// Bytes of the ring, and those of them that records have which somebody may ask for.
    pub fn bytes(&self) -> (u64, u64) {
        let held: u64 = self.index.values().map(|entry| entry.units).sum();
        (self.units * UNIT as u64, held * UNIT as u64)
    }

    /// Appends what is under a key to `out`, if it is there and whole.
    pub fn get(&mut self, key: &PageKey, out: &mut Vec<u8>) -> bool {
        let Some(&entry) = self.index.get(key) else {
            return false;
        };
        let (start, len) = (out.len(), entry.units as usize * UNIT);
        if out.try_reserve(len).is_err() {
            return false;
        }
        out.resize(start + len, 0);
        let read = self.area.read(SUPERBLOCKS + entry.at, &mut out[start..]);
        let content = start + HEADER..start + HEADER + entry.bytes as usize;
        let whole = read.is_ok()
            && Header::read(&out[start..]).is_some_and(|(header, _)| header.key == *key)
            && crc32(&out[content.clone()]) == entry.checksum;
        if !whole {
            out.truncate(start);
            self.forget(key);
            return false;
        }
        out.copy_within(content, start);
        out.truncate(start + entry.bytes as usize);
        if let Some(entry) = self.index.get_mut(key) {
            entry.used = true;
        }
        true
    }

    /// Keeps a page of a cache until its place is needed.
    pub fn put(&mut self, key: &PageKey, page: &[u8]) -> Result<(), DataError> {
        self.add(Kind::Page, key, page)
    }

    /// Keeps what somebody wants to keep, for good: it is on the disk when this is done.
    pub fn save(&mut self, key: &PageKey, content: &[u8]) -> Result<(), DataError> {
        let bytes = content.len() as u64;
        let replaced = self.index.get(key).filter(|old| old.kind == Kind::Saved);
        let others = self.saved - replaced.map_or(0, |old| old.units);
        if others + units_of(bytes).unwrap_or(u64::MAX / 2) > self.units / 4 {
            return Err(DataError::Full { bytes });
        }
        self.add(Kind::Saved, key, content)?;
        self.commit()
    }

    fn add(&mut self, kind: Kind, key: &PageKey, content: &[u8]) -> Result<(), DataError> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        let bytes = content.len() as u64;
        let units = units_of(bytes).filter(|units| *units <= self.largest());
        let Some(units) = units else {
            let most = self.largest_bytes();
            return Err(DataError::TooLarge { bytes, most });
        };
        let added = self.make_room(units).and_then(|there| {
            if there {
                self.append(&New {
                    kind,
                    key: *key,
                    units,
                    bytes,
                    checksum: crc32(content),
                    content: Content::Bytes(content),
                })?;
            }
            if self.pending > self.units / 16 {
                self.write_commit()?;
            }
            Ok(there)
        });
        if self.noting(added)? {
            Ok(())
        } else {
            Err(DataError::Full { bytes })
        }
    }

    /// Has all that was put outlive a power cut.
    pub fn commit(&mut self) -> Result<(), DataError> {
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        let done = self.write_commit();
        Ok(self.noting(done)?)
    }

    /// After a failure it is not known what is on the disk, so nothing is written any more.
    fn noting<T>(&mut self, done: Result<T, StorageError>) -> Result<T, StorageError> {
        if let Err(error) = &done {
            self.failed = Some(*error);
        }
        done
    }

    /// Whether the disk has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Bytes that can be put under one key.
    pub fn largest_bytes(&self) -> u64 {
        self.largest() * UNIT as u64 - HEADER as u64
    }

    /// Units of the largest record.
    fn largest(&self) -> u64 {
        self.units / 8
    }

    fn append(&mut self, new: &New<'_>) -> Result<(), StorageError> {
        let rest = self.units - self.head;
        if new.units > rest {
            self.write(&New::mark(Kind::Jump, rest))?;
        }
        self.write(new)
    }

    /// Flushes what was written, and says that it was.
    fn write_commit(&mut self) -> Result<(), StorageError> {
        if self.pending == 0 {
            return Ok(());
        }
        self.area.flush()?;
        self.write(&New::mark(Kind::Commit, 1))?;
        self.area.flush()?;
        self.pending = 0;
        Ok(())
    }

    /// Writes a record at the head. Of a jump's units only the first is written.
    fn write(&mut self, new: &New<'_>) -> Result<(), StorageError> {
        debug_assert!(new.units <= self.free() && new.units <= self.units - self.head);
        let header = Header {
            kind: new.kind,
            units: new.units,
            sequence: self.sequence,
            log: self.log,
            previous: self.previous,
            checksum: new.checksum,
            bytes: new.bytes,
            key: new.key,
        };
        let beginning = header.write();
        let filled = units_of(new.bytes).map_or(0, |units| units as usize);
        let mut piece = vec![0; filled.min(PIECE) * UNIT];
        for first in (0..filled).step_by(PIECE) {
            let piece = &mut piece[..(filled - first).min(PIECE) * UNIT];
            match new.content {
                Content::Record(at) => self.area.read(SUPERBLOCKS + at + first as u64, piece)?,
                Content::Bytes(bytes) => {
                    // What is before the first byte is the header.
                    let bytes = &bytes[(first * UNIT).saturating_sub(HEADER)..];
                    let place = &mut piece[if first == 0 { HEADER } else { 0 }..];
                    let filled = bytes.len().min(place.len());
                    let (now, after) = place.split_at_mut(filled);
                    now.copy_from_slice(&bytes[..filled]);
                    after.fill(0);
                }
            }
            if first == 0 {
                piece[..HEADER].copy_from_slice(&beginning);
            }
            self.area
                .write(SUPERBLOCKS + self.head + first as u64, piece)?;
        }
        self.enter(self.head, &header);
        self.head = (self.head + new.units) % self.units;
        self.sequence = self.sequence.wrapping_add(1);
        self.previous = crc32(&beginning[..HEADER - 4]);
        self.pending += new.units;
        Ok(())
    }
}
