//! FAT volumes (Microsoft's FAT specification of 2000, version 1.03), written once: every file in one run of clusters.

use super::gpt::SECTOR;
use super::names::{ShortName, padded};
use crate::Layout;
use std::borrow::Cow;
use thiserror::Error;

/// From so many clusters on a volume is FAT32, and from so many on FAT16.
const FAT32_CLUSTERS: u64 = 65_525;
const FAT16_CLUSTERS: u64 = 4_085;
/// A volume with a few clusters more or less than the limit is read wrong by some.
const MARGIN: u64 = 64;
const DIRECTORY: u8 = 0x10;
const ARCHIVE: u8 = 0x20;
const LABEL: u8 = 0x08;
/// The first day of 1980, with which FAT's calendar begins.
const DATE: [u8; 2] = [0x21, 0];
/// Sectors of FAT16's root folder.
const ROOT_SECTORS: u64 = 32;

/// Which kind of volume.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FatKind {
    /// FAT32, of 34 MB at least.
    Fat32,
    /// FAT16 where it is smaller.
    Smallest,
}

/// How a volume is made.
#[derive(Copy, Clone, Debug)]
pub struct FatOptions<'a> {
    /// Which kind.
    pub kind: FatKind,
    /// Its name, of 11 characters at most.
    pub label: &'a str,
    /// The sector of the disk that it begins at.
    pub first_sector: u32,
}

/// A file of a volume.
#[derive(Clone, Debug)]
pub struct File<'a> {
    /// Its folders and its name, with slashes between.
    pub path: String,
    /// What is in it.
    pub bytes: Cow<'a, [u8]>,
}

/// Why there is no volume.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FatError {
    /// A file's length has 32 bits.
    #[error("{path} has {bytes} bytes, and files on a FAT volume have less than 4 GiB")]
    FileTooLarge {
        /// Which one.
        path: String,
        /// Its bytes.
        bytes: u64,
    },
    /// The number of sectors has 32 bits.
    #[error("{bytes} bytes of files do not fit on a FAT volume")]
    TooLarge {
        /// All of them.
        bytes: u64,
    },
    /// A name is empty, or stands twice in its folder.
    #[error("{path:?} is no name for a file, or another has it")]
    Name {
        /// The path.
        path: String,
    },
}

/// A folder or a file.
struct Node<'a> {
    name: String,
    parent: usize,
    children: Vec<usize>,
    bytes: Option<Cow<'a, [u8]>>,
    cluster: u64,
}

/// A volume with these files.
pub(crate) fn volume<'a>(
    files: Vec<File<'a>>,
    options: &FatOptions<'_>,
) -> Result<Layout<'a>, FatError> {
    let mut nodes = tree(files)?;
    let shape = Shape::new(&nodes, options.kind)?;
    let fat = shape.place(&mut nodes);
    let folders: Vec<(u64, Vec<u8>)> = (0..nodes.len())
        .filter(|index| nodes[*index].bytes.is_none())
        .map(|index| {
            (
                shape.offset(nodes[index].cluster),
                folder(&nodes, index, options),
            )
        })
        .collect();
    let mut out = Layout::new(shape.sectors * SECTOR);
    for (at, entries) in folders {
        out.put(at, entries);
    }
    for node in nodes {
        if let Some(bytes) = node.bytes {
            out.put(shape.offset(node.cluster), bytes);
        }
    }
    for copy in 0..2 {
        let at = shape.reserved + copy * shape.fat_sectors;
        out.put(at * SECTOR, fat.clone());
    }
    let serial = out.fingerprint();
    let boot = shape.boot_sector(options, [serial[0], serial[1], serial[2], serial[3]]);
    if shape.fat32 {
        let information = shape.information(&fat);
        for at in [0, 6] {
            out.put(at * SECTOR, boot.clone());
            out.put((at + 1) * SECTOR, information.clone());
        }
    } else {
        out.put(0, boot);
    }
    Ok(out)
}

