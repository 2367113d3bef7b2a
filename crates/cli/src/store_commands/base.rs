//! A model that is not in the store as what one of the store is made of.

use super::{checkpoint, failure};
use crate::failure::{Failure, Kind};
use std::path::Path;
use strata::load::ModelFile;
use strata_convert::Folder;
use strata_store::{Base, Name, NameError, Store, StoreError, quietly};

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
    if let Some(bytes) = file.built_in_bytes() {
        let fail = |error: StoreError| failure(&error);
        let mut blob = store.blob_writer().map_err(fail)?;
        blob.write(bytes).map_err(fail)?;
        let (digest, _) = blob.finish(None).map_err(fail)?;
        return Ok(Base::Blob(digest));
    }
    Ok(Base::File(file.path().to_owned()))
}
