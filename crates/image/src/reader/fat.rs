//! Files on FAT16 and FAT32 (Microsoft's specification of 2005), read only.

use super::{FormatError, Source};
use crate::le;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A directory has at most so many entries of 32 bytes.
const MOST_ENTRIES: u32 = 1 << 16;
const ENTRY: usize = 32;
const FOLDER: u8 = 0x10;
const LABEL: u8 = 0x08;
const LONG: u8 = 0x0f;
/// How much of the allocation table is kept at hand.
const WINDOW: usize = 32 << 10;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Width {
    Bits16,
    Bits32,
}

/// Where clusters begin to be listed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ClusterStart {
    /// FAT16's root: so many bytes at an offset.
    Fixed(u64, u32),
    /// From a cluster on.
    Chain(u32),
}

/// A file or a folder.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    short: String,
    folder: bool,
    place: ClusterStart,
    bytes: u32,
}

/// A file system.
pub struct Fat<'v, S> {
    volume: &'v mut S,
    width: Width,
    table: Range<u64>,
    root: ClusterStart,
    data: u64,
    cluster: u32,
    clusters: u32,
    /// A part of the table, and where it begins.
    window: (u64, Vec<u8>),
}

fn damaged<E: From<FormatError>>(what: &'static str) -> E {
    FormatError::Fat { what }.into()
}

impl<'v, S: Source> Fat<'v, S> {
    /// The file system on a volume; nothing if it holds something else.
    pub fn open(volume: &'v mut S) -> Result<Option<Self>, S::Error> {
        let mut boot = [0; 512];
        if volume.bytes() < 512 {
            return Ok(None);
        }
        volume.read(0, &mut boot)?;
        let word = |at| le::u16(&boot, at).unwrap_or_default();
        let long = |at| le::u32(&boot, at).unwrap_or_default();
        let sector = u64::from(word(11));
        let per_cluster = u64::from(boot[13]);
        let (reserved, copies) = (u64::from(word(14)), u64::from(boot[16]));
        let jumps = boot[0] == 0xeb || boot[0] == 0xe9;
        let is_fat = jumps
            && boot[510..] == [0x55, 0xaa]
            && (512..=4096).contains(&sector)
            && sector.is_power_of_two()
            && per_cluster.is_power_of_two()
            && reserved > 0
            && (1..=2).contains(&copies);
        if !is_fat {
            return Ok(None);
        }
        let root_bytes = u32::from(word(17)) * ENTRY as u32;
        let of = |short: u16, long: u32| match short {
            0 => u64::from(long),
            short => u64::from(short),
        };
        let (sectors, table_sectors) = (of(word(19), long(32)), of(word(22), long(36)));
        let table = reserved * sector..(reserved + table_sectors) * sector;
        let root = (reserved + copies * table_sectors) * sector;
        let data = root + u64::from(root_bytes).next_multiple_of(sector);
        let cluster = per_cluster * sector;
        let clusters = (sectors * sector).saturating_sub(data) / cluster;
        let (width, root) = match clusters {
            0..4085 => return Err(damaged("it is FAT12, or empty")),
            4085..65525 => (Width::Bits16, ClusterStart::Fixed(root, root_bytes)),
            _ => (Width::Bits32, ClusterStart::Chain(long(44))),
        };
        if sectors * sector > volume.bytes() || cluster > 1 << 20 {
            return Err(damaged("it is larger than where it lies"));
        }
        Ok(Some(Self {
            volume,
            width,
            table,
            root,
            data,
            cluster: cluster as u32,
            clusters: u32::try_from(clusters).map_err(|_| damaged("it is too large"))?,
            window: (0, Vec::new()),
        }))
    }

    /// The cluster after one; nothing after the last.
    fn next(&mut self, cluster: u32) -> Result<Option<u32>, S::Error> {
        let (size, last) = match self.width {
            Width::Bits16 => (2, 0xfff8),
            Width::Bits32 => (4, 0x0fff_fff8),
        };
        let at = self.table.start + u64::from(cluster) * size;
        if at + size > self.table.end {
            return Err(damaged("a cluster is not in its table"));
        }
        let inside = |(start, bytes): &(u64, Vec<u8>)| {
            at >= *start && at + size <= start + bytes.len() as u64
        };
        if !inside(&self.window) {
            let len = (self.table.end - at).min(WINDOW as u64);
            let mut bytes = vec![0; len as usize];
            self.volume.read(at, &mut bytes)?;
            self.window = (at, bytes);
        }
        let inside = (at - self.window.0) as usize;
        let value = match self.width {
            Width::Bits16 => le::u16(&self.window.1, inside).map(u32::from),
            Width::Bits32 => le::u32(&self.window.1, inside).map(|value| value & 0x0fff_ffff),
        };
        match value.unwrap_or_default() {
            value if value >= last => Ok(None),
            value => Ok(Some(value)),
        }
    }

