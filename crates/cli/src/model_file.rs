//! The bytes of models: files mapped into memory, with the parts of a split one found beside the first, or the model
//! that is built in.

use crate::failure::{Failure, Kind};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use strata_host::{MappedFile, MappedFiles};
use strata_platform::{Backing, Resident};
use strata_weights::{Gguf, GgufSet, SplitName};

/// The name of the model that is built in. A file of this name is reached with a separator: `./tale`.
pub(crate) const BUILT_IN: &str = "tale";

#[cfg(feature = "tale")]
static TALE: Option<&[u8]> = Some(include_bytes!("../../../models/tale/tale-q4_k_m.gguf"));
#[cfg(not(feature = "tale"))]
static TALE: Option<&[u8]> = None;

/// A model's bytes: one file, all parts of a split one, or those in the program itself.
pub(crate) struct ModelFile {
    paths: Vec<PathBuf>,
    bytes: Bytes,
}

enum Bytes {
    /// One for each path.
    Mapped(MappedFiles),
    BuiltIn(&'static [u8]),
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
        let paths: Vec<PathBuf> = match split {
            Some(split) => split
                .names()
                .map(|name| path.with_file_name(name))
                .collect(),
            None => vec![path.to_path_buf()],
        };
        let files = paths.iter().map(|path| map(path));
        let bytes = Bytes::Mapped(MappedFiles(files.collect::<Result<_, _>>()?));
        Ok(Self { paths, bytes })
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
            paths: vec![BUILT_IN.into()],
            bytes: Bytes::BuiltIn(bytes),
        })
    }

    /// Parses and checks every part.
    pub(crate) fn parse(&self) -> Result<GgufSet<'_>, Failure> {
        let parts: Vec<&[u8]> = match &self.bytes {
            Bytes::Mapped(files) => files.0.iter().map(MappedFile::bytes).collect(),
            Bytes::BuiltIn(bytes) => vec![bytes],
        };
        let parts = self
            .paths
            .iter()
            .zip(parts)
            .map(|(path, bytes)| Gguf::parse(bytes).map_err(|error| bad_model(path, error)))
            .collect::<Result<_, _>>()?;
        GgufSet::new(parts).map_err(|error| bad_model(self.path(), error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// Whom to tell which of the bytes are needed.
    pub(crate) fn backing(&self) -> &dyn Backing {
        match &self.bytes {
            Bytes::Mapped(files) => files,
            Bytes::BuiltIn(_) => &Resident,
        }
    }
}

/// A failure that blames the file.
pub(crate) fn bad_model(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::BadModel, format_args!("{}: {error}", path.display())).hint(
        "the file may be truncated or damaged: compare its size and checksum with the source's",
    )
}

fn map(path: &Path) -> Result<MappedFile, Failure> {
    MappedFile::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::io(path.display(), &error)
            .hint("MODEL is the path of a .gguf file, or tale for the model that is built in"),
        ErrorKind::InvalidInput => Failure::new(
            Kind::Usage,
            format_args!("{} is not a file", path.display()),
        )
        .hint("name the model's .gguf file"),
        _ => Failure::io(path.display(), &error),
    })
}
