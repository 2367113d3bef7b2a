//! How tokens are chosen: what a request says, then what its model says, then what its dialect is used to.

use alloc::string::String;
use alloc::vec::Vec;
use strata_engine::sampling::{
    Dry, DynamicTemperature, Lookback, Mirostat, Penalties, SamplerSettings, Xtc, breakers,
};
use strata_tokenizer::{EncodeOptions, Tokenizer};

/// How tokens are chosen; what is not given is left to the model's or the dialect's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "named as the engine's settings, which say what they mean"
)]
pub struct Sampling {
    pub seed: Option<u64>,
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub typical_p: Option<f32>,
    pub top_n_sigma: Option<f32>,
    pub min_keep: Option<u32>,
    /// Tokens that the penalties look back over; −1 is all of them.
    pub repeat_last_n: Option<i32>,
    pub repeat_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub dynatemp_range: Option<f32>,
    pub dynatemp_exponent: Option<f32>,
    pub dry_multiplier: Option<f32>,
    pub dry_base: Option<f32>,
    pub dry_allowed_length: Option<u32>,
    pub dry_penalty_last_n: Option<i32>,
    pub dry_sequence_breakers: Option<Vec<String>>,
    pub xtc_probability: Option<f32>,
    pub xtc_threshold: Option<f32>,
    /// 0 is off, 2 is version 2.
    pub mirostat: Option<u32>,
    pub mirostat_tau: Option<f32>,
    pub mirostat_eta: Option<f32>,
    /// Added to the logits of tokens, or of the tokens of texts; minus infinity bans.
    pub logit_bias: Vec<(TokenOrText, f32)>,
}

/// A token, or a text whose tokens are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOrText {
    /// A token.
    Token(u32),
    /// A text.
    Text(String),
}

/// What breaks a repeated run where the request does not say: as in llama.cpp.
const BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// The engine's settings for a request. The first of `layers` that says something about a knob decides it; `seed` is
/// for requests that give none.
pub(crate) fn settings(
    layers: [&Sampling; 3],
    seed: u64,
    tokenizer: &Tokenizer,
) -> SamplerSettings {
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
    let mut dry = Dry {
        multiplier: pick!(dry_multiplier, base.dry.multiplier),
        base: pick!(dry_base, base.dry.base),
        allowed_length: pick!(dry_allowed_length, base.dry.allowed_length),
        lookback: lookback(pick!(dry_penalty_last_n), base.dry.lookback),
        breakers: Vec::new(),
    };
    if dry.multiplier != 0.0 {
        let given = layers
            .iter()
            .find_map(|layer| layer.dry_sequence_breakers.as_ref());
        dry.breakers = match given {
            Some(texts) => dry_breakers(texts.iter().map(|text| text.as_str()), tokenizer),
            None => dry_breakers(BREAKERS, tokenizer),
        };
    }
    SamplerSettings {
        seed: pick!(seed, seed),
        logit_bias: logit_bias(layers, tokenizer),
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
