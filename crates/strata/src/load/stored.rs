//! Models of the store, and what goes wrong with them.

use crate::error::{Error, ErrorKind};
use std::path::Path;
use strata_store::{Name, NetError, Store, StoreError, StoredModel};

/// What to do where a model is not to be had.
pub const WHAT_IS_HERE: &str = "`strata list` shows the models on this machine";

/// The model of the store that has this name, if there is one.
pub fn stored(name: &Path) -> Option<Result<StoredModel, Error>> {
    let name: Name = name.to_str()?.parse().ok()?;
    let model = match Store::open_default().and_then(|store| store.find(&name)) {
        Err(StoreError::NoSuchModel(_) | StoreError::NoHome) => return None,
        model => model,
    };
    Some(model.map_err(|error| store_error(&error)))
}

/// What went wrong in the store, and what to do about it.
pub fn store_error(error: &StoreError) -> Error {
    let kind = match error {
        StoreError::NoSuchModel(_) => ErrorKind::NotFound,
        StoreError::Name(_) | StoreError::NoBase(_) => ErrorKind::InvalidArgument,
        StoreError::Manifest { .. }
        | StoreError::Gguf { .. }
        | StoreError::Layer { .. }
        | StoreError::NotAFile(_)
        | StoreError::NoWeights(_) => ErrorKind::InvalidModel,
        _ => ErrorKind::Io,
    };
    let said = Error::new(kind, error);
    match error {
        StoreError::NoSuchModel(name) => said.with_hint(format_args!(
            "`strata pull {name}` downloads it; {WHAT_IS_HERE}"
        )),
        StoreError::Full { .. } => {
            said.with_hint("free some space and try again: the download continues where it stopped")
        }
        StoreError::MissingBlob { name, .. } => {
            said.with_hint(format_args!("`strata pull {name}` downloads it again"))
        }
        StoreError::NotInRegistry(_) => {
            said.with_hint(format_args!("check the spelling; {WHAT_IS_HERE}"))
        }
        StoreError::Net(NetError::Unreachable { .. } | NetError::Stalled(_)) => {
            said.with_hint(format_args!("check the network; {WHAT_IS_HERE}"))
        }
        StoreError::Net(NetError::Insecure(_) | NetError::PlainHttp(_)) => {
            said.with_hint("--insecure allows plain HTTP; use it only for a registry you trust")
        }
        StoreError::Net(NetError::NotAllowed(_)) => said
            .with_hint("the environment variable STRATA_REGISTRIES lists the allowed registries"),
        StoreError::Io { path, source } => Error::io(path.display(), source),
        _ => said,
    }
}
