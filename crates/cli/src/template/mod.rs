//! `strata template`: renders a chat template, a model's own or one in a file.

mod go_variables;

use crate::failure::{Failure, Kind};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use strata::load::TemplateText;
use strata::load::{ModelFile, bad_model};
use strata_template::jinja::{DateTime, Map, RenderOptions, Template, Value};
use strata_tokenizer::Tokenizer;

/// Render a chat template
///
/// Templates are in Jinja, as in Hugging Face models, or in Go's template language, as in Ollama's. For a model of the
/// store, this renders the template that its chats use.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model whose template to render: a .gguf file, or a name that `strata list` shows
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    model: Option<PathBuf>,
    /// A file with a template, instead of a model
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A JSON file with the template's variables: `messages` and, optionally, `tools`, `add_generation_prompt`,
    /// `bos_token`, `eos_token` and others (in Go templates `think`, or `prompt` with `suffix`); `-` reads standard input
    #[arg(long, value_name = "F.json")]
    input: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let input = read(&arguments.input)?;
    let context: Value = serde_json::from_str(&input).map_err(|error| {
        Failure::new(
            Kind::Usage,
            format_args!("{}: not JSON: {error}", arguments.input.display()),
        )
    })?;
    let Some(variables) = context.as_map() else {
        return Err(Failure::new(
            Kind::Usage,
            format_args!("{}: not a JSON object", arguments.input.display()),
        )
        .hint(r#"it should look like {"messages": [{"role": "user", "content": "Hello"}]}"#));
    };
    let mut variables: Vec<(Value, Value)> = variables
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let text = match (&arguments.file, &arguments.model) {
        (Some(file), _) => of_file(read(file)?),
        (None, Some(model)) => template_of(model, &mut variables)?,
        (None, None) => unreachable!("clap requires one of the two"),
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .map(|since| DateTime::from_unix(since.as_secs() as i64));
    let text = match text {
        TemplateText::Go(source) => {
            go_variables::render(&source, &input, now, &arguments.input.display())?
        }
        TemplateText::Jinja(source) => {
            let options = RenderOptions {
                now,
                ..RenderOptions::default()
            };
            Template::parse(&source)
                .and_then(|template| template.render(&Value::Map(Map::new(variables)), &options))
                .map_err(|error| Failure::new(Kind::Failed, error))?
        }
    };
    std::io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::stdout(&error))
}

/// The model's template. Its special tokens join the variables, unless the input has its own.
fn template_of(path: &Path, variables: &mut Vec<(Value, Value)>) -> Result<TemplateText, Failure> {
    let file = ModelFile::open(path)?;
    let model = file.parse()?;
    let blame = |error| bad_model(path, error);
    let source = model
        .metadata()
        .str("tokenizer.chat_template")
        .map_err(blame)?
        .map(|source| TemplateText::Jinja(source.to_owned()));
    let text = match file.preset() {
        Some(preset) => preset.choose(source),
        None => source,
    };
    let text = text.ok_or_else(|| {
        Failure::new(
            Kind::BadModel,
            format_args!("{} has no chat template", path.display()),
        )
        .hint("use --file to render a template from a file")
    })?;
    let tokenizer =
        Tokenizer::from_gguf(model.metadata()).map_err(|error| bad_model(path, error))?;
    let special = tokenizer.special();
    for (name, id) in [("bos_token", special.bos), ("eos_token", special.eos)] {
        let given = variables.iter().any(|(key, _)| key.as_str() == Some(name));
        if let Some(text) = id
            .and_then(|id| tokenizer.token_text(id))
            .filter(|_| !given)
        {
            variables.push((Value::from(name), Value::from(text)));
        }
    }
    Ok(text)
}

/// A template in a file, whose language only its text tells: what follows Go's braces cannot follow Jinja's.
fn of_file(source: String) -> TemplateText {
    const WORDS: [&str; 7] = ["if", "range", "with", "end", "template", "define", "block"];
    let is_go = |action: &str| {
        let action = action.trim_start_matches('-').trim_start();
        let word = action.split(|c: char| !c.is_ascii_alphanumeric()).next();
        action.starts_with(['.', '$']) || word.is_some_and(|word| WORDS.contains(&word))
    };
    if !source.contains("{%") && source.split("{{").skip(1).any(is_go) {
        TemplateText::Go(source)
    } else {
        TemplateText::Jinja(source)
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::io(path.display(), &error))?;
    Ok(text)
}
