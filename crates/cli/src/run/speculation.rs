//! Drafting tokens ahead: the flags.

use std::path::PathBuf;
use strata::Options;

/// Tokens guessed ahead and checked together. The answer stays the same, only sooner.
#[derive(clap::Args)]
#[command(next_help_heading = "Speculative decoding")]
pub(crate) struct SpeculationArguments {
    /// Draft up to N tokens from the text so far and from other texts of its client, which is fast where an answer repeats
    /// them; does not change the answer [N: 8]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "8", value_parser = clap::value_parser!(u8).range(1..=64))]
    speculate: Option<u8>,
    /// Draft with a smaller model with the same vocabulary
    #[arg(long, value_name = "FILE")]
    draft: Option<PathBuf>,
}

impl SpeculationArguments {
    /// The options with these flags.
    pub(crate) fn add_to(&self, mut options: Options) -> Options {
        if let Some(tokens) = self.speculate {
            options = options.max_draft(tokens.into());
        }
        if let Some(model) = &self.draft {
            options = options.draft_model(model);
        }
        options
    }
}
