//! Sampling settings: the request's, then the model's, then the defaults that every door shares.

use alloc::string::String;
use alloc::vec::Vec;
use strata_engine::sampling::{
    Dry, DynamicTemperature, Lookback, Mirostat, Penalties, SamplerSettings, SettingsError, Xtc,
    breakers,
};
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// Sampling settings; `None` leaves one to the model, or to [`Sampling::defaults`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The seed; random if `None`.
    pub seed: Option<u64>,
    /// Temperature; 0 is greedy.
    pub temperature: Option<f32>,
    /// Keep this many tokens; 0 keeps all.
    pub top_k: Option<u32>,
    /// Keep the likeliest tokens up to this total probability.
    pub top_p: Option<f32>,
    /// Keep tokens at least this likely relative to the likeliest.
    pub min_p: Option<f32>,
    /// Locally typical sampling.
    pub typical_p: Option<f32>,
    /// Keep tokens within this many standard deviations of the largest logit.
    pub top_n_sigma: Option<f32>,
    /// Tokens that the filters always keep.
    pub min_keep: Option<u32>,
    /// How many recent tokens the penalties cover; −1 is all.
    pub repeat_last_n: Option<i32>,
    /// Repetition penalty; 1 is off.
    pub repeat_penalty: Option<f32>,
    /// Penalty per occurrence of a token.
    pub frequency_penalty: Option<f32>,
    /// Penalty for a token that occurred.
    pub presence_penalty: Option<f32>,
    /// Range of dynamic temperature; 0 is off.
    pub dynatemp_range: Option<f32>,
    /// Exponent of dynamic temperature.
    pub dynatemp_exponent: Option<f32>,
    /// Strength of the DRY penalty; 0 is off.
    pub dry_multiplier: Option<f32>,
    /// Base of the DRY penalty.
    pub dry_base: Option<f32>,
    /// Repeated runs up to this length are free of DRY.
    pub dry_allowed_length: Option<u32>,
    /// How many recent tokens DRY covers; −1 is all.
    pub dry_penalty_last_n: Option<i32>,
    /// Texts that end a repeated run.
    pub dry_sequence_breakers: Option<Vec<String>>,
    /// Probability that XTC removes the likeliest tokens.
    pub xtc_probability: Option<f32>,
    /// Least probability of the tokens that XTC removes.
    pub xtc_threshold: Option<f32>,
    /// 0 is off, 2 is Mirostat 2.
    pub mirostat: Option<u32>,
    /// Target surprise of Mirostat.
    pub mirostat_tau: Option<f32>,
    /// Learning rate of Mirostat.
    pub mirostat_eta: Option<f32>,
    /// Added to the logits of these tokens; minus infinity bans one.
    pub logit_bias: Vec<(TokenOrText, f32)>,
}

impl Sampling {
    /// What applies where neither the request nor the model has a setting, whichever way the request came. The values
    /// are llama.cpp's; penalties, DRY, XTC and Mirostat are off.
    pub fn defaults() -> Self {
        Self {
            temperature: Some(0.8),
            top_k: Some(40),
            top_p: Some(0.95),
            min_p: Some(0.05),
            ..Self::default()
        }
    }

    /// These settings, with those of `under` where these have none.
    #[must_use]
    pub fn or(self, under: &Self) -> Self {
        macro_rules! layered {
            ($($field:ident),*) => {
                Self {
                    $($field: self.$field.or(under.$field),)*
                    dry_sequence_breakers: self
                        .dry_sequence_breakers
                        .or_else(|| under.dry_sequence_breakers.clone()),
                    logit_bias: if self.logit_bias.is_empty() {
                        under.logit_bias.clone()
                    } else {
                        self.logit_bias
                    },
                }
            };
        }
        layered!(
            seed,
            temperature,
            top_k,
            top_p,
            min_p,
            typical_p,
            top_n_sigma,
            min_keep,
            repeat_last_n,
            repeat_penalty,
            frequency_penalty,
            presence_penalty,
            dynatemp_range,
            dynatemp_exponent,
            dry_multiplier,
            dry_base,
            dry_allowed_length,
            dry_penalty_last_n,
            xtc_probability,
            xtc_threshold,
            mirostat,
            mirostat_tau,
            mirostat_eta
        )
    }

    /// Checks what can be checked without a model.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let mut settings = settings_but_tokens([self, &Self::default(), &Self::defaults()], 0);
        let tokens = self
            .logit_bias
            .iter()
            .filter_map(|(which, bias)| match which {
                TokenOrText::Token(token) => Some((*token, *bias)),
                TokenOrText::Text(_) => None,
            });
        settings.logit_bias = tokens.collect();
        settings.validate()
    }
}

/// A token, or a text that stands for its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOrText {
    /// A token.
    Token(u32),
    /// A text.
    Text(String),
}

