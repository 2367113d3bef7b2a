//! A model's projector: where it is, and its file.

use crate::error::{Error, ErrorKind};
use crate::load::{Machine, ModelFile, bad_folder, bad_model};
use std::fmt;
use std::path::{Path, PathBuf};
use strata_chat::Capability;
use strata_convert::{Folder, FolderError, WriteFailure};
use strata_model::AudioTowerConfig;
use strata_platform::Sha256;
use strata_weights::{Gguf, GgufSet};

/// Where a model's projector is: where somebody says, in the store, or beside the model's file.
pub(crate) fn find(file: &ModelFile, asked: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = asked {
        return Some(path.into());
    }
    if let Some(preset) = file.preset() {
        return preset.projectors.first().cloned();
    }
    if Folder::is_checkpoint(file.path()) {
        return Some(file.path().into());
    }
    let folder = file.path().parent()?;
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let is_projector = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains("mmproj") && name.ends_with(".gguf") && path != file.path()
    };
    let entries = std::fs::read_dir(folder).ok()?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_projector)
        .collect();
    found.sort();
    found.into_iter().next()
}

/// What a projector adds to what a model can do, before it is loaded: as its file says.
pub fn perceives(file: &ModelFile, asked: Option<&Path>) -> Vec<Capability> {
    let Some(path) = find(file, asked) else {
        return Vec::new();
    };
    let (sees, hears) = if Folder::is_checkpoint(&path) {
        of_checkpoint(&path).unwrap_or_default()
    } else {
        let opened = ModelFile::open(&path);
        let told = opened.and_then(|file| Ok(has(&file.parse()?)));
        told.unwrap_or_default()
    };
    let both = [(sees, Capability::Vision), (hears, Capability::Audio)];
    let both = both.into_iter().filter(|(can, _)| *can);
    both.map(|(_, capability)| capability).collect()
}

/// Whether a Hugging Face folder has what sees, and what hears.
fn of_checkpoint(path: &Path) -> Result<(bool, bool), FolderError> {
    let folder = Folder::open(path)?;
    let (config, checkpoint) = (folder.config()?, folder.tensors()?);
    let plan = folder.projector(&config, &checkpoint)?;
    let begins = |with: &str| {
        let mut tensors = plan.iter().flat_map(|plan| plan.tensors());
        tensors.any(|tensor| tensor.name.starts_with(with))
    };
    Ok((begins("v."), begins("a.")))
}

/// Whether a projector's file lets a model see, and whether hear. Old files do not say that they see.
fn has(set: &GgufSet<'_>) -> (bool, bool) {
    let metadata = set.metadata();
    let tower = metadata.str("general.architecture").ok().flatten() == Some("clip");
    let hears = AudioTowerConfig::is_in(metadata);
    let sees = metadata.bool("clip.has_vision_encoder").ok().flatten();
    (tower && sees.unwrap_or(!hears), tower && hears)
}

/// A projector's file.
pub(crate) struct ProjectorFile {
    path: PathBuf,
    bytes: Bytes,
}

enum Bytes {
    Mapped(ModelFile),
    /// Of a Hugging Face folder.
    Made(Vec<u8>),
}

impl ProjectorFile {
    /// Opens a file, or makes it of a Hugging Face folder.
    pub(crate) fn open(path: &Path, machine: &Machine) -> Result<Self, Error> {
        let bytes = if Folder::is_checkpoint(path) {
            Bytes::Made(of_folder(path, machine)?)
        } else {
            Bytes::Mapped(ModelFile::open(path)?)
        };
        let path = path.into();
        Ok(Self { path, bytes })
    }

    /// Its tensors and metadata.
    pub(crate) fn parse(&self) -> Result<GgufSet<'_>, Error> {
        match &self.bytes {
            Bytes::Mapped(file) => file.parse(),
            Bytes::Made(bytes) => {
                let file = Gguf::parse(bytes).map_err(|error| bad_model(&self.path, error))?;
                GgufSet::new(vec![file]).map_err(|error| bad_model(&self.path, error))
            }
        }
    }

    /// Whether it lets a model see, and whether hear.
    pub(crate) fn has(&self) -> Result<(bool, bool), Error> {
        Ok(match has(&self.parse()?) {
            // What it is instead is told by the tower that is looked for.
            (false, false) => (true, false),
            told => told,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about it; `fault` follows its path.
    pub(crate) fn fault(&self, fault: fmt::Arguments<'_>) -> Error {
        let sentence = format_args!("the projector {} {fault}", self.path.display());
        Error::new(ErrorKind::InvalidModel, sentence)
    }
}

/// The projector of a Hugging Face folder as a GGUF file.
fn of_folder(path: &Path, machine: &Machine) -> Result<Vec<u8>, Error> {
    let fail = |error: FolderError| bad_folder(path, &error);
    let folder = Folder::open(path).map_err(fail)?;
    let config = folder.config().map_err(fail)?;
    let checkpoint = folder.tensors().map_err(fail)?;
    let plan = folder.projector(&config, &checkpoint).map_err(fail)?;
    let plan = plan.ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidModel,
            format_args!("{} has no projector that can be read", path.display()),
        )
    })?;
    let mut file = Vec::new();
    let done = folder.convert(&plan, &mut file, &*machine.pool, &mut |_, _| {});
    done.map_err(|failure| match failure {
        WriteFailure::Convert(error) => fail(error.into()),
        WriteFailure::Sink(error) => Error::io(path.display(), &error),
    })?;
    Ok(file)
}

/// The digest of one part of what another is of.
pub(crate) fn numbered(digest: [u8; 32], index: usize) -> [u8; 32] {
    let mut sum = Sha256::new();
    sum.update(digest);
    sum.update((index as u64).to_le_bytes());
    sum.finalize()
}