/// All folders and files; the first is the root.
fn tree(files: Vec<File<'_>>) -> Result<Vec<Node<'_>>, FatError> {
    let node = |name: &str, parent, bytes| Node {
        name: name.into(),
        parent,
        children: Vec::new(),
        bytes,
        cluster: 0,
    };
    let mut nodes = vec![node("", 0, None)];
    for File { path, bytes } in files {
        if u32::try_from(bytes.len()).is_err() {
            let bytes = bytes.len() as u64;
            return Err(FatError::FileTooLarge { path, bytes });
        }
        let mut bytes = Some(bytes);
        let mut at = 0;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            let known = nodes[at].children.iter().copied();
            let mut known = known.filter(|child| nodes[*child].name.eq_ignore_ascii_case(part));
            let sound = !matches!(part, "" | "." | "..") && part.encode_utf16().count() < 256;
            match known.next() {
                _ if !sound => return Err(FatError::Name { path }),
                Some(child) if !last && nodes[child].bytes.is_none() => at = child,
                Some(_) => return Err(FatError::Name { path }),
                None => {
                    let new = nodes.len();
                    let content = if last { bytes.take() } else { None };
                    nodes[at].children.push(new);
                    nodes.push(node(part, at, content));
                    at = new;
                }
            }
        }
    }
    Ok(nodes)
}

