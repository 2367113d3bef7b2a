//! The flags that choose how tokens are drawn.

use crate::failure::{Failure, Kind};
use std::hash::{BuildHasher, Hasher, RandomState};
use strata_chat::{Sampling, TokenOrText};

/// How tokens are sampled
#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArguments {
    /// Temperature; 0 always picks the most likely token [default: the model's, or 0.8]
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temp: Option<f32>,
    /// Keep the K most likely tokens; 0 disables it [default: the model's, or 40]
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Keep the most likely tokens up to this total probability; 1 disables it [default: the model's, or 0.95]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Keep tokens at least this probable relative to the most likely one; 0 disables it [default: the model's, or 0.05]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Random seed; the same seed gives the same answer [default: random]
    #[arg(long)]
    seed: Option<u64>,
    /// Divide the logits of tokens that already occurred by this; 1 disables it [default: the model's, or 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repeat_penalty: Option<f32>,
    /// Subtract this from a token's logit for each time it already occurred [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// Subtract this once from the logits of tokens that already occurred [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// Number of recent tokens the penalties consider; -1 for all [default: the model's, or 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(-1..), allow_negative_numbers = true)]
    repeat_last_n: Option<i32>,
    /// Locally typical sampling: keep the most typical tokens up to this total probability; 1 disables it [default: the model's, or 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    typical: Option<f32>,
    /// Keep logits within this many standard deviations of the largest; 0 disables it [default: the model's, or 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top_n_sigma: Option<f32>,
    /// Probability that XTC removes the most likely tokens; 0 disables it [default: the model's, or 0]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    xtc_probability: Option<f32>,
    /// Minimum probability of tokens that XTC may remove [default: the model's, or 0.1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    xtc_threshold: Option<f32>,
    /// Strength of the DRY penalty against repeated sequences; 0 disables it [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dry_multiplier: Option<f32>,
    /// How fast the DRY penalty grows with the length of the repetition [default: the model's, or 1.75]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dry_base: Option<f32>,
    /// Repetitions shorter than this are not penalized by DRY [default: the model's, or 2]
    #[arg(long, value_name = "N")]
    dry_allowed_length: Option<u32>,
    /// Number of recent tokens DRY considers; -1 for all [default: the model's, or -1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(-1..), allow_negative_numbers = true)]
    dry_last_n: Option<i32>,
    /// A text that interrupts DRY's repetitions; can be repeated [default: the model's, or a newline, : " and *]
    #[arg(long, value_name = "TEXT")]
    dry_breaker: Vec<String>,
    /// Range of the dynamic temperature, which follows the entropy; 0 disables it [default: the model's, or 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dynatemp_range: Option<f32>,
    /// Exponent of the dynamic temperature [default: the model's, or 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    dynatemp_exponent: Option<f32>,
    /// Enable mirostat 2 with this target surprise, in bits per token
    #[arg(long, value_name = "BITS", allow_negative_numbers = true)]
    mirostat_tau: Option<f32>,
    /// Learning rate of mirostat [default: the model's, or 0.1]
    #[arg(
        long,
        value_name = "X",
        requires = "mirostat_tau",
        allow_negative_numbers = true
    )]
    mirostat_eta: Option<f32>,
    /// Minimum number of tokens that truncating samplers keep [default: the model's, or 0]
    #[arg(long, value_name = "N")]
    min_keep: Option<u32>,
    /// Add BIAS to the logit of a token id (-inf bans it); can be repeated
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
        .ok_or("expected TOKEN=BIAS, such as 5=-1.5")?;
    Ok((
        token.parse().map_err(|_| "TOKEN is not a token id")?,
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
