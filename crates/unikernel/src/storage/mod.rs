//! Models and settings on disks: raw, or as files on FAT partitions; and what is kept on a partition of our own.

#[cfg(feature = "engine")]
pub mod data;
mod digest;
mod pages;
#[cfg(test)]
mod tests;
mod volume;

pub use digest::{DigestError, Sum, digest_from};
pub use pages::{PAGE, Pages, Verified, VerifyError};
pub use strata_image::reader::{Fat, partitions};
pub use volume::Volume;

use crate::drivers::{BlockDevice, DeviceError, Disk};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use strata_image::reader::{FormatError, Source};
use thiserror::Error;

/// Where a model is looked for on each file system.
pub const MODELS: [&str; 3] = ["strata/model.gguf", "model.gguf", "strata.gguf"];
/// Where settings are.
pub const SETTINGS: [&str; 2] = ["strata/strata.toml", "strata.toml"];
/// Settings are no longer than this.
pub const LARGEST_SETTINGS: u64 = 4096;

/// Why a disk cannot be read.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum StorageError {
    /// The disk failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Something lies beyond the end.
    #[error("byte {offset} lies beyond the end of the volume")]
    PastEnd {
        /// Where.
        offset: u64,
    },
    /// What is on it cannot be understood.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// A model that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where, for people.
    pub place: String,
    /// Which disk.
    pub disk: usize,
    /// How many bytes; of a raw one, with what follows it on its disk.
    pub bytes: u64,
    /// Where they are on the disk.
    pub runs: Vec<Range<u64>>,
    /// What they should sum to, if a file beside it says so.
    pub sha256: Option<[u8; 32]>,
}

impl Found {
    /// Reads its bytes from `offset` on.
    pub fn read(
        &self,
        disk: &mut dyn BlockDevice,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), StorageError> {
        let mut volume = Volume::whole(disk);
        let (mut skipped, mut out) = (offset, out);
        for run in &self.runs {
            let len = run.end.saturating_sub(run.start);
            let inside = skipped.min(len);
            skipped -= inside;
            let part = (len - inside).min(out.len() as u64);
            let (now, later) = out.split_at_mut(part as usize);
            volume.read(run.start + inside, now)?;
            out = later;
        }
        match out {
            [] => Ok(()),
            _ => Err(StorageError::PastEnd { offset }),
        }
    }
}

/// Calls `look` with each volume of each disk, until it has found something. What cannot be read is told and left out.
fn each_volume<T, L>(
    disks: &[Disk],
    tell: &mut dyn FnMut(fmt::Arguments<'_>),
    mut look: L,
) -> Option<T>
where
    L: FnMut(usize, &str, &mut Volume<'_>) -> Result<Option<T>, StorageError>,
{
    for (number, disk) in disks.iter().enumerate() {
        let disk = &mut *disk.lock();
        let mut parts = vec![(format!("disk {number}"), 0, u64::MAX)];
        match partitions(&mut Volume::whole(disk)) {
            Ok(found) => parts.extend(found.iter().enumerate().map(|(i, part)| {
                let name = format!("disk {number} partition {}", i + 1);
                (name, part.start, part.bytes)
            })),
            Err(error) => tell(format_args!("disk {number}: {error}")),
        }
        for (name, start, bytes) in parts {
            match look(number, &name, &mut Volume::part(disk, start, bytes)) {
                Ok(None) => {}
                Ok(found) => return found,
                Err(error) => tell(format_args!("{name}: {error}")),
            }
        }
    }
    None
}

/// Looks for a model on all disks: at `path` on a file system, or else anywhere that a model may be.
pub fn find(
    disks: &[Disk],
    path: Option<&str>,
    tell: &mut dyn FnMut(fmt::Arguments<'_>),
) -> Option<Found> {
    each_volume(disks, tell, |disk, name, volume| {
        let mut magic = [0; 4];
        if path.is_none() && volume.bytes() > 4 {
            volume.read(0, &mut magic)?;
        }
        let (start, bytes) = (volume.start(), volume.bytes());
        if &magic == b"GGUF" {
            return Ok(Some(Found {
                place: name.into(),
                disk,
                bytes,
                runs: Vec::from_iter(Some(start..start + bytes)),
                sha256: None,
            }));
        }
        let Some(mut fat) = Fat::open(volume)? else {
            return Ok(None);
        };
        for path in path.as_ref().map_or(&MODELS[..], core::slice::from_ref) {
            let Some(file) = fat.find(path)? else {
                continue;
            };
            let sum = fat.read_small(&format!("{path}.sha256"), LARGEST_SETTINGS)?;
            let on_disk = |run: &Range<u64>| start + run.start..start + run.end;
            return Ok(Some(Found {
                place: format!("{path} on {name}"),
                disk,
                bytes: file.bytes,
                runs: file.runs.iter().map(on_disk).collect(),
                sha256: sum.and_then(|sum| digest_from(&sum)),
            }));
        }
        Ok(None)
    })
}

/// The text of `strata.toml` on the first file system that has one.
pub fn settings(disks: &[Disk], tell: &mut dyn FnMut(fmt::Arguments<'_>)) -> Option<Vec<u8>> {
    each_volume(disks, tell, |_, _, volume| {
        let Some(mut fat) = Fat::open(volume)? else {
            return Ok(None);
        };
        for path in SETTINGS {
            if let Some(text) = fat.read_small(path, LARGEST_SETTINGS)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    })
}
