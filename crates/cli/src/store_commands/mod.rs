//! The commands of the store: pull, push, list, show, cp, rm, create and store check, as those who know Ollama expect.

mod adapter;
pub(crate) mod checkpoint;
mod columns;
pub(crate) mod create;
mod list;
mod names;
mod running;
mod show;
mod transfer;
mod upkeep;

pub(crate) use create::CreateArguments;
pub(crate) use list::ListArguments;
pub(crate) use names::{CopyArguments, RemoveArguments};
pub(crate) use running::{PsArguments, StopArguments};
pub(crate) use show::ShowArguments;
pub(crate) use transfer::TransferArguments;
pub(crate) use upkeep::StoreArguments;

pub(crate) use create::run as create;
pub(crate) use list::run as list;
pub(crate) use names::{copy, remove};
pub(crate) use running::{ps, stop};
pub(crate) use show::run as show;
pub(crate) use transfer::{fetch, pull, push};
pub(crate) use upkeep::run as store;

use crate::failure::{Failure, Kind};
use std::path::Path;
use strata_store::{Config, Name, NetError, Store, StoreError, StoredModel};

/// What to do where a model is not to be had.
pub(crate) const WHAT_IS_HERE: &str = "`strata list` shows the models that are here";

/// The model of the store that has this name, if there is one.
pub(crate) fn stored(name: &Path) -> Option<Result<StoredModel, Failure>> {
    let name: Name = name.to_str()?.parse().ok()?;
    let model = match Store::open_default().and_then(|store| store.find(&name)) {
        Err(StoreError::NoSuchModel(_) | StoreError::NoHome) => return None,
        model => model,
    };
    Some(model.map_err(|error| failure(&error)))
}

fn open() -> Result<Store, Failure> {
    Store::open_default().map_err(|error| failure(&error))
}

/// What a model's description says, as Ollama's API has it.
fn details(config: &Config) -> serde_json::Value {
    serde_json::json!({
        "format": config.format,
        "family": config.family,
        "families": config.families,
        "parameter_size": config.parameters,
        "quantization_level": config.file_type,
    })
}

/// A name as a user wrote it.
fn name(text: &str) -> Result<Name, Failure> {
    text.parse()
        .map_err(|error| Failure::new(Kind::Usage, format_args!("{error}")))
}

/// What went wrong in the store, and what to do about it.
pub(crate) fn failure(error: &StoreError) -> Failure {
    let kind = match error {
        StoreError::Name(_) | StoreError::NoSuchModel(_) | StoreError::NoBase(_) => Kind::Usage,
        StoreError::Manifest { .. } | StoreError::Gguf { .. } | StoreError::Layer { .. } => {
            Kind::BadModel
        }
        _ => Kind::Failed,
    };
    let said = Failure::new(kind, error);
    match error {
        StoreError::NoSuchModel(name) => said.hint(format_args!(
            "`strata list` shows those that are, and `strata pull {name}` fetches it"
        )),
        StoreError::Full { .. } => {
            said.hint("free some space and try again: what was fetched is kept")
        }
        StoreError::MissingBlob { name, .. } => {
            said.hint(format_args!("`strata pull {name}` brings it back"))
        }
        StoreError::NotInRegistry(_) => {
            said.hint(format_args!("check its spelling; {WHAT_IS_HERE}"))
        }
        StoreError::Net(NetError::Unreachable { .. } | NetError::Stalled(_)) => {
            said.hint(format_args!("check the network; {WHAT_IS_HERE}"))
        }
        StoreError::Net(NetError::Insecure(_)) => said.hint("--insecure allows it"),
        StoreError::Net(NetError::NotAllowed(_)) => said.hint("STRATA_REGISTRIES has the list"),
        StoreError::Io { path, source } => Failure::io(path.display(), source),
        _ => said,
    }
}
