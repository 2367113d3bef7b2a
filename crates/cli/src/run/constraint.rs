//! What the answer must look like: the flags, and the form that they name.

use crate::failure::{Failure, Kind};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use strata_chat::Format;
use strata_chat::json::Json;
use strata_constrain::Limits;

/// What the answer must match. Nothing else is ever generated.
#[derive(clap::Args)]
#[command(next_help_heading = "Output format")]
#[group(id = "constraint", multiple = false)]
pub(crate) struct ConstraintArguments {
    /// Require JSON: `json`, or a file with a JSON schema
    #[arg(long, value_name = "json|FILE")]
    format: Option<String>,
    /// Require output that matches a grammar: a .gbnf or .lark file
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
    /// Require output that matches a regular expression
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// Require one of these texts
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    choice: Vec<String>,
}

impl ConstraintArguments {
    /// The form that is asked for. Files are read here, before a model is loaded for nothing.
    pub(crate) fn format(&self) -> Result<Format, Failure> {
        if let Some(format) = &self.format {
            return match format.as_str() {
                "json" => Ok(Format::JsonObject),
                file => schema(Path::new(file)),
            };
        }
        if let Some(file) = &self.grammar {
            return match file.extension().and_then(|extension| extension.to_str()) {
                Some("gbnf") => Ok(Format::Gbnf(read(file)?)),
                Some("lark") => Ok(Format::Lark(read(file)?)),
                _ => Err(Failure::new(
                    Kind::Usage,
                    format!("{} must end in .gbnf or .lark", file.display()),
                )),
            };
        }
        if let Some(regex) = &self.regex {
            return Ok(Format::Regex(regex.clone()));
        }
        if self.choice.is_empty() {
            return Ok(Format::Text);
        }
        Ok(Format::Choice(self.choice.clone()))
    }
}

fn schema(path: &Path) -> Result<Format, Failure> {
    let schema = Json::parse(read(path)?.as_bytes());
    let schema = schema.map_err(|error| {
        let sentence = format_args!("{}: {error}", path.display());
        Failure::new(Kind::Usage, sentence)
    })?;
    Ok(Format::JsonSchema(schema))
}

/// A text file that is not longer than a grammar may be.
fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::io(path.display(), &error);
    let mut text = String::new();
    let most = Limits::default().source;
    File::open(path)
        .map_err(failed)?
        .take(most as u64 + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() > most {
        let sentence = format_args!("{} is larger than {most} bytes", path.display());
        return Err(Failure::new(Kind::Usage, sentence));
    }
    Ok(text)
}
