//! `strata show`: what is known of a model of the store.

use super::{columns, details, failure, name, open};
use crate::failure::Failure;
use crate::inspect;
use serde_json::{Value, json};
use std::io::{self, Write};
use strata::load::{CheckedModel, TokenizerUse};
use strata::load::{ModelFile, bad_model};
use strata_chat::Capability;
use strata_host::MappedFile;
use strata_store::{Modelfile, StoreError, StoredModel};
use strata_weights::Gguf;

/// Show what is known of a model of the store
#[derive(clap::Args)]
pub(crate) struct ShowArguments {
    /// The model
    model: String,
    #[command(flatten)]
    only: Only,
    /// Also all that its file says, and its tensors
    #[arg(short, long, conflicts_with_all = ["json", "Only"])]
    verbose: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// One text alone.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Only {
    /// Only its licences
    #[arg(long)]
    license: bool,
    /// Only the Modelfile that would make it
    #[arg(long)]
    modelfile: bool,
    /// Only its parameters
    #[arg(long)]
    parameters: bool,
    /// Only its chat template
    #[arg(long)]
    template: bool,
    /// Only its system prompt
    #[arg(long)]
    system: bool,
}

pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    let fail = |error: StoreError| failure(&error);
    let model = open()?.find(&name(&arguments.model)?).map_err(fail)?;
    let file = model.modelfile().map_err(fail)?;
    let mut out = io::stdout().lock();
    let only = &arguments.only;
    let text = if only.license {
        Some(file.licenses.join("\n"))
    } else if only.modelfile {
        Some(format!("# Modelfile of {}\n{file}", model.name))
    } else if only.parameters {
        let lines = parameters(&file).into_iter().map(|row| row.join("    "));
        Some(lines.collect::<Vec<_>>().join("\n"))
    } else if only.template {
        Some(file.template.clone().unwrap_or_default())
    } else if only.system {
        Some(file.system.clone().unwrap_or_default())
    } else {
        None
    };
    let written = match text {
        Some(text) => writeln!(out, "{}", text.trim_end_matches('\n')),
        None if arguments.json => {
            let json = as_json(&model, &file)?;
            writeln!(out, "{json}")
        }
        None => {
            let printed = print(&facts(&model)?, &capabilities(&model), &file, &mut out);
            if arguments.verbose {
                printed.and(print_contents(&model, &mut out)?)
            } else {
                printed
            }
        }
    };
    written.map_err(|error| Failure::stdout(&error))
}

/// What the file of the weights and the description say, in Ollama's words.
fn facts(model: &StoredModel) -> Result<Vec<Vec<String>>, Failure> {
    let fail = |error: StoreError| failure(&error);
    let config = model.config().map_err(fail)?;
    let mut rows = vec![
        ("architecture", config.family),
        ("parameters", config.parameters),
    ];
    if let Some(path) = model.weights().map_err(fail)?.first() {
        let file = MappedFile::open(path).map_err(|error| Failure::io(path.display(), &error))?;
        let gguf = Gguf::parse(file.bytes()).map_err(|error| bad_model(path, error))?;
        let meta = gguf.metadata();
        let architecture = meta.str("general.architecture").ok().flatten();
        for (key, label) in [
            ("context_length", "context length"),
            ("embedding_length", "embedding length"),
        ] {
            let key = format!("{}.{key}", architecture.unwrap_or_default());
            if let Ok(Some(number)) = meta.u64(&key) {
                rows.push((label, number.to_string()));
            }
        }
    }
    rows.push(("quantization", config.file_type));
    let known = rows.into_iter().filter(|(_, value)| !value.is_empty());
    Ok(known
        .map(|(label, value)| vec![label.into(), value])
        .collect())
}

/// What it can do, in Ollama's words; nothing if it cannot be run here.
fn capabilities(model: &StoredModel) -> Vec<&'static str> {
    let profile = || {
        let file = ModelFile::open_stored(model)?;
        CheckedModel::new(&file, None, TokenizerUse::Required)?.profile()
    };
    let list = profile().map_or_else(|_| Vec::new(), |profile| profile.capabilities());
    list.into_iter().map(Capability::name).collect()
}

/// The keys and tensors of its file.
fn print_contents(model: &StoredModel, out: &mut impl Write) -> Result<io::Result<()>, Failure> {
    let file = ModelFile::open_stored(model)?;
    Ok(inspect::print_contents(&file.parse()?, out))
}

fn parameters(file: &Modelfile) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, value) in &file.parameters {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        rows.extend(
            values
                .iter()
                .map(|value| vec![name.clone(), value.to_string()]),
        );
    }
    rows
}

fn print(
    facts: &[Vec<String>],
    capabilities: &[&str],
    file: &Modelfile,
    out: &mut impl Write,
) -> io::Result<()> {
    let section = |out: &mut dyn Write, title: &str, rows: &[Vec<String>]| {
        if rows.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        columns::print(rows, "    ", &mut text)?;
        writeln!(out, "  {title}")?;
        out.write_all(&text)?;
        writeln!(out)
    };
    let lines = |text: &str| -> Vec<Vec<String>> {
        let lines = text.lines().filter(|line| !line.trim().is_empty()).take(2);
        lines.map(|line| vec![line.trim().into()]).collect()
    };
    let capabilities: Vec<_> = capabilities.iter().map(|&word| vec![word.into()]).collect();
    section(out, "Model", facts)?;
    section(out, "Capabilities", &capabilities)?;
    section(out, "Parameters", &parameters(file))?;
    section(
        out,
        "System",
        &lines(file.system.as_deref().unwrap_or_default()),
    )?;
    section(out, "License", &lines(&file.licenses.join("\n")))
}

fn as_json(model: &StoredModel, file: &Modelfile) -> Result<Value, Failure> {
    let config = model.config().map_err(|error| failure(&error))?;
    Ok(json!({
        "name": model.name.to_string(),
        "digest": model.digest.hex(),
        "size": model.size(),
        "files": file.from,
        "adapters": file.adapters,
        "modelfile": file.to_string(),
        "parameters": file.parameters,
        "template": file.template,
        "system": file.system,
        "license": file.licenses,
        "capabilities": capabilities(model),
        "details": details(&config),
    }))
}