/// The entries of a folder, and of those in it.
fn folder(nodes: &[Node<'_>], index: usize, options: &FatOptions<'_>) -> Vec<u8> {
    let node = &nodes[index];
    let mut out = Vec::new();
    if index == 0 {
        let mut name = [b' '; 11];
        name.copy_from_slice(&padded(options.label, 11));
        out.extend(entry(&name, LABEL, 0, 0));
    } else {
        // The root is nobody's cluster here.
        let parent = match node.parent {
            0 => 0,
            parent => nodes[parent].cluster,
        };
        out.extend(entry(b".          ", DIRECTORY, node.cluster, 0));
        out.extend(entry(b"..         ", DIRECTORY, parent, 0));
    }
    for (number, &child) in node.children.iter().enumerate() {
        let child = &nodes[child];
        let short = ShortName::new(&child.name, number);
        out.extend(short.long_entries(&child.name).concat());
        let (attributes, bytes) = match &child.bytes {
            Some(bytes) => (ARCHIVE, bytes.len()),
            None => (DIRECTORY, 0),
        };
        out.extend(entry(&short.bytes, attributes, child.cluster, bytes as u32));
    }
    out
}

fn entry(name: &[u8; 11], attributes: u8, cluster: u64, bytes: u32) -> [u8; 32] {
    let mut out = [0; 32];
    out[..11].copy_from_slice(name);
    out[11] = attributes;
    for at in [16, 18, 24] {
        out[at..at + 2].copy_from_slice(&DATE);
    }
    let cluster = (cluster as u32).to_le_bytes();
    out[20..22].copy_from_slice(&cluster[2..]);
    out[26..28].copy_from_slice(&cluster[..2]);
    out[28..].copy_from_slice(&bytes.to_le_bytes());
    out
}

/// Bytes that a folder or a file takes.
fn size(nodes: &[Node<'_>], index: usize) -> u64 {
    let node = &nodes[index];
    if let Some(bytes) = &node.bytes {
        return bytes.len() as u64;
    }
    let children = node.children.iter().enumerate();
    let entries = children.map(|(number, child)| {
        let name = &nodes[*child].name;
        ShortName::new(name, number).long_entries(name).len() + 1
    });
    32 * (2 + entries.sum::<usize>() as u64)
}

/// Where everything is.
struct Shape {
    fat32: bool,
    /// Sectors in front of the tables.
    reserved: u64,
    /// Sectors of one table.
    fat_sectors: u64,
    /// Sectors of a root folder that lies outside of the clusters.
    root_sectors: u64,
    /// Sectors in a cluster.
    cluster: u64,
    clusters: u64,
    sectors: u64,
}

impl Shape {
    fn new(nodes: &[Node<'_>], kind: FatKind) -> Result<Self, FatError> {
        let used = |cluster: u64, first: usize| -> u64 {
            let sizes = (first..nodes.len()).map(|index| size(nodes, index));
            let clusters = sizes.map(|bytes| bytes.div_ceil(cluster * SECTOR).max(1));
            clusters.sum()
        };
        let small = kind == FatKind::Smallest && size(nodes, 0) <= ROOT_SECTORS * SECTOR;
        let fits = |cluster: &u64| small && used(*cluster, 1) < FAT32_CLUSTERS - MARGIN;
        // Larger clusters waste more than larger tables.
        let shape = match [1, 2, 4, 8].into_iter().find(fits) {
            Some(cluster) => {
                let clusters = used(cluster, 1).max(FAT16_CLUSTERS + MARGIN);
                Self::with(false, cluster, clusters)
            }
            None => {
                let cluster = match used(8, 0) {
                    ..FAT32_CLUSTERS => 1,
                    _ => 8,
                };
                let clusters = used(cluster, 0).max(FAT32_CLUSTERS + MARGIN);
                Self::with(true, cluster, clusters)
            }
        };
        match u32::try_from(shape.sectors) {
            Ok(_) => Ok(shape),
            Err(_) => Err(FatError::TooLarge {
                bytes: used(1, 0) * SECTOR,
            }),
        }
    }

    fn with(fat32: bool, cluster: u64, clusters: u64) -> Self {
        let (width, reserved, root_sectors) = if fat32 {
            (4, 32, 0)
        } else {
            (2, 4, ROOT_SECTORS)
        };
        let fat_sectors = ((clusters + 2) * width).div_ceil(SECTOR);
        Self {
            fat32,
            reserved,
            fat_sectors,
            root_sectors,
            cluster,
            clusters,
            sectors: reserved + 2 * fat_sectors + root_sectors + clusters * cluster,
        }
    }

    /// Where a cluster is; that of FAT16's root, which has none, is 0.
    fn offset(&self, cluster: u64) -> u64 {
        let tables = self.reserved + 2 * self.fat_sectors;
        let sector = match cluster {
            0 => tables,
            _ => tables + self.root_sectors + (cluster - 2) * self.cluster,
        };
        sector * SECTOR
    }

    /// Gives every folder and file its clusters, one after the other, and makes the table.
    fn place(&self, nodes: &mut [Node<'_>]) -> Vec<u8> {
        let (end, media) = if self.fat32 {
            (0x0fff_ffff, 0x0fff_fff8)
        } else {
            (0xffff, 0xfff8)
        };
        let mut table = vec![media, end];
        for index in 0..nodes.len() {
            let bytes = size(nodes, index);
            let empty = nodes[index].bytes.is_some() && bytes == 0;
            if empty || index == 0 && !self.fat32 {
                continue;
            }
            let first = table.len() as u64;
            let last = first + bytes.div_ceil(self.cluster * SECTOR) - 1;
            nodes[index].cluster = first;
            table.extend((first..last).map(|cluster| cluster as u32 + 1));
            table.push(end);
        }
        let entries = table.into_iter();
        if self.fat32 {
            entries.flat_map(u32::to_le_bytes).collect()
        } else {
            entries
                .flat_map(|entry| (entry as u16).to_le_bytes())
                .collect()
        }
    }

    fn boot_sector(&self, options: &FatOptions<'_>, serial: [u8; 4]) -> Vec<u8> {
        let mut out = vec![0xeb, if self.fat32 { 0x58 } else { 0x3c }, 0x90];
        out.extend(b"STRATA  ");
        out.extend((SECTOR as u16).to_le_bytes());
        out.push(self.cluster as u8);
        out.extend((self.reserved as u16).to_le_bytes());
        out.push(2);
        let root_entries = self.root_sectors * SECTOR / 32;
        out.extend((root_entries as u16).to_le_bytes());
        let small = u16::try_from(self.sectors).ok().filter(|_| !self.fat32);
        out.extend(small.unwrap_or(0).to_le_bytes());
        out.push(0xf8);
        let fat_sectors = if self.fat32 { 0 } else { self.fat_sectors };
        out.extend((fat_sectors as u16).to_le_bytes());
        out.extend([63, 0, 255, 0]);
        out.extend(options.first_sector.to_le_bytes());
        let large = match small {
            Some(_) => 0,
            None => self.sectors as u32,
        };
        out.extend(large.to_le_bytes());
        if self.fat32 {
            out.extend((self.fat_sectors as u32).to_le_bytes());
            out.extend([0; 4]);
            // The root's cluster, and the sectors of the information and of the copies.
            out.extend(2u32.to_le_bytes());
            out.extend([1, 0, 6, 0]);
            out.extend([0; 12]);
        }
        out.extend([0x80, 0, 0x29]);
        out.extend(serial);
        out.extend(padded(options.label, 11));
        out.extend(if self.fat32 { b"FAT32   " } else { b"FAT16   " });
        out.resize(510, 0);
        out.extend([0x55, 0xaa]);
        out
    }

    /// How many clusters are free, and where the first of them is.
    fn information(&self, fat: &[u8]) -> Vec<u8> {
        let used = fat.len() as u64 / 4 - 2;
        let mut out = b"RRaA".to_vec();
        out.resize(484, 0);
        out.extend(b"rrAa");
        out.extend(((self.clusters - used) as u32).to_le_bytes());
        out.extend((used as u32 + 2).to_le_bytes());
        out.resize(508, 0);
        out.extend([0, 0, 0x55, 0xaa]);
        out
    }
}
