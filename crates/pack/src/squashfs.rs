//! Squashfs 4.0 file systems (Documentation/filesystems/squashfs.rst in Linux) as snaps have them, written without
//! compression: weights do not shrink, and what is stored is mapped as it is. All files belong to root and have the same
//! time. A file's data is in one piece, so that an artifact can be read without mounting it.

use crate::error::PackError;
use std::collections::BTreeMap;
use std::ops::Range;
use strata_image::Layout;

const MAGIC: &[u8; 4] = b"hsqs";
const SUPERBLOCK: u64 = 96;
const BLOCK: u64 = 1 << 20;
const BLOCK_LOG: u16 = 20;
/// Inodes, data, fragments and extended attributes are stored; there are neither of the last two.
const FLAGS: u16 = 0x31b;
/// Named in every file system, used in none that is not compressed.
const GZIP: u16 = 1;
const NONE: u64 = u64::MAX;
/// Metadata comes in blocks of this size, each behind two bytes of length.
const METADATA: u64 = 8192;
const STORED: u16 = 1 << 15;
const STORED_BLOCK: u32 = 1 << 24;
const FOLDER: u16 = 1;
const FILE: u16 = 2;
/// A file whose size and place have 64 bits.
const LARGE_FILE: u16 = 9;
/// Entries that one header of a folder can have.
const MOST_ENTRIES: usize = 256;
/// Devices have whole pages.
const PAGE: u64 = 4096;
/// 1 January 2000, as in the other artifacts.
const TIME: u32 = 946_684_800;

/// A file system under construction.
#[derive(Default)]
pub(crate) struct Squashfs<'a> {
    layout: Layout<'a>,
    files: Vec<File>,
}

struct File {
    path: String,
    mode: u16,
    start: u64,
    bytes: u64,
}

/// What a folder has.
#[derive(Default)]
struct Folder {
    folders: BTreeMap<String, Folder>,
    files: BTreeMap<String, usize>,
    number: u32,
}

/// Where an inode is.
#[derive(Copy, Clone)]
struct Inode {
    number: u32,
    place: u64,
    kind: u16,
}

impl<'a> Squashfs<'a> {
    pub(crate) fn file(&mut self, path: &str, mode: u16, bytes: Vec<u8>) -> Result<(), PackError> {
        let mut layout = Layout::default();
        layout.put(0, bytes);
        self.embed(path, mode, layout)
    }

    /// A file that is put together itself.
    pub(crate) fn embed(
        &mut self,
        path: &str,
        mode: u16,
        file: Layout<'a>,
    ) -> Result<(), PackError> {
        let good =
            |part: &str| !part.is_empty() && part.len() <= 256 && part != "." && part != "..";
        if !path.split('/').all(good) || self.files.iter().any(|file| file.path == path) {
            return Err(PackError::Name(path.into()));
        }
        let start = self.layout.len().max(SUPERBLOCK);
        self.files.push(File {
            path: path.into(),
            mode,
            start,
            bytes: file.len(),
        });
        self.layout.embed(start, file);
        Ok(())
    }

    /// The file system, in whole pages.
    pub(crate) fn finish(mut self) -> Layout<'a> {
        let mut root = Folder::default();
        for (index, file) in self.files.iter().enumerate() {
            let (folders, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
            let mut folder = &mut root;
            for part in folders.split('/').filter(|part| !part.is_empty()) {
                folder = folder.folders.entry(part.into()).or_default();
            }
            folder.files.insert(name.into(), index);
        }
        let mut tables = Tables::default();
        // Files have the first numbers and inodes, in the order that they came in.
        let files: Vec<Inode> = self.files.iter().map(|file| tables.file(file)).collect();
        let mut number = files.len() as u32;
        root.enumerate(&mut number);
        let root = tables.folder(&root, &files, number + 1);

        let inodes_at = self.layout.len().max(SUPERBLOCK);
        let inodes = in_blocks(&tables.inodes);
        let folders_at = inodes_at + inodes.len() as u64;
        let folders = in_blocks(&tables.folders);
        let owners_at = folders_at + folders.len() as u64;
        // One owner: root.
        let owners = in_blocks(&[0; 4]);
        let index_at = owners_at + owners.len() as u64;
        let end = index_at + 8;
        let mut head = MAGIC.to_vec();
        for field in [number, TIME, BLOCK as u32, 0] {
            head.extend(field.to_le_bytes());
        }
        for field in [GZIP, BLOCK_LOG, FLAGS, 1, 4, 0] {
            head.extend(field.to_le_bytes());
        }
        let fields = [
            root.place, end, index_at, NONE, inodes_at, folders_at, owners_at, NONE,
        ];
        for field in fields {
            head.extend(field.to_le_bytes());
        }
        self.layout.put(0, head);
        self.layout.put(inodes_at, inodes);
        self.layout.put(folders_at, folders);
        self.layout.put(owners_at, owners);
        self.layout.put(index_at, owners_at.to_le_bytes().to_vec());
        self.layout.pad(PAGE);
        self.layout
    }
}

impl Folder {
    /// Numbers folders, those inside before their own.
    fn enumerate(&mut self, number: &mut u32) {
        for folder in self.folders.values_mut() {
            folder.enumerate(number);
        }
        *number += 1;
        self.number = *number;
    }
}

