//! What the answer must look like: the flags, and the grammar that they name.

use crate::failure::{Failure, Kind};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use strata_constrain::{CompileError, Compiler, Grammar, Limits, Matcher};
use strata_tokenizer::Tokenizer;

/// What the answer must match. Nothing else is ever generated.
#[derive(clap::Args)]
#[command(next_help_heading = "What the answer must be")]
#[group(id = "constraint", multiple = false)]
pub(crate) struct ConstraintArguments {
    /// `json` for a JSON object, or the file of a JSON schema that the answer must satisfy
    #[arg(long, value_name = "json|FILE")]
    format: Option<String>,
    /// The file of a grammar: .gbnf as llama.cpp has them, .lark as llguidance does
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
    /// A regular expression that the whole answer must match
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// The texts that the answer is one of
    #[arg(long, value_name = "TEXT,TEXT", value_delimiter = ',')]
    choice: Vec<String>,
}

impl ConstraintArguments {
    /// The grammar, if one is asked for. Files are read here, before a model is loaded for nothing.
    pub(crate) fn grammar(&self) -> Result<Option<Grammar>, Failure> {
        if let Some(format) = &self.format {
            return match format.as_str() {
                "json" => Ok(Some(Grammar::JsonObject)),
                file => Ok(Some(Grammar::JsonSchema(read(Path::new(file))?))),
            };
        }
        if let Some(file) = &self.grammar {
            return match file.extension().and_then(|extension| extension.to_str()) {
                Some("gbnf") => Ok(Some(Grammar::Gbnf(read(file)?))),
                Some("lark") => Ok(Some(Grammar::Lark(read(file)?))),
                _ => Err(Failure::new(
                    Kind::Usage,
                    format!("{} is neither .gbnf nor .lark", file.display()),
                )),
            };
        }
        if let Some(regex) = &self.regex {
            return Ok(Some(Grammar::Regex(regex.clone())));
        }
        Ok((!self.choice.is_empty()).then(|| Grammar::Choice(self.choice.clone())))
    }
}

/// The grammar for a model's tokens.
pub(crate) fn compile(grammar: &Grammar, tokenizer: &Tokenizer) -> Result<Matcher, Failure> {
    let compiler = Compiler::new(tokenizer).map_err(|error| Failure::new(Kind::BadModel, error))?;
    let compiled = compiler.compile(grammar, Limits::default());
    compiled.map_err(|error| match error {
        CompileError::TooSlow { .. } | CompileError::Busy { .. } => {
            Failure::new(Kind::Failed, error)
        }
        error => Failure::new(Kind::Usage, error),
    })
}

/// A text file, as far as it can be of use: one byte more than is allowed is enough to say that it is too long.
fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::io(path.display(), &error);
    let mut text = String::new();
    let most = Limits::default().source as u64 + 1;
    File::open(path)
        .map_err(failed)?
        .take(most)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}
