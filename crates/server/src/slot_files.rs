//! Files of saved slots: in one folder, each client's apart, and no more bytes in all than allowed.

use crate::owner_names::{OwnerNames, create_private_folder, write_private};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use strata_chat::{Fault, FaultKind};

/// A folder for saved slots.
#[derive(Clone, Debug)]
pub struct SlotFolder {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of all files in it at most.
    pub limit: u64,
}

impl SlotFolder {
    /// Where a client's file is. The name comes from the dialect, which lets no path through, and is looked at once
    /// more, since files outside are at stake.
    fn file(&self, owner: u64, name: &str) -> Result<PathBuf, Fault> {
        let plain = Path::new(name).file_name().and_then(|name| name.to_str()) == Some(name);
        if !plain || name.starts_with('.') {
            let problem = "filename: must be the plain name of a file";
            return Err(Fault::bad_request(problem));
        }
        let names = OwnerNames::of(&self.path).map_err(failed)?;
        Ok(self.path.join(names.name(&owner.to_string())).join(name))
    }

    /// Writes a file, whole or not at all.
    pub(crate) fn write(&self, owner: u64, name: &str, bytes: &[u8]) -> Result<(), Fault> {
        let path = self.file(owner, name)?;
        let folder = path.parent().unwrap_or(&self.path);
        create_private_folder(folder).map_err(failed)?;
        let replaced = fs::metadata(&path).map_or(0, |file| file.len());
        let held = bytes_in(&self.path, 2).map_err(failed)?;
        let after = held.saturating_sub(replaced) + bytes.len() as u64;
        if after > self.limit {
            let problem = format_args!(
                "the folder for slots holds {held} bytes and this one has {}: {} are allowed",
                bytes.len(),
                self.limit
            );
            let kind = FaultKind::Unavailable {
                retry_after: std::time::Duration::from_secs(60),
            };
            return Err(Fault::new(kind, problem));
        }
        let draft = folder.join(format!(".{name}.part"));
        let written = write_private(&draft, bytes).and_then(|()| fs::rename(&draft, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&draft);
            failed(error)
        })
    }

    /// Reads a file that was written here.
    pub(crate) fn read(&self, owner: u64, name: &str) -> Result<Vec<u8>, Fault> {
        let path = self.file(owner, name)?;
        let file = fs::File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let problem = format_args!("there is no saved slot {name:?}");
                Fault::new(FaultKind::NotFound, problem)
            }
            _ => failed(error),
        })?;
        let mut bytes = Vec::new();
        let read = file.take(self.limit).read_to_end(&mut bytes);
        read.map_err(failed)?;
        Ok(bytes)
    }
}

fn bytes_in(folder: &Path, depth: usize) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        bytes += if !facts.is_dir() {
            facts.len()
        } else if depth > 0 {
            bytes_in(&entry.path(), depth - 1)?
        } else {
            0
        };
    }
    Ok(bytes)
}

fn failed(error: io::Error) -> Fault {
    let problem = format_args!("the folder for slots cannot be used: {error}");
    Fault::new(FaultKind::Internal, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_the_folder_within_the_limit_and_with_their_owner() {
        let path = std::env::temp_dir().join(format!("strata-slots-{}", std::process::id()));
        let folder = SlotFolder {
            path: path.clone(),
            limit: 42,
        };
        for name in ["../a", "a/b", "..", ".", "", "/etc/passwd", ".hidden"] {
            assert!(folder.write(1, name, b"x").is_err(), "{name}");
            assert!(folder.read(1, name).is_err(), "{name}");
        }
        folder.write(1, "a", b"12345678").unwrap();
        folder.write(1, "a", b"12345679").unwrap();
        assert_eq!(folder.read(1, "a").unwrap(), b"12345679");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let file = folder.file(1, "a").unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        }
        // Another folder has other names for the same owner.
        let elsewhere = path.with_extension("other");
        let names = |path: &Path| OwnerNames::of(path).unwrap().name("1");
        assert_eq!(names(&path), names(&path));
        assert_ne!(names(&path), names(&elsewhere));
        fs::remove_dir_all(elsewhere).unwrap();
        let other = folder.read(2, "a").unwrap_err();
        assert_eq!(other.kind, FaultKind::NotFound);
        let full = folder.write(2, "b", b"123").unwrap_err();
        assert!(full.message.contains("42 are allowed"), "{full:?}");
        fs::remove_dir_all(path).unwrap();
    }
}
