//! The built-in model among those of the store: it is listed, shown, copied and built upon like any other.

use super::failure;
use crate::failure::{Failure, Kind};
use std::path::Path;
use strata::load::{self, BUILT_IN};
use strata::{Model, Options};
use strata_chat::ModelFacts;
use strata_store::{Base, Config, Name, Recipe, Store, StoreError, human_count, quietly};

/// Whether this is the name of the built-in model, in a program that has one.
pub(crate) fn is_built_in(name: &Name) -> bool {
    load::built_in().is_some() && load::is_built_in(Path::new(&name.to_string()))
}

/// What is known of the built-in model; `None` in a program without one.
pub(crate) fn facts() -> Option<Result<ModelFacts, strata::Error>> {
    load::built_in()?;
    Some(Model::inspect(BUILT_IN, &Options::default()))
}

/// What a manifest's description would say of a model that has none.
pub(super) fn config(facts: &ModelFacts) -> Config {
    Config {
        format: "gguf".into(),
        family: facts.family.clone(),
        families: vec![facts.family.clone()],
        parameters: human_count(facts.parameters),
        file_type: facts.quantization.clone(),
        requires: None,
    }
}

/// Refuses to give the built-in model's name to another one, which nobody could reach.
pub(crate) fn refuse_name(name: &Name) -> Result<(), Failure> {
    if !is_built_in(name) {
        return Ok(());
    }
    let sentence = format_args!("{BUILT_IN} is the name of the built-in model");
    Err(Failure::new(Kind::Usage, sentence).hint("choose another name, or another tag"))
}

/// Puts the built-in model's file into the store, for a model that is made of it.
pub(crate) fn base(store: &Store) -> Result<Base, Failure> {
    let put = || {
        let mut blob = store.blob_writer()?;
        blob.write(load::built_in().unwrap_or_default())?;
        blob.finish(None)
    };
    let (digest, _) = put().map_err(|error: StoreError| failure(&error))?;
    Ok(Base::Blob(digest))
}

/// Gives a model of the store, or the built-in one, another name too.
pub(crate) fn copy(store: &Store, source: &Name, destination: &Name) -> Result<(), Failure> {
    refuse_name(destination)?;
    let fail = |error: StoreError| failure(&error);
    if !is_built_in(source) {
        return store.copy(source, destination).map_err(fail);
    }
    let recipe = Recipe {
        bases: vec![base(store)?],
        ..Recipe::default()
    };
    let made = store.create(destination, &recipe, &mut quietly);
    made.map_err(fail)
}

/// Removes a model of the store; the built-in one stays.
pub(crate) fn remove(store: &Store, name: &Name) -> Result<(), Failure> {
    match store.remove(name) {
        Err(StoreError::NoSuchModel(_)) if is_built_in(name) => {
            let sentence = format_args!("{BUILT_IN} is built in and cannot be removed");
            Err(Failure::new(Kind::Usage, sentence))
        }
        removed => removed.map_err(|error| failure(&error)),
    }
}
