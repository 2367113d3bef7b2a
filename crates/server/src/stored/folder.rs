//! Kept objects on disk: a file each, each owner's apart, the oldest dropped where there are too many.

use crate::owner_names::{OwnerNames, create_private_folder, write_private};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use strata_chat::json::Json;
use strata_wire::call::Kept;
use strata_wire::openai::{kept_from_json, kept_to_json};

/// Files at most, and their bytes.
const MOST: (usize, u64) = (16_384, 1 << 30);

/// A folder of kept objects.
pub(super) struct ObjectFolder {
    path: PathBuf,
    /// What owners' folders are called; nothing is kept where that is not known.
    names: Option<OwnerNames>,
    /// Files and bytes in it, as far as this process knows.
    held: (usize, u64),
}

impl ObjectFolder {
    pub(super) fn new(path: PathBuf) -> Self {
        let files = files(&path);
        let bytes = files.iter().map(|file| file.bytes).sum();
        Self {
            names: OwnerNames::of(&path).ok(),
            path,
            held: (files.len(), bytes),
        }
    }

    /// Where an object's file is; names that no object has lead nowhere.
    fn file(&self, owner: &str, id: &str) -> Option<PathBuf> {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let plain = |name: &str| !name.is_empty() && name.len() <= 128 && name.chars().all(letter);
        let found = plain(owner) && plain(id);
        let folder = self.folder(owner).filter(|_| found)?;
        Some(folder.join(format!("{id}.json")))
    }

    fn folder(&self, owner: &str) -> Option<PathBuf> {
        Some(self.path.join(self.names.as_ref()?.name(owner)))
    }

    pub(super) fn read(&self, owner: &str, id: &str) -> Option<Kept> {
        let bytes = fs::read(self.file(owner, id)?).ok()?;
        kept_from_json(id, &Json::parse(&bytes).ok()?)
    }

    /// Writes an object, whole or not at all. A disk that is full keeps nothing; memory still does.
    pub(super) fn write(&mut self, owner: &str, kept: &Kept) {
        let Some(path) = self.file(owner, &kept.id) else {
            return;
        };
        let text = kept_to_json(kept).text();
        if write(&path, text.as_bytes()).is_ok() {
            self.held.0 += 1;
            self.held.1 += text.len() as u64;
            if self.held.0 > MOST.0 || self.held.1 > MOST.1 {
                self.drop_oldest();
            }
        }
    }

    pub(super) fn remove(&mut self, owner: &str, id: &str) {
        if let Some(path) = self.file(owner, id) {
            let _ = fs::remove_file(path);
        }
    }

    /// The documents of an owner whose names begin so.
    pub(super) fn documents(&self, owner: &str, prefix: &str) -> Vec<Json> {
        let folder = self.folder(owner);
        let Some(Ok(entries)) = folder.map(fs::read_dir) else {
            return Vec::new();
        };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let id = name.strip_suffix(".json")?;
            id.starts_with(prefix).then(|| id.to_owned())
        });
        let kept = names.filter_map(|id| self.read(owner, &id));
        kept.map(|kept| kept.document).collect()
    }

    /// Drops the oldest files until a tenth of the room is free.
    fn drop_oldest(&mut self) {
        let mut all = files(&self.path);
        all.sort_by_key(|file| file.modified);
        let (mut count, mut bytes) = (all.len(), all.iter().map(|file| file.bytes).sum::<u64>());
        for file in all {
            if count <= MOST.0 / 10 * 9 && bytes <= MOST.1 / 10 * 9 {
                break;
            }
            if fs::remove_file(&file.path).is_ok() {
                count -= 1;
                bytes -= file.bytes;
            }
        }
        self.held = (count, bytes);
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    create_private_folder(folder)?;
    let draft = path.with_extension("part");
    write_private(&draft, bytes)?;
    fs::rename(&draft, path)
}

struct ObjectFile {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

fn files(folder: &Path) -> Vec<ObjectFile> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let owners = entries(folder).map(|entry| entry.path());
    let files = owners.flat_map(|owner| entries(&owner).collect::<Vec<_>>());
    let files = files.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(ObjectFile {
            path: entry.path(),
            bytes: metadata.len(),
            modified: metadata.modified().ok()?,
        })
    });
    files.collect()
}
