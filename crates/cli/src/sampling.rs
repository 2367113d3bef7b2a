//! The flags that choose how tokens are drawn.

use crate::failure::{Failure, Kind};
use std::hash::{BuildHasher, Hasher, RandomState};
use strata_chat::{Sampling, TokenOrText};

/// How tokens are drawn
#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArguments {
    /// The temperature; 0 always takes the likeliest token [default: the model's, or 0.8]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temp: Option<f32>,
    /// Keep the K likeliest tokens; 0 is off [default: the model's, or 40]
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Keep the likeliest tokens up to this total probability; 1 is off [default: the model's, or 0.95]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Keep tokens at least this probable in relation to the likeliest; 0 is off [default: the model's, or 0.05]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// The same seed draws the same tokens [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Divide the logits of tokens that occurred by this; 1 is off [default: the model's, or 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repeat_penalty: Option<f32>,
    /// Subtract this from a logit for each time that its token occurred [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// Subtract this from the logits of tokens that occurred [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// How many of the latest tokens the penalties look at; -1 is all [default: the model's, or 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(-1..), allow_negative_numbers = true)]
    repeat_last_n: Option<i32>,
    /// Keep the tokens whose surprise is nearest to the expected, up to this total probability; 1 is off [default: the model's, or 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    typical: Option<f32>,
    /// Keep logits within this many standard deviations of the largest; 0 is off [default: the model's, or 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top_n_sigma: Option<f32>,
    /// How often XTC leaves the likeliest tokens out; 0 is off [default: the model's, or 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    xtc_probability: Option<f32>,
    /// The probability from which XTC may leave a token out [default: the model's, or 0.1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    xtc_threshold: Option<f32>,
    /// The strength of DRY against repeated runs of tokens; 0 is off [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dry_multiplier: Option<f32>,
    /// How fast DRY grows with the run [default: the model's, or 1.75]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dry_base: Option<f32>,
    /// Runs shorter than this are free of DRY [default: the model's, or 2]
    #[arg(long, value_name = "N")]
    dry_allowed_length: Option<u32>,
    /// How many of the latest tokens DRY looks at; -1 is all [default: the model's, or -1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(-1..), allow_negative_numbers = true)]
    dry_last_n: Option<i32>,
    /// A text over which DRY follows no run; may be given several times [default: the model's, or a newline, : " and *]
    #[arg(long, value_name = "TEXT")]
    dry_breaker: Vec<String>,
    /// Let the temperature follow the entropy, by this much up and down; 0 is off [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dynatemp_range: Option<f32>,
    /// The exponent of that [default: the model's, or 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dynatemp_exponent: Option<f32>,
    /// Turn mirostat 2 on: the surprise that it holds, in bits a token
    #[arg(long, value_name = "BITS", allow_negative_numbers = true)]
    mirostat_tau: Option<f32>,
    /// How fast mirostat corrects itself [default: the model's, or 0.1]
    #[arg(
        long,
        value_name = "X",
        requires = "mirostat_tau",
        allow_negative_numbers = true
    )]
    mirostat_eta: Option<f32>,
    /// The truncating samplers leave at least that many tokens [default: the model's, or 0]
    #[arg(long, value_name = "N")]
    min_keep: Option<u32>,
    /// Add BIAS to the logit of the token with this id (-inf bans it); may be given several times
    #[arg(long, value_name = "TOKEN=BIAS", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
}

impl SamplingArguments {
    /// What the flags say, checked as far as that can be done without a model.
    pub(crate) fn sampling(&self) -> Result<Sampling, Failure> {
        let sampling = Sampling {
            seed: self.seed,
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical_p: self.typical,
            top_n_sigma: self.top_n_sigma,
            min_keep: self.min_keep,
            repeat_last_n: self.repeat_last_n,
            repeat_penalty: self.repeat_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            dynatemp_range: self.dynatemp_range,
            dynatemp_exponent: self.dynatemp_exponent,
            dry_multiplier: self.dry_multiplier,
            dry_base: self.dry_base,
            dry_allowed_length: self.dry_allowed_length,
            dry_penalty_last_n: self.dry_last_n,
            dry_sequence_breakers: Some(self.dry_breaker.clone()).filter(|texts| !texts.is_empty()),
            xtc_probability: self.xtc_probability,
            xtc_threshold: self.xtc_threshold,
            mirostat: self.mirostat_tau.map(|_| 2),
            mirostat_tau: self.mirostat_tau,
            mirostat_eta: self.mirostat_eta,
            logit_bias: self
                .logit_bias
                .iter()
                .map(|&(token, bias)| (TokenOrText::Token(token), bias))
                .collect(),
        };
        check(&sampling)?;
        Ok(sampling)
    }
}

/// Refuses settings that no model can honour.
pub(crate) fn check(sampling: &Sampling) -> Result<(), Failure> {
    sampling.validate().map_err(|error| {
        Failure::new(Kind::Usage, error).hint("`strata run --help` lists the sampling flags")
    })
}

/// The standard library seeds its hash tables from the system's random numbers.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (token, bias) = text
        .split_once('=')
        .ok_or("not of the form TOKEN=BIAS, such as 5=-1.5")?;
    Ok((
        token.parse().map_err(|_| "TOKEN is not a token's id")?,
        bias.parse().map_err(|_| "BIAS is not a number")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_are_parsed() {
        assert_eq!(bias("5=-inf"), Ok((5, f32::NEG_INFINITY)));
        assert_eq!(bias("5=1.5"), Ok((5, 1.5)));
        assert!(bias("5").is_err() && bias("x=1").is_err() && bias("5=x").is_err());
    }
}
