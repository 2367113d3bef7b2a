//! The bytes of models: files mapped into memory, with the parts of a split one found beside the first, Hugging Face
//! folders put together as they are, or the model that is built in.

use super::packed_model;
use super::parsed_model::trained_context;
use super::preset::Preset;
use super::stored::{store_error, stored};
use crate::error::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_convert::{Direct, Folder, FolderError, Mix, Options};
use strata_host::{MappedFile, MappedFiles, ThreadPool};
use strata_model::spec::ArchSpec;
use strata_platform::{Backing, Resident};
use strata_store::StoredModel;
use strata_weights::{Gguf, GgufSet, SplitName};

/// The name of the built-in model. A file of this name is reached with a separator: `./tale`.
pub const BUILT_IN: &str = "tale";

/// Whether a name refers to the built-in model; as with every model, no tag means `latest`.
pub fn is_built_in(name: &Path) -> bool {
    let name = name.to_str().unwrap_or_default();
    name.strip_suffix(":latest").unwrap_or(name) == BUILT_IN
}

/// The file of the built-in model, if this program has one.
pub fn built_in() -> Option<&'static [u8]> {
    TALE
}

#[cfg(feature = "tale")]
static TALE: Option<&[u8]> = Some(include_bytes!("../../../../models/tale/tale-q4_k_m.gguf"));
#[cfg(not(feature = "tale"))]
static TALE: Option<&[u8]> = None;

/// A model's bytes: one file, all parts of a split one, or those in the program itself.
pub struct ModelFile {
    paths: Vec<PathBuf>,
    bytes: Bytes,
    /// What its Modelfile says, if it is one of the store.
    preset: Option<Box<Preset>>,
    /// An architecture that nothing was compared with and that was asked for by its name.
    untested: Option<&'static ArchSpec>,
}

enum Bytes {
    /// One for each path.
    Mapped(Arc<MappedFiles>),
    Folder(Arc<Direct>),
    BuiltIn(&'static [u8]),
}

impl ModelFile {
    /// Opens `tale`, or maps `path` and, where its name says that it is one part of several, its siblings.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_as(path, None, &mut |_, _| {})
    }

    /// The same, with a checkpoint's matrices quantized on the way.
    pub fn open_as(
        path: &Path,
        quant: Option<Mix>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, Error> {
        let built_in = is_built_in(path);
        if !built_in && Folder::is_checkpoint(path) {
            return Self::open_folder(path, quant, progress);
        }
        if quant.is_some() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!(
                    "--quant applies to folders, and {} is a file",
                    path.display()
                ),
            )
            .with_hint("`strata quantize` writes a file with other types"));
        }
        if built_in {
            return Self::built_in();
        }
        let split = path
            .file_name()
            .and_then(|name| SplitName::parse(name.to_str()?));
        // What is no file may be a model of the store.
        if !path.exists()
            && let Some(stored) = stored(path)
        {
            return Self::open_stored(&stored?);
        }
        if let Some(packed) = packed_model::open(path) {
            let (file, preset) = packed?;
            return Ok(Self {
                paths: vec![path.into()],
                bytes: Bytes::Mapped(Arc::new(MappedFiles(vec![file]))),
                preset: preset.map(Box::new),
                untested: None,
            });
        }
        let paths: Vec<PathBuf> = match split {
            Some(split) => split
                .names()
                .map(|name| path.with_file_name(name))
                .collect(),
            None => vec![path.to_path_buf()],
        };
        Self::mapped(paths, None)
    }

    /// Opens a model of the store.
    pub fn open_stored(model: &StoredModel) -> Result<Self, Error> {
        let weights = model.weights();
        let weights = weights.map_err(|error| store_error(&error))?;
        if weights.is_empty() {
            let sentence = format_args!("{} has no weights to run", model.name);
            return Err(Error::new(ErrorKind::InvalidModel, sentence));
        }
        Self::mapped(weights, Some(Box::new(Preset::new(model)?)))
    }

    fn mapped(paths: Vec<PathBuf>, preset: Option<Box<Preset>>) -> Result<Self, Error> {
        let files = paths.iter().map(|path| map(path));
        let bytes = Bytes::Mapped(Arc::new(MappedFiles(files.collect::<Result<_, _>>()?)));
        Ok(Self {
            paths,
            bytes,
            preset,
            untested: None,
        })
    }

    /// The bytes in the program itself, if it is the model that is built in.
    pub fn built_in_bytes(&self) -> Option<&'static [u8]> {
        match self.bytes {
            Bytes::BuiltIn(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Positions that the model was trained for, as its file says.
    pub(crate) fn own_context(&self) -> Result<Option<usize>, Error> {
        Ok(trained_context(self.parse()?.metadata()))
    }

    /// What its Modelfile says, if it is a model of the store.
    pub fn preset(&self) -> Option<&Preset> {
        self.preset.as_deref()
    }

    /// The architecture that was asked for by its name, among those that nothing was compared with.
    pub fn untested(&self) -> Option<&'static ArchSpec> {
        self.untested
    }

    /// Lets the file be of an architecture that nothing was compared with.
    #[must_use]
    pub fn allowing(mut self, untested: Option<&'static ArchSpec>) -> Self {
        self.untested = untested;
        self
    }

    fn open_folder(
        path: &Path,
        quant: Option<Mix>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Self, Error> {
        let pool =
            ThreadPool::new(None).map_err(|error| Error::io("the worker threads", &error))?;
        let fail = |error| bad_folder(path, &error);
        let folder = Folder::open(path).map_err(fail)?;
        let name = folder.name();
        let options = Options {
            mix: quant,
            name: name.as_deref(),
        };
        let show = &mut |done: u64, total: u64| progress(done as usize, total as usize);
        let direct = Direct::new(folder, &options, &pool, show).map_err(fail)?;
        Ok(Self {
            paths: vec![path.to_path_buf()],
            bytes: Bytes::Folder(Arc::new(direct)),
            preset: None,
            untested: None,
        })
    }

    fn built_in() -> Result<Self, Error> {
        let bytes = TALE.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "this program was built without the model tale",
            )
            .with_hint(
                "build it with `--features tale`, or run the file models/tale/tale-q4_k_m.gguf",
            )
        })?;
        Ok(Self {
            paths: vec![BUILT_IN.into()],
            bytes: Bytes::BuiltIn(bytes),
            preset: None,
            untested: None,
        })
    }

    /// Parses and checks every part.
    pub fn parse(&self) -> Result<GgufSet<'_>, Error> {
        let parts: Vec<&[u8]> = match &self.bytes {
            Bytes::Mapped(files) => files.0.iter().map(MappedFile::bytes).collect(),
            Bytes::BuiltIn(bytes) => vec![bytes],
            Bytes::Folder(folder) => {
                return folder
                    .parse()
                    .map_err(|error| bad_folder(self.path(), &error));
            }
        };
        let parts = self
            .paths
            .iter()
            .zip(parts)
            .map(|(path, bytes)| {
                let parsed = Gguf::parse(bytes);
                parsed.map_err(|error| {
                    not_gguf(path, bytes).unwrap_or_else(|| bad_model(path, error))
                })
            })
            .collect::<Result<_, _>>()?;
        GgufSet::new(parts).map_err(|error| bad_model(self.path(), error))
    }

    /// The bytes of a model that is one file.
    pub fn whole(&self) -> Result<&[u8], Error> {
        let refused = |what: &str, hint: &str| {
            let sentence = format_args!("{} is {what}", self.path().display());
            Err(Error::new(ErrorKind::InvalidArgument, sentence).with_hint(hint))
        };
        match &self.bytes {
            Bytes::BuiltIn(bytes) => Ok(bytes),
            Bytes::Mapped(files) => match &files.0[..] {
                [file] => Ok(file.bytes()),
                _ => refused(
                    "one part of a split model",
                    "join the parts into one file first",
                ),
            },
            Bytes::Folder(_) => refused("a folder", "`strata convert` writes it as one file"),
        }
    }

    /// The file, or the first of several.
    pub fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// What weights are read from that stay in the file.
    pub fn backing(&self) -> Arc<dyn Backing> {
        match &self.bytes {
            Bytes::Mapped(files) => Arc::<MappedFiles>::clone(files),
            Bytes::BuiltIn(bytes) => Arc::new(Resident(bytes)),
            Bytes::Folder(folder) => Arc::<Direct>::clone(folder),
        }
    }
}

