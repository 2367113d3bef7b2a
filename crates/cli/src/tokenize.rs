//! `strata tokenize` and `strata detokenize`: text to ids and back, with a model's own vocabulary.

use crate::failure::{Failure, Kind};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use strata::load::{ModelFile, bad_model};
use strata_tokenizer::{DecodeOptions, EncodeOptions, Tokenizer};

/// Turn text into token ids
#[derive(clap::Args)]
pub(crate) struct EncodeArguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// The text; without one, or with `-`, standard input is read
    text: Option<String>,
    /// Print the ids as a JSON array
    #[arg(long)]
    json: bool,
    /// Add no BOS or EOS, and treat special tokens in the text as plain text
    #[arg(long)]
    no_special: bool,
}

/// Turn token ids into text
#[derive(clap::Args)]
pub(crate) struct DecodeArguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// The ids, separated by spaces or commas, or as a JSON array; without any, standard input is read, which may be the
    /// output of `strata tokenize`
    ids: Vec<String>,
    /// Print the text as a JSON string
    #[arg(long)]
    json: bool,
    /// Leave special tokens out of the text
    #[arg(long)]
    no_special: bool,
}

pub(crate) fn encode(arguments: &EncodeArguments) -> Result<(), Failure> {
    let file = ModelFile::open(&arguments.model)?;
    let tokenizer = load(&file)?;
    let text = match arguments.text.as_deref() {
        None | Some("-") => read_stdin()?,
        Some(text) => text.to_owned(),
    };
    let special = !arguments.no_special;
    let ids = tokenizer.encode(
        &text,
        EncodeOptions {
            add_special: special,
            parse_special: special,
        },
    );
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        let ids = serde_json::to_string(&ids).expect("numbers are JSON");
        writeln!(out, "{ids}")
    } else {
        ids.iter().try_for_each(|&id| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            writeln!(out, "{id:>8}  {:?}", String::from_utf8_lossy(&bytes))
        })
    };
    written.map_err(|error| Failure::stdout(&error))
}

pub(crate) fn decode(arguments: &DecodeArguments) -> Result<(), Failure> {
    let words = if arguments.ids.is_empty() {
        let text = read_stdin()?;
        text.lines().map(|line| table_id(line).to_owned()).collect()
    } else {
        arguments.ids.clone()
    };
    let ids = words
        .iter()
        .flat_map(|word| word.split(|c: char| c.is_whitespace() || ",[]".contains(c)))
        .filter(|word| !word.is_empty())
        .map(|word| {
            word.parse().map_err(|_| {
                Failure::new(Kind::Usage, format_args!("{word:?} is not a token id"))
                    .hint("token ids are whole numbers, separated by spaces or commas")
            })
        })
        .collect::<Result<Vec<u32>, _>>()?;
    let file = ModelFile::open(&arguments.model)?;
    let tokenizer = load(&file)?;
    if let Some(id) = ids
        .iter()
        .find(|&&id| id as usize >= tokenizer.vocab_size())
    {
        return Err(Failure::new(
            Kind::Usage,
            format_args!(
                "token {id} is not in the vocabulary of {} tokens",
                tokenizer.vocab_size()
            ),
        ));
    }
    let text = tokenizer.decode(
        &ids,
        DecodeOptions {
            show_special: !arguments.no_special,
        },
    );
    let mut out = std::io::stdout().lock();
    let written = if arguments.json {
        let text = serde_json::to_string(&text).expect("text is JSON");
        writeln!(out, "{text}")
    } else {
        writeln!(out, "{text}")
    };
    written.map_err(|error| Failure::stdout(&error))
}

/// The id of a line that `strata tokenize` printed, with the token's text after it; any other line as it is.
fn table_id(line: &str) -> &str {
    match line.split_once("  \"") {
        Some((id, text)) if text.ends_with('"') => id,
        _ => line,
    }
}

fn load(file: &ModelFile) -> Result<Tokenizer, Failure> {
    let model = file.parse()?;
    let tokenizer = Tokenizer::from_gguf(model.metadata());
    Ok(tokenizer.map_err(|error| bad_model(file.path(), error))?)
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::io(Path::new("standard input").display(), &error))?;
    Ok(text)
}
