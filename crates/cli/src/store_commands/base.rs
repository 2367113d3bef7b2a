//! A model that is not in the store as what one of the store is made of.

use super::{built_in, checkpoint};
use crate::failure::{Failure, Kind};
use std::path::Path;
use strata::load::ModelFile;
use strata_convert::Folder;
use strata_store::{Base, Name, NameError, Store, quietly};

/// What a model is made of that has the weights at a path: of a file, a folder, a model of the store, or the built-in one.
pub(crate) fn of_path(store: &Store, path: &Path) -> Result<Base, Failure> {
    if Folder::is_checkpoint(path) {
        let digest = checkpoint::convert(store, path, None, &mut quietly)?;
        return Ok(Base::Blob(digest));
    }
    let file = ModelFile::open(path)?;
    if let Some(preset) = file.preset() {
        let unusable = |error: NameError| Failure::new(Kind::Failed, error);
        let name: Name = preset.name.parse().map_err(unusable)?;
        return Ok(Base::Model(name));
    }
    if file.built_in_bytes().is_some() {
        return built_in::base(store);
    }
    Ok(Base::File(file.path().to_owned()))
}
