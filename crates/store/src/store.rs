//! The store: blobs under the digests of their bytes, and manifests under the names of models.

use crate::digest::{Digest, Hasher};
use crate::error::{At, StoreError};
use crate::lock::{Pins, StoreLock};
use crate::manifest::{self, Layer, Manifest};
use crate::model::StoredModel;
use crate::name::Name;
use crate::own_file;
use crate::progress::{OnProgress, Progress};
use crate::scratch::Scratch;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A folder of models in Ollama's layout, which Ollama may use at the same time.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// The models of a store.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those that can be read, the latest first.
    pub models: Vec<StoredModel>,
    /// Manifests that cannot.
    pub faults: Vec<StoreError>,
}

impl Store {
    /// The store at `$OLLAMA_MODELS`, or at `.ollama/models` in the home folder.
    pub fn open_default() -> Result<Self, StoreError> {
        let set = |key| std::env::var_os(key).filter(|value| !value.is_empty());
        match (set("OLLAMA_MODELS"), strata_host::home_folder()) {
            (Some(root), _) => Ok(Self::open(root)),
            (None, Some(home)) => Ok(Self::open(home.join(".ollama/models"))),
            (None, None) => Err(StoreError::NoHome),
        }
    }

    /// The store at `root`; folders are made when something is written.
    pub fn open(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of a blob, whether it is there or not.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.file_name())
    }

    /// Whether a blob is here; a link to a file elsewhere is none.
    pub fn has_blob(&self, digest: &Digest) -> bool {
        self.blob_len(digest).is_some()
    }

    /// Bytes of a blob, if it is here.
    pub(crate) fn blob_len(&self, digest: &Digest) -> Option<u64> {
        own_file::len(&self.blob_path(digest))
    }

    /// What is ours and no business of Ollama's: the lock, pins, and files under construction.
    pub(crate) fn own(&self, folder: &str) -> PathBuf {
        self.root.join(".strata").join(folder)
    }

    pub(crate) fn lock(&self) -> Result<StoreLock, StoreError> {
        StoreLock::take(&self.root.join(".strata"))
    }

    /// Keeps blobs from being collected while a manifest for them is under way.
    pub(crate) fn pin<'a>(
        &self,
        digests: impl Iterator<Item = &'a Digest>,
    ) -> Result<Pins, StoreError> {
        let lock = self.lock()?;
        Pins::new(&self.own("pins"), digests, &lock)
    }

    /// All models. A manifest without weights, such as Ollama keeps for models that run elsewhere, is among the faults.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let mut listing = self.manifests()?;
        let all = std::mem::take(&mut listing.models).into_iter();
        let (models, empty): (Vec<_>, Vec<_>) = all.partition(|model| model.manifest.has_weights());
        let faults = empty.into_iter();
        listing
            .faults
            .extend(faults.map(|model| StoreError::NoWeights(model.name)));
        listing.models = models;
        Ok(listing)
    }

    /// All manifests, with weights or without.
    fn manifests(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        for name in self.names()? {
            match self.read(&name) {
                Ok(model) => listing.models.push(model),
                // Removed between the two looks.
                Err(StoreError::NoSuchModel(_)) => {}
                Err(fault) => listing.faults.push(fault),
            }
        }
        listing
            .models
            .sort_by(|a, b| (b.modified, &a.name).cmp(&(a.modified, &b.name)));
        Ok(listing)
    }

    /// The model of a name. Upper and lower case matter only where they make a difference.
    pub fn find(&self, name: &Name) -> Result<StoredModel, StoreError> {
        let model = self.find_manifest(name)?;
        if model.manifest.has_weights() {
            Ok(model)
        } else {
            Err(StoreError::NoWeights(model.name))
        }
    }

    /// The manifest of a name, with weights or without.
    fn find_manifest(&self, name: &Name) -> Result<StoredModel, StoreError> {
        match self.read(name) {
            Err(StoreError::NoSuchModel(_)) => {}
            found => return found,
        }
        let names = self.names()?;
        let same = names.iter().find(|other| other.same_letters(name));
        same.map_or_else(
            || Err(StoreError::NoSuchModel(name.clone())),
            |name| self.read(name),
        )
    }

    /// Names that have a manifest.
    pub(crate) fn names(&self) -> Result<Vec<Name>, StoreError> {
        let root = self.root.join("manifests");
        let mut level = vec![(root, Vec::new())];
        for _ in 0..4 {
            let mut next = Vec::new();
            for (folder, parts) in level {
                for (path, part) in children(&folder)? {
                    let mut parts: Vec<String> = parts.clone();
                    parts.push(part);
                    next.push((path, parts));
                }
            }
            level = next;
        }
        // What is no name is not Ollama's either: the droppings of file managers.
        Ok(level
            .into_iter()
            .filter(|(path, _)| path.is_file())
            .filter_map(|(_, parts)| Name::new(&parts[0], &parts[1], &parts[2], &parts[3]).ok())
            .collect())
    }

    fn read(&self, name: &Name) -> Result<StoredModel, StoreError> {
        let path = self.manifest_path(name);
        let missing = |error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            )
        };
        let file = match own_file::open(&path) {
            Err(StoreError::Io { source, .. }) if missing(&source) => {
                return Err(StoreError::NoSuchModel(name.clone()));
            }
            file => file?,
        };
        let modified = file.metadata().and_then(|meta| meta.modified()).at(&path)?;
        let mut bytes = Vec::new();
        file.take(manifest::LONGEST + 1)
            .read_to_end(&mut bytes)
            .at(&path)?;
        let manifest =
            Manifest::parse(&bytes).map_err(|fault| StoreError::Manifest { path, fault })?;
        Ok(StoredModel {
            name: name.clone(),
            digest: Digest::of(&bytes),
            manifest,
            modified,
            // Ollama ends the manifests that it makes with a line feed, and those that it fetches without one.
            made_here: bytes.ends_with(b"\n"),
            store: self.clone(),
        })
    }

    pub(crate) fn manifest_bytes(&self, name: &Name) -> Result<Vec<u8>, StoreError> {
        let path = self.manifest_path(name);
        let mut bytes = Vec::new();
        own_file::open(&path)?
            .take(manifest::LONGEST)
            .read_to_end(&mut bytes)
            .at(&path)?;
        Ok(bytes)
    }

    fn manifest_path(&self, name: &Name) -> PathBuf {
        self.root.join("manifests").join(name.path())
    }

    /// Gives a name to blobs that are all here. Nothing is listed before this.
    pub(crate) fn put_manifest(&self, name: &Name, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.manifest_path(name);
        let manifest = Manifest::parse(bytes).map_err(|fault| StoreError::Manifest {
            path: path.clone(),
            fault,
        })?;
        if !manifest.has_weights() {
            return Err(StoreError::NoWeights(name.clone()));
        }
        let _lock = self.lock()?;
        for layer in manifest.all() {
            if self.blob_len(&layer.digest) != Some(layer.size) {
                return Err(StoreError::MissingBlob {
                    name: Box::new(name.clone()),
                    digest: layer.digest,
                    media_type: layer.media_type.clone(),
                });
            }
        }
        let mut file = Scratch::new(&self.own("tmp"))?;
        file.write(bytes)?;
        file.publish(&path)
    }

    /// Gives a model another name too.
    pub fn copy(&self, source: &Name, destination: &Name) -> Result<(), StoreError> {
        let model = self.find(source)?;
        let _pins = self.pin(model.manifest.all().map(|layer| &layer.digest))?;
        self.put_manifest(destination, &self.manifest_bytes(&model.name)?)
    }

    /// Removes a name, and the blobs that no other one needs.
    pub fn remove(&self, name: &Name) -> Result<(), StoreError> {
        let model = self.find_manifest(name)?;
        let lock = self.lock()?;
        let path = self.manifest_path(&model.name);
        fs::remove_file(&path).at(&path)?;
        // Folders stay only as long as there is something in them.
        for folder in path.ancestors().skip(1).take(3) {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
        self.collect(model.manifest.all().map(|layer| layer.digest), &lock)
    }

    /// Removes those of the blobs that nothing needs.
    pub(crate) fn collect(
        &self,
        blobs: impl Iterator<Item = Digest>,
        lock: &StoreLock,
    ) -> Result<(), StoreError> {
        let Some(needed) = self.needed(lock)? else {
            return Ok(());
        };
        for digest in blobs.filter(|digest| !needed.contains(digest)) {
            let path = self.blob_path(&digest);
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.at(&path)?,
            }
        }
        Ok(())
    }

    /// The blobs of all manifests and pins; `None` where a manifest cannot be read, for it might need any.
    pub(crate) fn needed(&self, lock: &StoreLock) -> Result<Option<BTreeSet<Digest>>, StoreError> {
        let listing = self.manifests()?;
        if !listing.faults.is_empty() {
            return Ok(None);
        }
        let mut needed = Pins::all(&self.own("pins"), lock)?;
        for model in &listing.models {
            needed.extend(model.manifest.all().map(|layer| layer.digest));
        }
        Ok(Some(needed))
    }

    /// A blob to be written piece by piece.
    pub fn blob_writer(&self) -> Result<BlobWriter, StoreError> {
        Ok(BlobWriter {
            store: self.clone(),
            file: Scratch::new(&self.own("tmp"))?,
            hasher: Hasher::default(),
            len: 0,
        })
    }

    /// Stores bytes as a layer.
    pub(crate) fn put_layer(&self, media_type: &str, bytes: &[u8]) -> Result<Layer, StoreError> {
        let mut blob = self.blob_writer()?;
        blob.write(bytes)?;
        let (digest, size) = blob.finish(None)?;
        Ok(Layer {
            media_type: media_type.into(),
            digest,
            size,
            from: None,
        })
    }

    /// Stores a copy of a file.
    pub fn import(
        &self,
        path: &Path,
        progress: &mut OnProgress<'_>,
    ) -> Result<(Digest, u64), StoreError> {
        let mut file = File::open(path).at(path)?;
        let total = file.metadata().at(path)?.len();
        let mut blob = self.blob_writer()?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let n = file.read(&mut buffer).at(path)?;
            if n == 0 {
                return blob.finish(None);
            }
            blob.write(&buffer[..n])?;
            Progress::of(format!("copying {}", path.display()), blob.len, total).tell(progress)?;
        }
    }
}