/// Default sequence breakers of DRY, as in llama.cpp.
const BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// The engine's settings: the request's, else the model's, else the defaults; `seed` is for requests without one.
pub(crate) fn settings(
    request: &Sampling,
    model: &Sampling,
    seed: u64,
    tokenizer: &Tokenizer,
) -> SamplerSettings {
    let layers = [request, model, &Sampling::defaults()];
    let mut settings = settings_but_tokens(layers, seed);
    settings.logit_bias = logit_bias(layers, tokenizer);
    if settings.dry.multiplier != 0.0 {
        let given = layers
            .iter()
            .find_map(|layer| layer.dry_sequence_breakers.as_ref());
        settings.dry.breakers = match given {
            Some(texts) => dry_breakers(texts.iter().map(|text| text.as_str()), tokenizer),
            None => dry_breakers(BREAKERS, tokenizer),
        };
    }
    settings
}

/// The settings but for those that are tokens. The first of `layers` that has a setting decides it.
fn settings_but_tokens(layers: [&Sampling; 3], seed: u64) -> SamplerSettings {
    let base = SamplerSettings::default();
    macro_rules! pick {
        ($field:ident) => {
            layers.iter().find_map(|layer| layer.$field)
        };
        ($field:ident, $default:expr) => {
            pick!($field).unwrap_or($default)
        };
    }
    let lookback = |last: Option<i32>, otherwise: Lookback| match last {
        None => otherwise,
        Some(n) => u32::try_from(n).map_or(Lookback::All, Lookback::Last),
    };
    let dry = Dry {
        multiplier: pick!(dry_multiplier, base.dry.multiplier),
        base: pick!(dry_base, base.dry.base),
        allowed_length: pick!(dry_allowed_length, base.dry.allowed_length),
        lookback: lookback(pick!(dry_penalty_last_n), base.dry.lookback),
        breakers: Vec::new(),
    };
    SamplerSettings {
        seed: pick!(seed, seed),
        logit_bias: Vec::new(),
        penalties: Penalties {
            lookback: lookback(pick!(repeat_last_n), base.penalties.lookback),
            repeat: pick!(repeat_penalty, base.penalties.repeat),
            frequency: pick!(frequency_penalty, base.penalties.frequency),
            presence: pick!(presence_penalty, base.penalties.presence),
        },
        dry,
        top_n_sigma: pick!(top_n_sigma, base.top_n_sigma).max(0.0),
        top_k: pick!(top_k, base.top_k),
        typical_p: pick!(typical_p, base.typical_p),
        top_p: pick!(top_p, base.top_p),
        min_p: pick!(min_p, base.min_p),
        xtc: Xtc {
            probability: pick!(xtc_probability, base.xtc.probability),
            threshold: pick!(xtc_threshold, base.xtc.threshold),
        },
        min_keep: pick!(min_keep, base.min_keep),
        temperature: pick!(temperature, base.temperature),
        dynamic_temperature: DynamicTemperature {
            range: pick!(dynatemp_range, base.dynamic_temperature.range),
            exponent: pick!(dynatemp_exponent, base.dynamic_temperature.exponent),
        },
        mirostat: match pick!(mirostat, 0) {
            0 => Mirostat::Off,
            _ => Mirostat::V2 {
                tau: pick!(mirostat_tau, 5.0),
                eta: pick!(mirostat_eta, 0.1),
            },
        },
    }
}

fn logit_bias(layers: [&Sampling; 3], tokenizer: &Tokenizer) -> Vec<(u32, f32)> {
    let biased = layers.iter().find(|layer| !layer.logit_bias.is_empty());
    let mut list = Vec::new();
    for (text, bias) in biased.map_or(&[][..], |layer| &layer.logit_bias) {
        match text {
            TokenOrText::Token(token) => list.push((*token, *bias)),
            TokenOrText::Text(text) => {
                let tokens = tokenizer.encode(text, EncodeOptions::default());
                list.extend(tokens.into_iter().map(|token| (token, *bias)));
            }
        }
    }
    list
}

fn dry_breakers<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    tokenizer: &Tokenizer,
) -> Vec<Vec<u32>> {
    let ids = 0..tokenizer.vocab_size() as u32;
    let pieces: Vec<_> = ids
        .filter_map(|id| Some((id, tokenizer.token_bytes(id)?)))
        .collect();
    let mut all = Vec::new();
    for text in texts {
        all.extend(breakers(
            text,
            pieces.iter().map(|(id, bytes)| (*id, bytes.as_ref())),
            |rest| tokenizer.encode(rest, EncodeOptions::default()),
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_lie_over_others() {
        let over = Sampling {
            temperature: Some(0.5),
            ..Sampling::default()
        };
        let under = Sampling {
            temperature: Some(1.0),
            top_k: Some(3),
            logit_bias: [(TokenOrText::Token(1), 2.0)].into(),
            ..Sampling::default()
        };
        let both = Sampling {
            temperature: Some(0.5),
            ..under.clone()
        };
        assert_eq!(over.or(&under), both);
        assert_eq!(both.clone().or(&Sampling::default()), both);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        assert_eq!(Sampling::default().validate(), Ok(()));
        for wrong in [
            Sampling {
                temperature: Some(-1.0),
                ..Sampling::default()
            },
            Sampling {
                logit_bias: [(TokenOrText::Token(1), f32::NAN)].into(),
                ..Sampling::default()
            },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
