//! Drafting tokens ahead: the flags.

use std::path::PathBuf;
use std::str::FromStr;
use strata::{Drafts, Options};

/// Tokens guessed ahead and checked together. The answer stays the same, only sooner.
#[derive(clap::Args)]
#[command(next_help_heading = "Speculative decoding")]
pub(crate) struct SpeculationArguments {
    /// Draft up to N tokens: from the text so far and from other texts of its client, which is fast where an answer repeats
    /// them; with the layer that some models have for it (mtp); or with what promises more (auto). Does not change the
    /// answer [N: 8]
    #[arg(long, value_name = "N|mtp[:N]|auto[:N]", num_args = 0..=1, require_equals = true, default_missing_value = "8")]
    speculate: Option<Speculate>,
    /// Draft with a smaller model with the same vocabulary
    #[arg(long, value_name = "FILE")]
    draft: Option<PathBuf>,
}

/// What `--speculate` says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Speculate {
    drafts: Drafts,
    tokens: usize,
}

impl FromStr for Speculate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, number) = match text.split_once(':') {
            Some((kind, number)) => (Some(kind), number),
            None if text.starts_with(|c: char| c.is_ascii_alphabetic()) => (Some(text), "8"),
            None => (None, text),
        };
        let drafts = match kind {
            None => Drafts::Given,
            Some("mtp") => Drafts::Nextn,
            Some("auto") => Drafts::Auto,
            _ => return Err("expected N, mtp, mtp:N, auto or auto:N".into()),
        };
        match number.parse() {
            Ok(tokens @ 1..=64) => Ok(Self { drafts, tokens }),
            _ => Err(format!("{number:?} is not a number of tokens from 1 to 64")),
        }
    }
}

impl SpeculationArguments {
    /// The options with these flags.
    pub(crate) fn add_to(&self, mut options: Options) -> Options {
        if let Some(Speculate { drafts, tokens }) = self.speculate {
            options = options.drafts(drafts).max_draft(tokens);
        }
        if let Some(model) = &self.draft {
            options = options.draft_model(model);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_lengths_are_read() {
        let read = |text: &str| {
            let read = text.parse::<Speculate>();
            read.map(|read| (read.drafts, read.tokens))
        };
        assert_eq!(read("12"), Ok((Drafts::Given, 12)));
        assert_eq!(read("mtp"), Ok((Drafts::Nextn, 8)));
        assert_eq!(read("auto:3"), Ok((Drafts::Auto, 3)));
        for bad in ["0", "65", "", "mtp:", "mtp:0", "lookup", "auto:x", ":8"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
