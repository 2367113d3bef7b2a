//! `strata perplexity`: how well a model foretells a text, by llama.cpp's definition.
//!
//! The text's tokens are cut into chunks of the context's size, and the tokens of each one's second half are scored.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::progress;
use crate::scorer::{self, Scorer};
use crate::text_chunks::TextChunks;
use std::io::Write;
use std::path::PathBuf;
use strata::load::{CheckedModel, TokenizerUse};
use strata_engine::logprobs::Logprobs;
use strata_model::Output;

/// Measure perplexity on a text
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The model: a .gguf file, a Hugging Face folder, or a name that `strata list` shows
    model: PathBuf,
    /// A text file
    file: PathBuf,
    /// Tokens per chunk; the second half of each chunk is scored
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..=1 << 20))]
    ctx: u32,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArguments,
}

/// Sums over the scored tokens.
#[derive(Default)]
struct Score {
    tokens: u64,
    /// Of their negative log-probabilities.
    sum: f64,
    squares: f64,
}

impl Score {
    fn add(&mut self, logprob: f32) {
        let surprise = -f64::from(logprob);
        self.tokens += 1;
        self.sum += surprise;
        self.squares += surprise * surprise;
    }

    /// The perplexity and its standard error.
    fn perplexity(&self) -> (f64, f64) {
        let n = self.tokens as f64;
        let mean = self.sum / n;
        let variance = self.squares / n - mean * mean;
        let perplexity = mean.exp();
        (
            perplexity,
            perplexity * (variance / (n - 1.0)).max(0.0).sqrt(),
        )
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let machine = arguments.compute.machine()?;
    let size = arguments.ctx as usize;
    let file = arguments.compute.open(&arguments.model)?;
    let checked = CheckedModel::new(&file, Some(size), TokenizerUse::Required)?;
    let most = usize::MAX;
    let chunks = TextChunks::read(&arguments.file, checked.tokenizer()?, size, (2, most))?;
    let (loaded, kv, needs) = scorer::load(checked, size, &arguments.compute, &machine)?;
    let mut scorer = Scorer::new(&loaded, kv, &needs, &machine);
    let mut score = Score::default();
    let bar = progress::bar(
        chunks.len() as u64,
        "{wide_bar} {pos}/{len} chunks, perplexity {msg}, {eta} left",
    );
    for (index, chunk) in chunks.iter().enumerate() {
        score_chunk(&mut scorer, chunk, &mut score)?;
        let (perplexity, _) = score.perplexity();
        bar.set_message(format!("{perplexity:.4}"));
        bar.inc(1);
        if !arguments.json {
            bar.suspend(|| writeln!(std::io::stdout(), "[{}] {perplexity:.4}", index + 1))
                .map_err(|error| Failure::stdout(&error))?;
        }
    }
    bar.finish_and_clear();
    report(arguments, &score, chunks.len()).map_err(|error| Failure::stdout(&error))
}

fn score_chunk(scorer: &mut Scorer<'_>, chunk: &[u32], score: &mut Score) -> Result<(), Failure> {
    let half = chunk.len() / 2;
    // Position p foretells token p + 1; the last one's token is in the next chunk.
    let (context, scored) = chunk[..chunk.len() - 1].split_at(half);
    let mut foretold = chunk[half + 1..].iter();
    let mut logprobs = Logprobs::new();
    scorer.restart();
    scorer.feed(context, Output::None, &mut |_| Ok(()))?;
    scorer.feed(scored, Output::AllLogits, &mut |row| {
        let Some(&token) = foretold.next() else {
            return Ok(());
        };
        let (chosen, _) = logprobs.compute(row, token, 0).map_err(|error| {
            Failure::new(Kind::BadModel, error).hint("the model's weights may be damaged")
        })?;
        score.add(chosen.logprob);
        Ok(())
    })
}

fn report(arguments: &Arguments, score: &Score, chunks: usize) -> std::io::Result<()> {
    let (perplexity, error) = score.perplexity();
    let mut out = std::io::stdout().lock();
    if !arguments.json {
        return writeln!(
            out,
            "perplexity {perplexity:.4} ± {error:.4} over {} tokens in {chunks} chunks of {}",
            score.tokens, arguments.ctx
        );
    }
    let json = serde_json::json!({
        "perplexity": perplexity,
        "error": error,
        "tokens": score.tokens,
        "chunks": chunks,
        "ctx": arguments.ctx,
    });
    writeln!(out, "{json}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_surprises_have_no_error_and_unequal_ones_do() {
        let mut score = Score::default();
        for _ in 0..4 {
            score.add(-(4f32.ln()));
        }
        let (perplexity, error) = score.perplexity();
        assert!((perplexity - 4.0).abs() < 1e-5 && error < 1e-3);
        let mut score = Score::default();
        for surprise in [1.0f32, 2.0, 3.0] {
            score.add(-surprise);
        }
        let (perplexity, error) = score.perplexity();
        let e2 = 2f64.exp();
        assert!((perplexity - e2).abs() < 1e-5);
        assert!((error - e2 * (2.0f64 / 3.0 / 2.0).sqrt()).abs() < 1e-5);
    }
}