/// The tables of inodes and of folders' entries, before they are cut into blocks.
#[derive(Default)]
struct Tables {
    inodes: Vec<u8>,
    /// Inodes of files, which come first.
    count: u32,
    folders: Vec<u8>,
}

impl Tables {
    fn begin(&mut self, kind: u16, mode: u16, number: u32) -> u64 {
        let place = place(self.inodes.len() as u64);
        for field in [kind, mode, 0, 0] {
            self.inodes.extend(field.to_le_bytes());
        }
        self.inodes.extend(TIME.to_le_bytes());
        self.inodes.extend(number.to_le_bytes());
        place
    }

    fn file(&mut self, file: &File) -> Inode {
        self.count += 1;
        let number = self.count;
        let place = self.begin(LARGE_FILE, file.mode, number);
        // Where it is, its size, and how much of it are holes.
        for field in [file.start, file.bytes, 0] {
            self.inodes.extend(field.to_le_bytes());
        }
        // One name, no fragment, no extended attributes.
        for field in [1, u32::MAX, 0, u32::MAX] {
            self.inodes.extend(field.to_le_bytes());
        }
        let mut rest = file.bytes;
        while rest > 0 {
            let size = rest.min(BLOCK);
            self.inodes
                .extend((size as u32 | STORED_BLOCK).to_le_bytes());
            rest -= size;
        }
        Inode {
            number,
            place,
            kind: FILE,
        }
    }

    /// A folder and all that is in it.
    fn folder(&mut self, folder: &Folder, files: &[Inode], parent: u32) -> Inode {
        let mut entries: Vec<(&str, Inode)> = Vec::new();
        for (name, inner) in &folder.folders {
            entries.push((name, self.folder(inner, files, folder.number)));
        }
        for (name, index) in &folder.files {
            entries.push((name, files[*index]));
        }
        entries.sort_by_key(|(name, _)| *name);
        let listing = self.folders.len() as u64;
        let mut rest = &entries[..];
        while let Some((_, first)) = rest.first() {
            let block = |inode: &Inode| inode.place >> 16;
            let same = |(_, inode): &&(&str, Inode)| block(inode) == block(first);
            let count = rest.iter().take(MOST_ENTRIES).take_while(same).count();
            for field in [count as u32 - 1, block(first) as u32, first.number] {
                self.folders.extend(field.to_le_bytes());
            }
            for (name, inode) in &rest[..count] {
                let difference = inode.number.wrapping_sub(first.number) as u16;
                let offset = inode.place as u16;
                for field in [offset, difference, inode.kind, name.len() as u16 - 1] {
                    self.folders.extend(field.to_le_bytes());
                }
                self.folders.extend(name.as_bytes());
            }
            rest = &rest[count..];
        }
        let bytes = self.folders.len() as u64 - listing;
        let listing = place(listing);
        let inode = self.begin(FOLDER, 0o755, folder.number);
        let links = 2 + folder.folders.len() as u32;
        for field in [(listing >> 16) as u32, links] {
            self.inodes.extend(field.to_le_bytes());
        }
        // Three more than there are, for the two names that every folder has.
        for field in [bytes as u16 + 3, listing as u16] {
            self.inodes.extend(field.to_le_bytes());
        }
        self.inodes.extend(parent.to_le_bytes());
        Inode {
            number: folder.number,
            place: inode,
            kind: FOLDER,
        }
    }
}

/// A place in a table as it is referred to: the block's place, and 16 bits for the place in it.
fn place(at: u64) -> u64 {
    ((at / METADATA * (METADATA + 2)) << 16) | (at % METADATA)
}

/// A table in blocks.
fn in_blocks(table: &[u8]) -> Vec<u8> {
    let mut blocks = Vec::new();
    for block in table.chunks(METADATA as usize) {
        blocks.extend((block.len() as u16 | STORED).to_le_bytes());
        blocks.extend(block);
    }
    blocks
}

/// Where the first file of a file system is, if that is one as it is written here.
pub(crate) fn first_file(bytes: &[u8]) -> Option<Result<Range<usize>, PackError>> {
    bytes.starts_with(MAGIC).then(|| {
        let damaged = |at: u64| PackError::Damaged {
            what: "a squashfs table",
            at,
        };
        let number = |at: u64| {
            let start = usize::try_from(at).ok();
            let field = start.and_then(|start| bytes.get(start..start.checked_add(8)?));
            let field = field.and_then(|field| field.try_into().ok());
            field.map(u64::from_le_bytes).ok_or_else(|| damaged(at))
        };
        let inode = number(64)?;
        // Behind the block's length, an inode of a large file: 16 bytes, its place, its size.
        let field = |at: u64| inode.checked_add(at).ok_or_else(|| damaged(64));
        if number(field(2)?)? as u16 != LARGE_FILE {
            return Err(damaged(inode));
        }
        let (start, size) = (number(field(18)?)?, number(field(26)?)?);
        let end = start.checked_add(size).filter(|end| *end <= inode);
        let end = end.ok_or_else(|| damaged(inode))?;
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let (start, end) = range.ok_or_else(|| damaged(inode))?;
        bytes
            .get(start..end)
            .map(|_| start..end)
            .ok_or_else(|| damaged(inode))
    })
}
