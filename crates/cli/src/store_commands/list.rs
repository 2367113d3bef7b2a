//! `strata list`: the models of the store, and the built-in one.

use super::{built_in, columns, details, failure, open};
use crate::failure::Failure;
use serde_json::json;
use std::io::Write;
use std::time::UNIX_EPOCH;
use strata_chat::ModelFacts;
use strata_store::{FoundModel, StoredModel};

/// The built-in model's name, as models of the store have theirs.
const BUILT_IN_NAME: &str = "tale:latest";

/// List the models on this machine
///
/// The store is Ollama's: $OLLAMA_MODELS, or ~/.ollama/models. The built-in model comes first.
#[derive(clap::Args)]
pub(crate) struct ListArguments {
    /// List only models whose names start with this
    prefix: Option<String>,
    /// Also list the models of the Hugging Face cache and LM Studio, and where each one is
    #[arg(short, long)]
    all: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    let listing = open()?.list().map_err(|error| failure(&error))?;
    let built_in = built_in::facts().transpose()?;
    for fault in &listing.faults {
        eprintln!("warning: {fault}");
    }
    let prefix = arguments.prefix.as_deref().unwrap_or_default();
    let wanted = |model: &&StoredModel| {
        let name = model.name.to_string();
        name.to_lowercase().starts_with(&prefix.to_lowercase())
    };
    let models: Vec<&StoredModel> = listing.models.iter().filter(wanted).collect();
    let built_in = built_in.filter(|_| BUILT_IN_NAME.starts_with(&prefix.to_lowercase()));
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
        let models = models.iter().map(|model| as_json(model));
        let models: Vec<_> = built_in.iter().map(built_in_json).chain(models).collect();
        let found: Vec<_> = found.iter().map(found_json).collect();
        let mut json = json!({ "models": models });
        if arguments.all {
            json["elsewhere"] = found.into();
        }
        writeln!(out, "{json}")
    } else {
        columns::print(
            &rows(built_in.as_ref(), &models, &found, arguments.all),
            "",
            &mut out,
        )
    };
    written.map_err(|error| Failure::stdout(&error))
}

fn rows(
    built_in: Option<&ModelFacts>,
    models: &[&StoredModel],
    found: &[FoundModel],
    all: bool,
) -> Vec<Vec<String>> {
    let head = ["NAME", "ID", "SIZE", "MODIFIED", "WHERE"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(built_in.map(|facts| {
        vec![
            BUILT_IN_NAME.into(),
            facts.digest.chars().take(12).collect(),
            columns::bytes(facts.bytes),
            "built in".into(),
            "this program".into(),
        ]
    }));
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

fn built_in_json(facts: &ModelFacts) -> serde_json::Value {
    json!({
        "name": BUILT_IN_NAME,
        "digest": facts.digest,
        "size": facts.bytes,
        "modified": facts.modified,
        "built_in": true,
        "details": details(&built_in::config(facts)),
    })
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
