//! Demonstrations over the built-in model. Every number is what the engine computes; on a terminal they move, and they end
//! by themselves.

mod attention;
mod batching;
mod quantization;
mod sampling;
mod tokenizer;

use super::show::Show;
use crate::failure::Failure;
use strata::load::BUILT_IN;
use strata::{Model, Options};

/// What to show.
#[derive(clap::Subcommand)]
pub(crate) enum Demo {
    /// See how a text becomes tokens while it is typed
    Tokenizer(tokenizer::Arguments),
    /// See what each token attends to
    Attention(attention::Arguments),
    /// See what each sampler leaves of the next token's candidates
    Sampling(sampling::Arguments),
    /// See what fewer bits do to a row of weights
    Quantization(quantization::Arguments),
    /// See requests share the engine's steps and pages
    Batching(batching::Arguments),
}

/// What every demonstration takes.
#[derive(clap::Args)]
pub(crate) struct Staging {
    /// Print everything at once
    #[arg(long)]
    still: bool,
}

impl Staging {
    fn show(&self) -> Show {
        Show::new(self.still)
    }
}

impl Demo {
    pub(super) fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Tokenizer(arguments) => tokenizer::run(arguments),
            Self::Attention(arguments) => attention::run(arguments),
            Self::Sampling(arguments) => sampling::run(arguments),
            Self::Quantization(arguments) => quantization::run(arguments),
            Self::Batching(arguments) => batching::run(arguments),
        }
    }
}

/// The built-in model.
fn tale() -> Result<Model, Failure> {
    Ok(Model::open(BUILT_IN, Options::default().context(1024))?)
}

/// A token's bytes.
fn bytes(model: &Model, token: u32) -> Vec<u8> {
    let tokenizer = &model.profile().tokenizer;
    let bytes = tokenizer.token_bytes(token);
    bytes.map(|bytes| bytes.to_vec()).unwrap_or_default()
}
