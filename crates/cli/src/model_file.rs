//! The bytes of models: files mapped into memory, with the parts of a split one found beside the first, or the model
//! that is built in.

use crate::failure::{Failure, Kind};
use memmap2::{Mmap, UncheckedAdvice};
use std::fs::File;
use std::path::{Path, PathBuf};
use strata_weights::{Gguf, GgufSet, SplitName};

/// The name of the model that is built in. A file of this name is reached with a separator: `./tale`.
pub(crate) const BUILT_IN: &str = "tale";

#[cfg(feature = "tale")]
static TALE: Option<&[u8]> = Some(include_bytes!("../../../models/tale/tale-q4_k_m.gguf"));
#[cfg(not(feature = "tale"))]
static TALE: Option<&[u8]> = None;

/// A model's bytes: one file, all parts of a split one, or those in the program itself.
pub(crate) struct ModelFile {
    parts: Vec<(PathBuf, Bytes)>,
}

enum Bytes {
    Mapped(Mmap),
    BuiltIn(&'static [u8]),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::BuiltIn(bytes) => bytes,
        }
    }
}

impl ModelFile {
    /// Opens `tale`, or maps `path` and, where its name says that it is one part of several, its siblings.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == BUILT_IN {
            return Self::built_in();
        }
        let split = path
            .file_name()
            .and_then(|name| SplitName::parse(name.to_str()?));
        let paths = match split {
            Some(split) => split
                .names()
                .map(|name| path.with_file_name(name))
                .collect(),
            None => vec![path.to_path_buf()],
        };
        let parts = paths
            .into_iter()
            .map(|path| map(&path).map(|bytes| (path, Bytes::Mapped(bytes))))
            .collect::<Result<_, _>>()?;
        Ok(Self { parts })
    }

    fn built_in() -> Result<Self, Failure> {
        let bytes = TALE.ok_or_else(|| {
            Failure::new(
                Kind::Usage,
                "the model tale is not built into this program",
            )
            .hint("build it with `--features tale`, or name the file models/tale/tale-q4_k_m.gguf of the sources")
        })?;
        Ok(Self {
            parts: vec![(BUILT_IN.into(), Bytes::BuiltIn(bytes))],
        })
    }

    /// Parses and checks every part.
    pub(crate) fn parse(&self) -> Result<GgufSet<'_>, Failure> {
        let parts = self
            .parts
            .iter()
            .map(|(path, bytes)| Gguf::parse(bytes.get()).map_err(|error| bad_model(path, error)))
            .collect::<Result<_, _>>()?;
        GgufSet::new(parts).map_err(|error| bad_model(&self.parts[0].0, error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.parts[0].0
    }

    /// Takes the file's pages off this process's memory. What is read again comes from the system's cache.
    #[allow(unsafe_code)]
    pub(crate) fn release(&self) {
        for (_, bytes) in &self.parts {
            if let Bytes::Mapped(map) = bytes {
                // SAFETY: the mapping is of a file and never written to, so dropped pages come back with the same
                // bytes.
                let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
            }
        }
    }
}

/// A failure that blames the file.
pub(crate) fn bad_model(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::BadModel, format_args!("{}: {error}", path.display())).hint(
        "the file may be truncated or damaged: compare its size and checksum with the source's",
    )
}

#[allow(unsafe_code)]
fn map(path: &Path) -> Result<Mmap, Failure> {
    let file = File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::io(path.display(), &error)
            .hint("MODEL is the path of a .gguf file, or tale for the model that is built in"),
        _ => Failure::io(path.display(), &error),
    })?;
    let about = file
        .metadata()
        .map_err(|error| Failure::io(path.display(), &error))?;
    if !about.is_file() {
        return Err(Failure::new(
            Kind::Usage,
            format_args!("{} is not a file", path.display()),
        )
        .hint("name the model's .gguf file"));
    }
    // SAFETY: the mapping is read-only and private. Another process that shrinks the file while it is
    // mapped would end this one with SIGBUS, which loses nothing: the file is only read.
    unsafe { Mmap::map(&file) }.map_err(|error| Failure::io(path.display(), &error))
}
