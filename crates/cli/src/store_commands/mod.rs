//! The commands of the store: pull, push, list, show, cp, rm, create and store check, as those who know Ollama expect.

mod adapter;
pub(crate) mod base;
pub(crate) mod built_in;
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
pub(crate) use transfer::{Steps, TransferArguments};
pub(crate) use upkeep::StoreArguments;

pub(crate) use create::run as create;
pub(crate) use list::run as list;
pub(crate) use names::{copy, remove};
pub(crate) use running::{ps, stop};
pub(crate) use show::run as show;
pub(crate) use transfer::{fetch, pull, push};
pub(crate) use upkeep::run as store;

use crate::failure::{Failure, Kind};
use crate::suggestion;
use strata_store::{Config, Name, Store, StoreError};

pub(crate) use strata::load::{WHAT_IS_HERE, stored};

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

/// A name without the tag that it has anyway.
pub(crate) fn plain(name: &str) -> &str {
    name.strip_suffix(":latest").unwrap_or(name)
}

/// The names of the models on this machine.
pub(crate) fn known_names() -> Vec<String> {
    let stored = Store::open_default().and_then(|store| store.list());
    let stored = stored.map_or_else(|_| Vec::new(), |listing| listing.models);
    let built_in = strata::load::built_in().map(|_| strata::load::BUILT_IN.to_owned());
    built_in
        .into_iter()
        .chain(stored.iter().map(|model| model.name.to_string()))
        .collect()
}

/// What went wrong in the store, and what to do about it.
pub(crate) fn failure(error: &StoreError) -> Failure {
    let said = Failure::from(strata::load::store_error(error));
    let StoreError::NoSuchModel(name) = error else {
        return said;
    };
    let said = said.of_kind(Kind::Usage);
    let (name, known) = (name.to_string(), known_names());
    let known = known.iter().map(|name| plain(name));
    match suggestion::nearest(plain(&name), known) {
        Some(meant) => said.hint(format_args!("did you mean {meant}?")),
        None => said,
    }
}
