//! `strata logits`: what a model makes of each next token.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::scorer::{self, Scorer};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use strata::load::{CheckedModel, TokenizerUse};
use strata_engine::logprobs::Logprobs;
use strata_model::Output;
use strata_tokenizer::Tokenizer;

/// How many of the likeliest tokens are printed.
const TOP: usize = 10;

/// Show the logits of the next token
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// The preceding token ids, separated by commas
    #[arg(long, value_delimiter = ',', required_unless_present = "text")]
    tokens: Vec<u32>,
    /// The preceding text, instead of token ids; special tokens in it are parsed
    #[arg(long, conflicts_with = "tokens")]
    text: Option<String>,
    /// Write the logits of all positions to a file: tokens × vocabulary little-endian 32-bit floats
    #[arg(long, value_name = "F")]
    out: Option<PathBuf>,
    /// Context length to load the model with, which affects the RoPE of some models [default: the model's, at most 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    ctx: Option<u32>,
    #[command(flatten)]
    compute: ComputeArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = arguments.compute.machine()?;
    let words = match arguments.text {
        Some(_) => TokenizerUse::Required,
        None => TokenizerUse::Optional,
    };
    let file = arguments.compute.open(&arguments.model)?;
    let checked = CheckedModel::new(&file, arguments.ctx.map(|n| n as usize), words)?;
    let tokens = match &arguments.text {
        Some(text) => strata_chat::prompt::raw(checked.tokenizer()?, text),
        None => arguments.tokens.clone(),
    };
    if tokens.is_empty() {
        return Err(Failure::new(Kind::Usage, "the text has no tokens"));
    }
    let (loaded, kv, needs) = scorer::load(checked, tokens.len(), &arguments.compute, &machine)?;
    let mut scorer = Scorer::new(&loaded, kv, &needs, &machine);
    let mut last = Vec::new();
    match &arguments.out {
        None => scorer.feed(&tokens, Output::LastLogits, &mut |row| {
            last.extend_from_slice(row);
            Ok(())
        })?,
        Some(path) => {
            last.resize(loaded.model.config().vocabulary, 0.0);
            write(path, |out| {
                scorer.feed(&tokens, Output::AllLogits, &mut |row| {
                    last.copy_from_slice(row);
                    row.iter()
                        .try_for_each(|logit| out.write_all(&logit.to_le_bytes()))
                        .map_err(|error| Failure::io(path.display(), &error))
                })
            })?;
        }
    }
    print(&last, loaded.tokenizer().ok())
}

/// Calls `fill` with a new file. Half a file of logits is of no use, so a failure leaves none.
fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let io = |error: std::io::Error| Failure::io(path.display(), &error);
    let mut out = BufWriter::new(File::create(path).map_err(io)?);
    let done = fill(&mut out).and_then(|()| out.flush().map_err(io));
    if done.is_err() {
        let _ = std::fs::remove_file(path);
    }
    done
}

fn print(logits: &[f32], tokenizer: Option<&Tokenizer>) -> Result<(), Failure> {
    let mut logprobs = Logprobs::new();
    let (_, top) = logprobs.compute(logits, 0, TOP).map_err(|error| {
        Failure::new(Kind::BadModel, error).hint("the model's weights may be damaged")
    })?;
    let mut out = std::io::stdout().lock();
    top.iter()
        .try_for_each(|choice| {
            let text = tokenizer.and_then(|t| t.token_bytes(choice.token));
            let text = text.map(|bytes| format!("{:?}", String::from_utf8_lossy(&bytes)));
            writeln!(
                out,
                "{:>8}  {:<20} {:>10.4} {:>8.4}",
                choice.token,
                text.unwrap_or_default(),
                logits
                    .get(choice.token as usize)
                    .copied()
                    .unwrap_or(f32::NAN),
                choice.logprob.exp()
            )
        })
        .map_err(|error| Failure::stdout(&error))
}
