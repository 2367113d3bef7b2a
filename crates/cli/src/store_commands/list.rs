//! `strata list`: the models of the store.

use super::{columns, details, failure, open};
use crate::failure::Failure;
use serde_json::json;
use std::io::Write;
use std::time::UNIX_EPOCH;
use strata_store::{FoundModel, StoredModel};

/// List the models of the store
///
/// The store is Ollama's: $OLLAMA_MODELS, or ~/.ollama/models.
#[derive(clap::Args)]
pub(crate) struct ListArguments {
    /// Only models whose names begin so
    prefix: Option<String>,
    /// Also those that other programs keep (the Hugging Face cache, LM Studio), with where each is
    #[arg(short, long)]
    all: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    let listing = open()?.list().map_err(|error| failure(&error))?;
    for fault in &listing.faults {
        eprintln!("warning: {fault}");
    }
    let prefix = arguments.prefix.as_deref().unwrap_or_default();
    let wanted = |model: &&StoredModel| {
        let name = model.name.to_string();
        name.to_lowercase().starts_with(&prefix.to_lowercase())
    };
    let models: Vec<&StoredModel> = listing.models.iter().filter(wanted).collect();
    let mut found = if arguments.all {
        strata_store::elsewhere()
    } else {
        Vec::new()
    };
    found.retain(|model| {
        let name = model.repository.to_lowercase();
        name.starts_with(&prefix.to_lowercase())
    });
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        let models: Vec<_> = models.iter().map(|model| as_json(model)).collect();
        let found: Vec<_> = found.iter().map(found_json).collect();
        let mut json = json!({ "models": models });
        if arguments.all {
            json["elsewhere"] = found.into();
        }
        writeln!(out, "{json}")
    } else {
        columns::print(&rows(&models, &found, arguments.all), "", &mut out)
    };
    written.map_err(|error| Failure::stdout(&error))
}

fn rows(models: &[&StoredModel], found: &[FoundModel], all: bool) -> Vec<Vec<String>> {
    let head = ["NAME", "ID", "SIZE", "MODIFIED", "WHERE"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(models.iter().map(|model| {
        vec![
            model.name.to_string(),
            model.digest.hex()[..12].to_string(),
            columns::bytes(model.size()),
            columns::age(model.modified),
            "store".into(),
        ]
    }));
    rows.extend(found.iter().map(|model| {
        vec![
            model.repository.clone(),
            "-".into(),
            columns::bytes(model.size),
            columns::age(model.modified),
            format!("{}: {}", model.keeper.name(), model.path.display()),
        ]
    }));
    if !all {
        rows.iter_mut().for_each(|row| row.truncate(4));
    }
    rows
}

fn found_json(model: &FoundModel) -> serde_json::Value {
    json!({
        "name": model.repository,
        "kept_by": model.keeper.name(),
        "path": model.path.display().to_string(),
        "size": model.size,
    })
}

fn as_json(model: &StoredModel) -> serde_json::Value {
    let modified = model.modified.duration_since(UNIX_EPOCH);
    json!({
        "name": model.name.to_string(),
        "digest": model.digest.hex(),
        "size": model.size(),
        "modified": modified.map_or(0, |since| since.as_secs()),
        "details": details(&model.config().unwrap_or_default()),
    })
}
