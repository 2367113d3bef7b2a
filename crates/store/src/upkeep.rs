//! Checking a store, and putting it in order.

use crate::digest::Digest;
use crate::error::{At, StoreError};
use crate::name::Name;
use crate::progress::{OnProgress, Progress};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Blobs and files under construction that are younger may be somebody's work in progress.
const YOUNG: Duration = Duration::from_secs(3600);

/// Something in a store that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A manifest that cannot be read.
    BadManifest(String),
    /// A model without one of its blobs.
    Incomplete(Name, Digest),
    /// A link, a pipe or a folder in place of a blob.
    NotAFile(PathBuf),
    /// A blob whose bytes are not what its name says.
    Damaged(Digest),
    /// A blob that no model needs, with its bytes.
    Unneeded(Digest, u64),
    /// A file that a process left behind.
    LeftBehind(PathBuf),
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BadManifest(sentence) => f.write_str(sentence),
            Self::Incomplete(name, digest) => write!(f, "{name} lacks its blob {digest}"),
            Self::NotAFile(path) => write!(f, "{} is not a regular file", path.display()),
            Self::Damaged(digest) => write!(f, "the blob {digest} is damaged"),
            Self::Unneeded(digest, bytes) => {
                write!(f, "the blob {digest} ({bytes} bytes) belongs to no model")
            }
            Self::LeftBehind(path) => write!(f, "{} was left behind", path.display()),
        }
    }
}

/// Whether to change anything.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Only look.
    No,
    /// Remove damaged blobs, those that nothing needs, and what was left behind. Models stay listed, so that a pull
    /// brings back what they lack.
    Yes,
}

impl Store {
    /// Reads every blob and every manifest, and says what is wrong.
    pub fn check(
        &self,
        repair: Repair,
        progress: &mut OnProgress<'_>,
    ) -> Result<Vec<Finding>, StoreError> {
        let mut findings = Vec::new();
        let (blobs, others) = self.blobs()?;
        findings.extend(others.into_iter().map(Finding::NotAFile));
        let mut sound = BTreeSet::new();
        for (&digest, &len) in &blobs {
            if self.is_sound(digest, len, progress)? {
                sound.insert(digest);
            } else {
                findings.push(Finding::Damaged(digest));
            }
        }
        let lock = self.lock()?;
        let listing = self.list()?;
        findings.extend(
            listing
                .faults
                .iter()
                .map(|fault| Finding::BadManifest(fault.to_string())),
        );
        for model in &listing.models {
            for layer in model.manifest.all() {
                // A pull may have brought it since.
                if !sound.contains(&layer.digest)
                    && (blobs.contains_key(&layer.digest) || !self.has_blob(&layer.digest))
                {
                    findings.push(Finding::Incomplete(model.name.clone(), layer.digest));
                }
            }
        }
        if let Some(needed) = self.needed(&lock)? {
            let unneeded = blobs.iter().filter(|(digest, _)| {
                sound.contains(digest)
                    && !needed.contains(digest)
                    && is_old(&self.blob_path(digest))
            });
            findings.extend(unneeded.map(|(&digest, &len)| Finding::Unneeded(digest, len)));
        }
        findings.extend(self.left_behind()?.into_iter().map(Finding::LeftBehind));
        if repair == Repair::Yes {
            for finding in &findings {
                let path = match finding {
                    Finding::Damaged(digest) | Finding::Unneeded(digest, _) => {
                        self.blob_path(digest)
                    }
                    // Of a link only the link is removed.
                    Finding::NotAFile(path) if path.is_symlink() => path.clone(),
                    Finding::LeftBehind(path) => path.clone(),
                    Finding::NotAFile(_) | Finding::BadManifest(_) | Finding::Incomplete(..) => {
                        continue;
                    }
                };
                fs::remove_file(&path).at(&path)?;
            }
        }
        Ok(findings)
    }

    /// The blobs that are here, with their bytes, and what is in the place of one.
    fn blobs(&self) -> Result<(BTreeMap<Digest, u64>, Vec<PathBuf>), StoreError> {
        let folder = self.root().join("blobs");
        let (mut blobs, mut others) = (BTreeMap::new(), Vec::new());
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((blobs, others)),
            entries => entries.at(&folder)?,
        };
        for entry in entries {
            let entry = entry.at(&folder)?;
            let digest = entry.file_name().to_str().and_then(Digest::parse);
            if let (Some(digest), Ok(meta)) = (digest, entry.metadata()) {
                if meta.is_file() {
                    blobs.insert(digest, meta.len());
                } else {
                    others.push(entry.path());
                }
            }
        }
        Ok((blobs, others))
    }

    fn is_sound(
        &self,
        digest: Digest,
        len: u64,
        progress: &mut OnProgress<'_>,
    ) -> Result<bool, StoreError> {
        let path = self.blob_path(&digest);
        let file = match File::open(&path) {
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            file => file.at(&path)?,
        };
        let mut stopped = None;
        let found = Digest::of_reader(file, |done| {
            let step = Progress {
                digest: Some(digest.to_string()),
                ..Progress::of("checking", done, len)
            };
            step.tell(progress).map_err(|error| {
                stopped = Some(error);
                io::Error::other("stopped")
            })
        });
        match stopped {
            Some(error) => Err(error),
            None => Ok(found.at(&path)? == digest),
        }
    }

    /// Files under construction that are too old to be still written. Downloads that can go on are not among them.
    fn left_behind(&self) -> Result<Vec<PathBuf>, StoreError> {
        let folder = self.own("tmp");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.at(&folder)?,
        };
        let mut old = Vec::new();
        for entry in entries {
            let path = entry.at(&folder)?.path();
            if is_old(&path) {
                old.push(path);
            }
        }
        Ok(old)
    }
}

fn is_old(path: &std::path::Path) -> bool {
    let modified = fs::metadata(path).and_then(|meta| meta.modified());
    let age = modified
        .ok()
        .and_then(|time| SystemTime::now().duration_since(time).ok());
    age.is_some_and(|age| age > YOUNG)
}