    /// The runs of bytes that `bytes` bytes from a cluster on lie in. Neighbouring clusters are one run.
    fn runs(&mut self, first: u32, bytes: u32) -> Result<Vec<Range<u64>>, S::Error> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        let (mut cluster, mut left) = (first, bytes);
        // Each round takes a cluster's bytes, so that a chain that bites its tail ends.
        while left > 0 {
            if cluster < 2 || cluster - 2 >= self.clusters {
                return Err(damaged("a file has fewer clusters than its size says"));
            }
            let start = self.data + u64::from(cluster - 2) * u64::from(self.cluster);
            let part = left.min(self.cluster);
            let end = start + u64::from(part);
            match runs.last_mut() {
                Some(run) if run.end == start => run.end = end,
                _ => runs.push(start..end),
            }
            left -= part;
            if left > 0 {
                cluster = self.next(cluster)?.unwrap_or(0);
            }
        }
        Ok(runs)
    }

    fn folder_bytes(&mut self, place: ClusterStart) -> Result<Vec<u8>, S::Error> {
        let (start, len) = match place {
            ClusterStart::Fixed(start, len) => (start, len),
            ClusterStart::Chain(first) => return self.chain_bytes(first),
        };
        let mut bytes = vec![0; len as usize];
        self.volume.read(start, &mut bytes)?;
        Ok(bytes)
    }

    /// A folder's clusters, up to its end.
    fn chain_bytes(&mut self, first: u32) -> Result<Vec<u8>, S::Error> {
        let mut bytes = Vec::new();
        let mut cluster = Some(first);
        while let Some(this) = cluster {
            if this < 2 || this - 2 >= self.clusters {
                return Err(damaged("a folder leads out of it"));
            }
            let at = bytes.len();
            if at >= MOST_ENTRIES as usize * ENTRY {
                return Err(damaged("a folder does not end"));
            }
            bytes.resize(at + self.cluster as usize, 0);
            let start = self.data + u64::from(this - 2) * u64::from(self.cluster);
            self.volume.read(start, &mut bytes[at..])?;
            if bytes[at..].chunks_exact(ENTRY).any(|entry| entry[0] == 0) {
                break;
            }
            cluster = self.next(this)?;
        }
        Ok(bytes)
    }

    /// A file by its path, names parted by either slash, in any case: how long it is and where its bytes lie.
    pub fn find(&mut self, path: &str) -> Result<Option<File>, S::Error> {
        let mut names = path.split(['/', '\\']).filter(|name| !name.is_empty());
        let mut place = self.root;
        let mut name = names.next();
        while let Some(wanted) = name {
            let bytes = self.folder_bytes(place)?;
            let is = |entry: &Entry| {
                entry.name.eq_ignore_ascii_case(wanted) || entry.short.eq_ignore_ascii_case(wanted)
            };
            let Some(entry) = entries(&bytes, self.width).into_iter().find(is) else {
                return Ok(None);
            };
            name = names.next();
            match (name, entry.folder, entry.place) {
                (Some(_), true, _) => place = entry.place,
                (None, false, ClusterStart::Chain(first)) => {
                    let runs = self.runs(first, entry.bytes)?;
                    let bytes = u64::from(entry.bytes);
                    return Ok(Some(File { bytes, runs }));
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// A small file's bytes; nothing if it is not there or larger than `most`.
    pub fn read_small(&mut self, path: &str, most: u64) -> Result<Option<Vec<u8>>, S::Error> {
        let Some(file) = self.find(path)?.filter(|file| file.bytes <= most) else {
            return Ok(None);
        };
        let mut bytes = vec![0; file.bytes as usize];
        let mut out = &mut bytes[..];
        for run in file.runs {
            let (part, rest) = out.split_at_mut((run.end - run.start) as usize);
            self.volume.read(run.start, part)?;
            out = rest;
        }
        Ok(Some(bytes))
    }
}

/// Where a file's bytes are on its volume, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// How many.
    pub bytes: u64,
    /// Runs of them.
    pub runs: Vec<Range<u64>>,
}

/// What a folder lists.
fn entries(bytes: &[u8], width: Width) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut long: Vec<u16> = Vec::new();
    let mut check = 0;
    for entry in bytes.chunks_exact(ENTRY) {
        let kind = entry[11];
        match entry[0] {
            0 => break,
            0xe5 => long.clear(),
            order if kind & 0x3f == LONG => {
                // The last part comes first.
                if order & 0x40 != 0 {
                    long.clear();
                    check = entry[13];
                }
                let places = (1..11)
                    .step_by(2)
                    .chain((14..26).step_by(2))
                    .chain([28, 30]);
                let mut units: Vec<u16> = places.filter_map(|at| le::u16(entry, at)).collect();
                units.append(&mut long);
                // A name has at most 255 units.
                long = if units.len() <= 260 && entry[13] == check {
                    units
                } else {
                    Vec::new()
                };
            }
            _ if kind & LABEL != 0 => long.clear(),
            _ => {
                let units = long.split(|&unit| unit == 0).next().unwrap_or_default();
                let is_its = check == checksum(&entry[..11]) && !units.is_empty();
                let short = short_name(entry);
                let high = match width {
                    Width::Bits16 => 0,
                    Width::Bits32 => le::u16(entry, 20).unwrap_or_default(),
                };
                let low = le::u16(entry, 26).unwrap_or_default();
                found.push(Entry {
                    name: if is_its {
                        String::from_utf16_lossy(units)
                    } else {
                        short.clone()
                    },
                    short,
                    folder: kind & FOLDER != 0,
                    place: ClusterStart::Chain(u32::from(high) << 16 | u32::from(low)),
                    bytes: le::u32(entry, 28).unwrap_or_default(),
                });
                long.clear();
            }
        }
    }
    found
}

/// What ties a long name to its short one.
fn checksum(name: &[u8]) -> u8 {
    name.iter()
        .fold(0u8, |sum, &byte| sum.rotate_right(1).wrapping_add(byte))
}

fn short_name(entry: &[u8]) -> String {
    let part = |bytes: &[u8]| {
        let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
        String::from(text.trim_end())
    };
    let (mut name, kind) = (part(&entry[..8]), part(&entry[8..11]));
    if !kind.is_empty() {
        name.push('.');
        name.push_str(&kind);
    }
    name
}
