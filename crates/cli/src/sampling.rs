//! The flags that choose how tokens are drawn.

use crate::failure::{Failure, Kind};
use std::hash::{BuildHasher, Hasher, RandomState};
use strata_chat::Sampling;
use strata_engine::sampling::{
    Dry, DynamicTemperature, Lookback, Mirostat, Penalties, SamplerSettings, SettingsError, Xtc,
    breakers,
};
use strata_tokenizer::{EncodeOptions, Tokenizer};

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
    #[arg(long, value_name = "N", value_parser = lookback, allow_negative_numbers = true)]
    repeat_last_n: Option<Lookback>,
    /// Keep the tokens whose surprise is nearest to the expected, up to this total probability; 1 is off [default: the model's, or 1]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    typical: Option<f32>,
    /// Keep logits within this many standard deviations of the largest; 0 is off
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    top_n_sigma: f32,
    /// How often XTC leaves the likeliest tokens out; 0 is off
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    xtc_probability: f32,
    /// The probability from which XTC may leave a token out
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.1,
        allow_negative_numbers = true
    )]
    xtc_threshold: f32,
    /// The strength of DRY against repeated runs of tokens; 0 is off
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    dry_multiplier: f32,
    /// How fast DRY grows with the run
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.75,
        allow_negative_numbers = true
    )]
    dry_base: f32,
    /// Runs shorter than this are free of DRY
    #[arg(long, value_name = "N", default_value_t = 2)]
    dry_allowed_length: u32,
    /// How many of the latest tokens DRY looks at; -1 is all
    #[arg(long, value_name = "N", default_value = "-1", value_parser = lookback, allow_negative_numbers = true)]
    dry_last_n: Lookback,
    /// A text over which DRY follows no run; may be given several times
    #[arg(long, value_name = "TEXT", default_values = ["\n", ":", "\"", "*"], hide_default_value = true)]
    dry_breaker: Vec<String>,
    /// Let the temperature follow the entropy, by this much up and down; 0 is off
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    dynatemp_range: f32,
    /// The exponent of that
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    dynatemp_exponent: f32,
    /// Turn mirostat 2 on: the surprise that it holds, in bits a token
    #[arg(long, value_name = "BITS", allow_negative_numbers = true)]
    mirostat_tau: Option<f32>,
    /// How fast mirostat corrects itself
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.1,
        requires = "mirostat_tau",
        allow_negative_numbers = true
    )]
    mirostat_eta: f32,
    /// The truncating samplers leave at least that many tokens
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_keep: u32,
    /// Add BIAS to the logit of the token with this id (-inf bans it); may be given several times
    #[arg(long, value_name = "TOKEN=BIAS", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
}