/// A failure that blames a folder or one of its files.
pub fn bad_folder(path: &Path, error: &FolderError) -> Error {
    match error {
        FolderError::Io { path, source } => Error::io(path.display(), source),
        FolderError::Convert(error) => Error::new(
            ErrorKind::InvalidModel,
            format_args!("{}: {error}", path.display()),
        ),
        error => Error::new(ErrorKind::InvalidModel, error),
    }
}

/// A file that is not even the beginning of a GGUF.
fn not_gguf(path: &Path, bytes: &[u8]) -> Option<Error> {
    let head = &bytes[..bytes.len().min(512)];
    let is_text = || {
        // A character may be cut at the end.
        let whole = match std::str::from_utf8(head) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        };
        whole.len() + 4 > head.len() && !whole.chars().any(|c| c.is_control() && !c.is_whitespace())
    };
    let what = match head {
        [] => "it is empty",
        [b'G', b'G', b'U', b'F', ..] => return None,
        [b'P', b'K', 3, 4, ..] => "it is a ZIP archive",
        _ if is_text() => "it is a text file",
        _ => "it begins differently",
    };
    let sentence = format_args!("{} is not a GGUF file: {what}", path.display());
    Some(Error::new(ErrorKind::InvalidModel, sentence).with_hint(WHAT_A_MODEL_IS))
}

/// What can be named where a model is asked for.
const WHAT_A_MODEL_IS: &str = "MODEL is a .gguf file, a Hugging Face folder, or the name of a model; `strata list` shows the models on this machine";

/// A failure that blames the file.
pub fn bad_model(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::InvalidModel,
        format_args!("{}: {error}", path.display()),
    )
    .with_hint(
        "the file may be truncated or damaged: compare its size and checksum with the original's",
    )
}

fn map(path: &Path) -> Result<MappedFile, Error> {
    MappedFile::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::io(path.display(), &error).with_hint(WHAT_A_MODEL_IS)
        }
        std::io::ErrorKind::InvalidInput => Error::new(
            ErrorKind::InvalidArgument,
            format_args!("{} is not a file", path.display()),
        )
        .with_hint("name a .gguf file, or a folder with a config.json"),
        _ => Error::io(path.display(), &error),
    })
}
