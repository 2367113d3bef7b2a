//! Pages of a cache as files in a folder, up to a number of bytes; the longest unused go first.
//!
//! A file is written beside its place and then moved there, so that it is whole or not there at all. Any failure of the
//! disk only means that a page is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use strata_platform::{PageKey, PageStore};

/// What the names of unfinished files end with.
const UNFINISHED: &str = ".part";

/// Pages in a folder.
#[derive(Debug)]
pub struct PageFiles {
    folder: PathBuf,
    /// Bytes of all files at most.
    limit: u64,
    bytes: u64,
    /// The size of each page, and when it was last of use.
    files: BTreeMap<PageKey, (u64, u64)>,
    /// The longest unused first.
    order: BTreeSet<(u64, PageKey)>,
    tick: u64,
}

impl PageFiles {
    /// The pages in a folder, which is made if it is not there and readable by its owner only. Files of other names are
    /// left alone.
    pub fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder.create(folder)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if let Some(unfinished) = name.strip_suffix(UNFINISHED)
                && parse(unfinished).is_some()
            {
                // Of a process that did not come to its end.
                let _ = fs::remove_file(entry.path());
            } else if let Some(key) = parse(&name)
                && let Ok(metadata) = entry.metadata()
                && metadata.is_file()
            {
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push((used, key, metadata.len()));
            }
        }
        found.sort();
        let mut files = Self {
            folder: folder.to_owned(),
            limit,
            bytes: 0,
            files: BTreeMap::new(),
            order: BTreeSet::new(),
            tick: 0,
        };
        for (_, key, bytes) in found {
            files.enter(key, bytes);
        }
        files.make_room(0);
        Ok(files)
    }

    /// Bytes of all pages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn enter(&mut self, key: PageKey, bytes: u64) {
        self.forget(&key);
        self.tick += 1;
        self.files.insert(key, (bytes, self.tick));
        self.order.insert((self.tick, key));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn forget(&mut self, key: &PageKey) {
        if let Some((bytes, used)) = self.files.remove(key) {
            self.order.remove(&(used, *key));
            self.bytes -= bytes;
        }
    }

    /// Removes files until so many bytes more are within the limit.
    fn make_room(&mut self, bytes: u64) {
        while self.bytes.saturating_add(bytes) > self.limit {
            let Some(&(_, key)) = self.order.first() else {
                return;
            };
            self.remove(&key);
        }
    }

    fn path(&self, key: &PageKey) -> PathBuf {
        self.folder.join(name(key))
    }

    fn write(&self, key: &PageKey, page: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        let unfinished = self.folder.join(name(key) + UNFINISHED);
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        let result = options
            .open(&unfinished)
            .and_then(|mut file| io::Write::write_all(&mut file, page))
            .and_then(|()| fs::rename(&unfinished, &path));
        if result.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        result
    }

    fn read(&self, key: &PageKey, bytes: u64, out: &mut Vec<u8>) -> io::Result<bool> {
        let file = fs::File::open(self.path(key))?;
        // A file that has grown is not what was written.
        let read = file.take(bytes + 1).read_to_end(out)?;
        Ok(read as u64 == bytes)
    }
}

impl PageStore for PageFiles {
    fn put(&mut self, key: &PageKey, page: &[u8]) {
        let bytes = page.len() as u64;
        if bytes > self.limit {
            return;
        }
        self.forget(key);
        self.make_room(bytes);
        if self.write(key, page).is_ok() {
            self.enter(*key, bytes);
        }
    }

    fn get(&mut self, key: &PageKey, out: &mut Vec<u8>) -> bool {
        let Some(&(bytes, _)) = self.files.get(key) else {
            return false;
        };
        let start = out.len();
        match self.read(key, bytes, out) {
            Ok(true) => {
                self.enter(*key, bytes);
                true
            }
            _ => {
                out.truncate(start);
                self.remove(key);
                false
            }
        }
    }

    fn contains(&self, key: &PageKey) -> bool {
        self.files.contains_key(key)
    }

    fn remove(&mut self, key: &PageKey) {
        self.forget(key);
        let _ = fs::remove_file(self.path(key));
    }
}

/// A page's file name: its key in hexadecimal digits.
fn name(key: &PageKey) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(name: &str) -> Option<PageKey> {
    let digits = name.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("strata-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn get(files: &mut PageFiles, key: u8) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        files.get(&[key; 32], &mut out).then_some(out)
    }

    #[test]
    fn pages_are_there_after_a_restart_and_the_longest_unused_go_first() {
        let folder = Folder::new("pages");
        let mut files = PageFiles::open(&folder.0, 300).unwrap();
        for key in [1, 2, 3] {
            files.put(&[key; 32], &[key; 100]);
        }
        assert_eq!(get(&mut files, 1), Some(vec![1; 100]));
        files.put(&[4; 32], &[4; 100]);
        assert!(!files.contains(&[2; 32]), "the longest unused");
        assert_eq!(files.bytes(), 300);
        files.put(&[5; 32], &[5; 301]);
        assert!(!files.contains(&[5; 32]), "more than the limit");
        drop(files);
        fs::write(folder.0.join("notes.txt"), "mine").unwrap();
        fs::write(folder.0.join(name(&[9; 32]) + UNFINISHED), "half").unwrap();
        let mut files = PageFiles::open(&folder.0, 300).unwrap();
        for key in [1, 3, 4] {
            assert_eq!(get(&mut files, key), Some(vec![key; 100]));
        }
        assert_eq!(get(&mut files, 9), None);
        let mut names: Vec<_> = fs::read_dir(&folder.0)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names.len(), 4);
        assert!(names.iter().any(|name| name == "notes.txt"));
        let files = PageFiles::open(&folder.0, 150).unwrap();
        assert_eq!(files.bytes(), 100, "a smaller limit holds at once");
    }

    #[test]
    fn files_that_changed_or_went_are_not_there() {
        let folder = Folder::new("changed-pages");
        let mut files = PageFiles::open(&folder.0, 1000).unwrap();
        for key in [1, 2, 3] {
            files.put(&[key; 32], &[key; 100]);
        }
        fs::write(files.path(&[1; 32]), [1; 101]).unwrap();
        fs::write(files.path(&[2; 32]), [2; 10]).unwrap();
        fs::remove_file(files.path(&[3; 32])).unwrap();
        for key in [1, 2, 3] {
            assert_eq!(get(&mut files, key), None);
            assert!(!files.contains(&[key; 32]));
        }
        assert_eq!(files.bytes(), 0);
    }
}