impl SamplingArguments {
    /// The settings, checked: what `over` says, then what the flags say, then what `under` says. DRY's breakers need a
    /// vocabulary: see [`Self::add_breakers`].
    pub(crate) fn settings(
        &self,
        over: &Sampling,
        under: &Sampling,
    ) -> Result<SamplerSettings, Failure> {
        let back = |last: i32| u32::try_from(last).map_or(Lookback::All, Lookback::Last);
        let last = over.repeat_last_n.map(back).or(self.repeat_last_n);
        let last = last.or(under.repeat_last_n.map(back));
        let pick = |over: Option<f32>, flag: Option<f32>, under: Option<f32>, usual: f32| {
            over.or(flag).or(under).unwrap_or(usual)
        };
        let settings = SamplerSettings {
            seed: over
                .seed
                .or(self.seed)
                .or(under.seed)
                .unwrap_or_else(random_seed),
            logit_bias: self.logit_bias.clone(),
            penalties: Penalties {
                lookback: last.unwrap_or(Lookback::Last(64)),
                repeat: pick(
                    over.repeat_penalty,
                    self.repeat_penalty,
                    under.repeat_penalty,
                    1.0,
                ),
                frequency: pick(
                    over.frequency_penalty,
                    self.frequency_penalty,
                    under.frequency_penalty,
                    0.0,
                ),
                presence: pick(
                    over.presence_penalty,
                    self.presence_penalty,
                    under.presence_penalty,
                    0.0,
                ),
            },
            dry: Dry {
                multiplier: self.dry_multiplier,
                base: self.dry_base,
                allowed_length: self.dry_allowed_length,
                lookback: self.dry_last_n,
                breakers: Vec::new(),
            },
            top_n_sigma: self.top_n_sigma,
            top_k: over.top_k.or(self.top_k).or(under.top_k).unwrap_or(40),
            typical_p: pick(over.typical_p, self.typical, under.typical_p, 1.0),
            top_p: pick(over.top_p, self.top_p, under.top_p, 0.95),
            min_p: pick(over.min_p, self.min_p, under.min_p, 0.05),
            xtc: Xtc {
                probability: self.xtc_probability,
                threshold: self.xtc_threshold,
            },
            min_keep: self.min_keep,
            temperature: pick(over.temperature, self.temp, under.temperature, 0.8),
            dynamic_temperature: DynamicTemperature {
                range: self.dynatemp_range,
                exponent: self.dynatemp_exponent,
            },
            mirostat: self.mirostat(over, under),
        };
        settings.validate().map_err(|error| unusable(&error))?;
        Ok(settings)
    }

    fn mirostat(&self, over: &Sampling, under: &Sampling) -> Mirostat {
        let says = |layer: &Sampling| match layer.mirostat? {
            0 => Some(Mirostat::Off),
            _ => Some(Mirostat::V2 {
                tau: layer.mirostat_tau.unwrap_or(5.0),
                eta: layer.mirostat_eta.unwrap_or(0.1),
            }),
        };
        let flag = self.mirostat_tau.map(|tau| Mirostat::V2 {
            tau,
            eta: self.mirostat_eta,
        });
        says(over)
            .or(flag)
            .or_else(|| says(under))
            .unwrap_or(Mirostat::Off)
    }

    /// Adds the token sequences of `--dry-breaker` where DRY is on.
    pub(crate) fn add_breakers(&self, settings: &mut SamplerSettings, tokenizer: &Tokenizer) {
        if settings.dry.multiplier == 0.0 {
            return;
        }
        let ids = 0..tokenizer.vocab_size() as u32;
        let pieces: Vec<_> = ids
            .filter_map(|id| Some((id, tokenizer.token_bytes(id)?)))
            .collect();
        for text in &self.dry_breaker {
            settings.dry.breakers.extend(breakers(
                text,
                pieces.iter().map(|(id, bytes)| (*id, bytes.as_ref())),
                |rest| tokenizer.encode(rest, EncodeOptions::default()),
            ));
        }
    }
}

/// A setting that cannot be honoured.
pub(crate) fn unusable(error: &SettingsError) -> Failure {
    Failure::new(Kind::Usage, error).hint("`strata run --help` lists the sampling flags")
}

/// The standard library seeds its hash tables from the system's random numbers.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn lookback(text: &str) -> Result<Lookback, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(Lookback::All),
        Ok(n) => u32::try_from(n)
            .map(Lookback::Last)
            .map_err(|_| "not between -1 and 4294967295".into()),
        Err(error) => Err(error.to_string()),
    }
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
    fn lookbacks_and_biases_are_parsed() {
        assert_eq!(lookback("-1"), Ok(Lookback::All));
        assert_eq!(lookback("64"), Ok(Lookback::Last(64)));
        assert!(lookback("-2").is_err() && lookback("x").is_err());
        assert_eq!(bias("5=-inf"), Ok((5, f32::NEG_INFINITY)));
        assert_eq!(bias("5=1.5"), Ok((5, 1.5)));
        assert!(bias("5").is_err() && bias("x=1").is_err() && bias("5=x").is_err());
    }
}
