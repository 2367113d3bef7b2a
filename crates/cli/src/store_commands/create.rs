//! `strata create`: a model of a Modelfile.

use super::transfer::Steps;
use super::{failure, name, open};
use crate::failure::{Failure, Kind};
use std::path::{Path, PathBuf};
use strata_store::{Base, Modelfile, Network, Recipe, Store, StoreError};

/// Make a model of a Modelfile
///
/// A model in FROM that is not here is pulled.
#[derive(clap::Args)]
pub(crate) struct CreateArguments {
    /// The model's name
    model: String,
    /// The Modelfile
    #[arg(short, long, value_name = "FILE", default_value = "Modelfile")]
    file: PathBuf,
    /// Print each step as a line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CreateArguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::io(path.display(), &error))?;
    let file: Modelfile = text
        .parse()
        .map_err(|error| Failure::new(Kind::Usage, format_args!("{}: {error}", path.display())))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let fail = |error: StoreError| failure(&error);
    let recipe = Recipe::from_modelfile(&file, folder).map_err(fail)?;
    let store = open()?;
    let mut steps = Steps::new(arguments.json);
    fetch_bases(&store, &recipe, &mut steps).map_err(fail)?;
    store
        .create(&name(&arguments.model)?, &recipe, &mut |step| {
            steps.show(step)
        })
        .map_err(fail)
}

fn fetch_bases(store: &Store, recipe: &Recipe, steps: &mut Steps) -> Result<(), StoreError> {
    for base in &recipe.bases {
        if let Base::Model(name) = base
            && matches!(store.find(name), Err(StoreError::NoSuchModel(_)))
        {
            let network = Network::from_env();
            store.pull(&name.to_string(), &network, &mut |step| steps.show(step))?;
        }
    }
    Ok(())
}
