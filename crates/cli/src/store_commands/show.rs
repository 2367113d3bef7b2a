//! `strata show`: what is known of a model of the store, or of the built-in one.

use super::{built_in, columns, details, failure, name, open};
use crate::failure::Failure;
use crate::inspect;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use strata::load::{CheckedModel, TokenizerUse};
use strata::load::{ModelFile, bad_model};
use strata_chat::{Capability, ModelFacts};
use strata_host::MappedFile;
use strata_store::{Config, Modelfile, StoreError, StoredModel};
use strata_weights::Gguf;

/// Show what is known about a model
#[derive(clap::Args)]
pub(crate) struct ShowArguments {
    /// The model
    model: String,
    #[command(flatten)]
    only: Only,
    /// Also show the file's metadata and tensors
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
    /// Show only its licenses
    #[arg(long)]
    license: bool,
    /// Show only its Modelfile
    #[arg(long)]
    modelfile: bool,
    /// Show only its parameters
    #[arg(long)]
    parameters: bool,
    /// Show only its chat template
    #[arg(long)]
    template: bool,
    /// Show only its system prompt
    #[arg(long)]
    system: bool,
}

pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    let shown = Shown::open(&arguments.model)?;
    let file = &shown.file;
    let mut out = io::stdout().lock();
    let only = &arguments.only;
    let text = if only.license {
        Some(file.licenses.join("\n"))
    } else if only.modelfile {
        Some(format!("# Modelfile of {}\n{file}", shown.name))
    } else if only.parameters {
        let lines = parameters(file).into_iter().map(|row| row.join("    "));
        Some(lines.collect::<Vec<_>>().join("\n"))
    } else if only.template {
        Some(shown.template.clone().unwrap_or_default())
    } else if only.system {
        Some(file.system.clone().unwrap_or_default())
    } else {
        None
    };
    let written = match text {
        Some(text) => writeln!(out, "{}", text.trim_end_matches('\n')),
        None if arguments.json => writeln!(out, "{}", shown.json()),
        None => {
            let printed = shown.print(&mut out);
            if arguments.verbose {
                let contents = shown.contents()?;
                printed.and(inspect::print_contents(&contents.parse()?, &mut out))
            } else {
                printed
            }
        }
    };
    written.map_err(|error| Failure::stdout(&error))
}

/// A model, as it is shown.
struct Shown {
    name: String,
    digest: String,
    size: u64,
    config: Config,
    /// Lengths that the file of the weights names, with their labels.
    lengths: Vec<(&'static str, u64)>,
    /// What it can do, in Ollama's words; nothing if it cannot be run here.
    capabilities: Vec<&'static str>,
    file: Modelfile,
    /// The chat template of the Modelfile, or else of the weights' file.
    template: Option<String>,
    /// The model of the store, unless it is the built-in one.
    stored: Option<StoredModel>,
}

impl Shown {
    fn open(text: &str) -> Result<Self, Failure> {
        let name = name(text)?;
        match built_in::facts() {
            Some(facts) if built_in::is_built_in(&name) => Ok(Self::built_in(facts?)),
            _ => {
                let found = open()?.find(&name);
                Self::stored(found.map_err(|error| failure(&error))?)
            }
        }
    }

    fn built_in(facts: ModelFacts) -> Self {
        Self {
            name: facts.name.clone(),
            config: built_in::config(&facts),
            lengths: vec![
                ("context length", facts.trained_context as u64),
                ("embedding length", facts.embedding as u64),
            ],
            capabilities: facts.capabilities.iter().map(|word| word.name()).collect(),
            file: Modelfile {
                from: vec![facts.name],
                licenses: facts.licenses,
                ..Modelfile::default()
            },
            template: facts.template,
            digest: facts.digest,
            size: facts.bytes,
            stored: None,
        }
    }

    fn stored(model: StoredModel) -> Result<Self, Failure> {
        let fail = |error: StoreError| failure(&error);
        let file = model.modelfile().map_err(fail)?;
        let (lengths, in_file) = weights(&model)?;
        Ok(Self {
            name: model.name.to_string(),
            digest: model.digest.hex(),
            size: model.size(),
            config: model.config().map_err(fail)?,
            lengths,
            capabilities: capabilities(&model),
            template: file.template.clone().or(in_file),
            file,
            stored: Some(model),
        })
    }

    /// The file of its weights.
    fn contents(&self) -> Result<ModelFile, Failure> {
        Ok(match &self.stored {
            Some(model) => ModelFile::open_stored(model)?,
            None => ModelFile::open(Path::new(&self.name))?,
        })
    }

    /// What the file of the weights and the description say, in Ollama's words.
    fn facts(&self) -> Vec<Vec<String>> {
        let config = &self.config;
        let lengths = self.lengths.iter();
        let rows = [
            ("architecture", config.family.clone()),
            ("parameters", config.parameters.clone()),
        ]
        .into_iter()
        .chain(lengths.map(|(label, number)| (*label, number.to_string())))
        .chain([("quantization", config.file_type.clone())]);
        let known = rows.filter(|(_, value)| !value.is_empty());
        known
            .map(|(label, value)| vec![label.into(), value])
            .collect()
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
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
        let capabilities = self.capabilities.iter();
        let capabilities: Vec<_> = capabilities.map(|&word| vec![word.into()]).collect();
        let system = self.file.system.as_deref().unwrap_or_default();
        section(out, "Model", &self.facts())?;
        section(out, "Capabilities", &capabilities)?;
        section(out, "Parameters", &parameters(&self.file))?;
        section(out, "System", &lines(system))?;
        section(out, "License", &lines(&self.file.licenses.join("\n")))
    }

    fn json(&self) -> Value {
        let file = &self.file;
        json!({
            "name": self.name,
            "digest": self.digest,
            "size": self.size,
            "files": file.from,
            "adapters": file.adapters,
            "modelfile": file.to_string(),
            "parameters": file.parameters,
            "template": self.template,
            "system": file.system,
            "license": file.licenses,
            "capabilities": self.capabilities,
            "details": details(&self.config),
        })
    }
}

type Lengths = Vec<(&'static str, u64)>;

/// The lengths and the chat template that the file of the weights has.
fn weights(model: &StoredModel) -> Result<(Lengths, Option<String>), Failure> {
    let paths = model.weights().map_err(|error| failure(&error))?;
    let Some(path) = paths.first() else {
        return Ok((Vec::new(), None));
    };
    let file = MappedFile::open(path).map_err(|error| Failure::io(path.display(), &error))?;
    let gguf = Gguf::parse(file.bytes()).map_err(|error| bad_model(path, error))?;
    let meta = gguf.metadata();
    let architecture = meta.str("general.architecture").ok().flatten();
    let length = |(key, label): (&str, &'static str)| {
        let key = format!("{}.{key}", architecture.unwrap_or_default());
        Some((label, meta.u64(&key).ok()??))
    };
    let keys = [
        ("context_length", "context length"),
        ("embedding_length", "embedding length"),
    ];
    let template = meta.str("tokenizer.chat_template").ok().flatten();
    let lengths = keys.into_iter().filter_map(length).collect();
    Ok((lengths, template.map(str::to_owned)))
}

fn capabilities(model: &StoredModel) -> Vec<&'static str> {
    let list = || {
        let file = ModelFile::open_stored(model)?;
        let profile = CheckedModel::new(&file, None, TokenizerUse::Required)?.profile()?;
        let mut list = profile.capabilities();
        list.extend(strata::load::perceives(&file, None));
        Ok::<_, strata::Error>(list)
    };
    let list = list().unwrap_or_default();
    list.into_iter().map(Capability::name).collect()
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
