//! `strata create`: a model of a Modelfile.

use super::transfer::Steps;
use super::{built_in, checkpoint, failure, name, open};
use crate::computing::mix;
use crate::failure::{Failure, Kind};
use std::path::{Path, PathBuf};
use strata_convert::Mix;
use strata_store::{Base, Modelfile, Network, Recipe, Store, StoreError};

/// Create a model from a Modelfile
///
/// FROM is a GGUF file, a Hugging Face folder or one of its files, or a model, which is downloaded if needed. TEMPLATE is
/// a Go template, as with Ollama, or a Jinja template. It takes precedence over the template in the model's file, which
/// takes precedence over one from a registry.
#[derive(clap::Args)]
pub(crate) struct CreateArguments {
    /// Name of the new model
    model: String,
    /// Modelfile to read
    #[arg(short, long, value_name = "FILE", default_value = "Modelfile")]
    file: PathBuf,
    /// Quantize the weights: q8_0, q4_k_m, …
    #[arg(short, long, value_name = "TYPE", value_parser = mix)]
    quantize: Option<Mix>,
    /// Print progress as lines of JSON
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
    let name = name(&arguments.model)?;
    built_in::refuse_name(&name)?;
    let mut recipe = Recipe::from_modelfile(&file, folder).map_err(fail)?;
    let store = open()?;
    let mut steps = Steps::new(arguments.json);
    let show = &mut |step: &strata_store::Progress| steps.show(step);
    fetch_bases(&store, &mut recipe, &Network::from_env(), show)?;
    checkpoint::prepare(&store, &mut recipe, arguments.quantize, show)?;
    store.create(&name, &recipe, show).map_err(fail)
}

/// Pulls the models of a recipe that are not here; the built-in one goes into the store.
pub(crate) fn fetch_bases(
    store: &Store,
    recipe: &mut Recipe,
    network: &Network,
    progress: &mut strata_store::OnProgress<'_>,
) -> Result<(), Failure> {
    for base in &mut recipe.bases {
        let Base::Model(name) = base else {
            continue;
        };
        if built_in::is_built_in(name) {
            *base = built_in::base(store)?;
        } else if matches!(store.find(name), Err(StoreError::NoSuchModel(_))) {
            checkpoint::pull(store, &name.to_string(), network, progress)?;
        }
    }
    Ok(())
}