/// A blob under construction. It is in the store once [`finish`](Self::finish) says so; dropped before, it is gone.
pub struct BlobWriter {
    store: Store,
    file: Scratch,
    hasher: Hasher,
    len: u64,
}

impl BlobWriter {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write(bytes)?;
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Puts it in the store, if it has the digest that it should have.
    pub fn finish(self, expected: Option<Digest>) -> Result<(Digest, u64), StoreError> {
        let found = self.hasher.finish();
        match expected {
            Some(expected) if expected != found => {
                return Err(StoreError::WrongDigest { expected, found });
            }
            _ => {}
        }
        if self.store.blob_len(&found) != Some(self.len) {
            self.file.publish(&self.store.blob_path(&found))?;
        }
        Ok((found, self.len))
    }
}

/// For those who write as files are written. Why it failed is told as an error of input and output.
impl io::Write for BlobWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes).map_err(|error| match error {
            StoreError::Io { source, .. } => source,
            StoreError::Full { .. } => io::ErrorKind::StorageFull.into(),
            other => io::Error::other(other),
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is in a folder, with names; nothing if there is no such folder.
fn children(folder: &Path) -> Result<Vec<(PathBuf, String)>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        entries => entries.at(folder)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.at(folder)?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((entry.path(), name));
        }
    }
    Ok(found)
}
