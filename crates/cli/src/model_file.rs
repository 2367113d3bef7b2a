//! Model files on disk: mapped, parsed, with the parts of a split file found beside the first.

use crate::failure::{Failure, Kind};
use memmap2::Mmap;
use std::fs::File;
use std::path::{Path, PathBuf};
use strata_weights::{Gguf, GgufSet, SplitName};

/// The mapped bytes of a model: one file, or all parts of a split one.
pub(crate) struct ModelFile {
    parts: Vec<(PathBuf, Mmap)>,
}

impl ModelFile {
    /// Maps `path` and, where its name says that it is one part of several, its siblings.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
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
            .map(|path| map(&path).map(|bytes| (path, bytes)))
            .collect::<Result<_, _>>()?;
        Ok(Self { parts })
    }

    /// Parses and checks every part.
    pub(crate) fn parse(&self) -> Result<GgufSet<'_>, Failure> {
        let parts = self
            .parts
            .iter()
            .map(|(path, bytes)| Gguf::parse(bytes).map_err(|error| bad_model(path, error)))
            .collect::<Result<_, _>>()?;
        GgufSet::new(parts).map_err(|error| bad_model(&self.parts[0].0, error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.parts[0].0
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
    let file = File::open(path).map_err(|error| Failure::io(path.display(), &error))?;
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
