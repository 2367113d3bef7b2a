//! Models inside of executables that `strata pack` wrote. A path goes through the executable as through a folder:
//! `story.run/models/tale.gguf`.

use super::preset::Preset;
use crate::error::{Error, ErrorKind};
use std::io;
use std::path::{Path, PathBuf};
use strata_host::MappedFile;
use strata_pack::{Artifact, MODELS, Zip};

/// Maps the model that a path means inside of an executable; nothing where it means something else.
pub(super) fn open(path: &Path) -> Option<Result<(MappedFile, Option<Preset>), Error>> {
    let not_a_folder = |error: &io::Error| error.kind() == io::ErrorKind::NotADirectory;
    path.symlink_metadata().err().filter(not_a_folder)?;
    let (container, name) = split(path)?;
    Some(open_inside(&container, &name))
}

/// The file on the way, and what comes after it.
fn split(path: &Path) -> Option<(PathBuf, String)> {
    let container = path.ancestors().find(|above| above.is_file())?;
    let rest = path.strip_prefix(container).ok()?;
    let parts = rest.iter().map(|part| part.to_str());
    let parts: Option<Vec<&str>> = parts.collect();
    Some((container.into(), parts?.join("/")))
}

fn open_inside(container: &Path, name: &str) -> Result<(MappedFile, Option<Preset>), Error> {
    let failed = |error: &io::Error| Error::io(container.display(), error);
    let wrong = |what: &dyn std::fmt::Display| {
        let sentence = format_args!("{}: {what}", container.display());
        Error::new(ErrorKind::InvalidModel, sentence)
    };
    let whole = MappedFile::open(container).map_err(|error| failed(&error))?;
    let artifact = Artifact::read(whole.bytes()).map_err(|error| wrong(&error))?;
    let zip = Zip::read(whole.bytes()).map_err(|error| wrong(&error))?;
    let models = &artifact.manifest.models;
    let model = name.strip_prefix(MODELS);
    let model = model.and_then(|file| models.iter().find(|model| model.file == file));
    let (Some(model), Some(entry)) = (model, zip.find(name)) else {
        let names = models.iter().map(|model| format!("{MODELS}{}", model.file));
        let names: Vec<String> = names.collect();
        return Err(wrong(&format_args!("there is no {name} in it"))
            .with_hint(format_args!("it holds {}", names.join(", "))));
    };
    let preset = model.preset.as_ref();
    let preset = preset
        .map(|preset| Preset::packed(model, preset))
        .transpose()?;
    let file = MappedFile::open_range(container, entry.range.clone());
    Ok((file.map_err(|error| failed(&error))?, preset))
}
