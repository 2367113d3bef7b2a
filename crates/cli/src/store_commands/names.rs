//! `strata cp` and `strata rm`.

use super::{built_in, name, open};
use crate::failure::Failure;

/// Copy a model under another name
#[derive(clap::Args)]
pub(crate) struct CopyArguments {
    /// The model
    source: String,
    /// The new name
    destination: String,
}

/// Remove models
#[derive(clap::Args)]
pub(crate) struct RemoveArguments {
    /// The models
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
}

pub(crate) fn copy(arguments: &CopyArguments) -> Result<(), Failure> {
    let (source, destination) = (name(&arguments.source)?, name(&arguments.destination)?);
    built_in::copy(&open()?, &source, &destination)?;
    eprintln!(
        "copied '{}' to '{}'",
        arguments.source, arguments.destination
    );
    Ok(())
}

pub(crate) fn remove(arguments: &RemoveArguments) -> Result<(), Failure> {
    let store = open()?;
    for text in &arguments.models {
        built_in::remove(&store, &name(text)?)?;
        eprintln!("deleted '{text}'");
    }
    Ok(())
}
