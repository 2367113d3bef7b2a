//! What can go wrong between a name and a model on disk.

use crate::digest::Digest;
use crate::manifest::media_type::MODEL;
use crate::name::{Name, NameError};
use crate::net::NetError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the store could not do what it was asked to.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The name does not make sense.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Nothing has this name.
    #[error("there is no model {0} on this machine")]
    NoSuchModel(Name),
    /// The registry does not know it.
    #[error("the registry has no model {0}")]
    NotInRegistry(Name),
    /// The repository has no file of that quantization.
    #[error("{name} has no complete GGUF file for this tag; available: {known}")]
    NoSuchFile {
        /// What was asked for.
        name: Box<Name>,
        /// What there is.
        known: String,
    },
    /// The repository has weights of another form.
    #[error("{0} has no GGUF file, only a checkpoint that must be converted")]
    OnlyCheckpoint(Name),
    /// A manifest is damaged.
    #[error("the manifest {} is damaged: {fault}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: ManifestFault,
    },
    /// A layer of a model is not here.
    #[error("{name} is incomplete: its {media_type} layer {digest} is missing")]
    MissingBlob {
        /// The model.
        name: Box<Name>,
        /// The layer.
        digest: Digest,
        /// What it would hold.
        media_type: String,
    },
    /// A blob that was to be used is not here.
    #[error("there is no blob {0} here")]
    NoSuchBlob(Digest),
    /// A link, a pipe or a folder is where a file of the store should be.
    #[error("{} is not a regular file, and the store does not follow links", .0.display())]
    NotAFile(PathBuf),
    /// A manifest that lists no weights.
    #[error("{0} has no weights: its manifest lists no layer of the type {MODEL}")]
    NoWeights(Name),
    /// Bytes are not what their name says.
    #[error("digest mismatch: expected {expected}, found {found}")]
    WrongDigest {
        /// What they should have.
        expected: Digest,
        /// What they have.
        found: Digest,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk is full. What was fetched is kept, and the next pull goes on from there.
    #[error("{}: no space left on the disk", path.display())]
    Full {
        /// The file that was being written.
        path: PathBuf,
    },
    /// A layer that is a text is not one, or not of its form.
    #[error("cannot read the {media_type} layer {digest}: {fault}")]
    Layer {
        /// What it should hold.
        media_type: String,
        /// The layer.
        digest: Digest,
        /// What is wrong with it.
        fault: LayerFault,
    },
    /// A file that should be a model is not one.
    #[error("{} cannot be used: {source}", path.display())]
    Gguf {
        /// The file.
        path: PathBuf,
        /// Why.
        source: strata_weights::GgufError,
    },
    /// A folder of a checkpoint is not one file.
    #[error("{} is a folder; convert it to a GGUF file first", .0.display())]
    Folder(PathBuf),
    /// There is nothing to make a model of.
    #[error("cannot create {0}: FROM is missing")]
    NoBase(Name),
    /// Another machine did not do its part.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The home folder is not known.
    #[error("cannot find the model store: neither OLLAMA_MODELS nor {home} is set", home = if cfg!(windows) { "USERPROFILE" } else { "HOME" })]
    NoHome,
    /// Whoever watches the work asked to stop.
    #[error("stopped")]
    Stopped,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManifestFault {
    /// It is not JSON.
    #[error("it is not JSON (line {line}, column {column})")]
    Json {
        /// Where.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// A member is missing or of another type.
    #[error("{0} is missing or of the wrong type")]
    Member(&'static str),
    /// Another version of the format.
    #[error("its schemaVersion is {0}, not 2")]
    Version(u64),
    /// A digest that is none.
    #[error("{0:?} is not a digest")]
    Digest(String),
    /// More than any model has.
    #[error("it lists {0} layers")]
    Layers(usize),
    /// More than any disk has.
    #[error("its layers have more bytes than can be counted")]
    Size,
    /// It is longer than any manifest.
    #[error("it is longer than {0} bytes")]
    Long(u64),
}

/// What is wrong with a layer that is a text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayerFault {
    /// Longer than such a layer may be.
    #[error("it has {0} bytes")]
    Long(u64),
    /// Not UTF-8.
    #[error("it is not UTF-8")]
    Text,
    /// Not the JSON that it should be.
    #[error("it is not the JSON that it should be")]
    Json,
}

impl StoreError {
    /// A failed read or write of `path`.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full { path: path.into() },
            _ => Self::Io {
                path: path.into(),
                source,
            },
        }
    }
}

/// Blames a path for an error of input or output.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T, StoreError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::io(path, source))
    }
}
