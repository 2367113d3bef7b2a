//! How tokens are chosen, with the extras of llama-server and vLLM.

use crate::json::{Fields, Json, JsonPath};
use crate::{Fault, Sampling, TokenOrText};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

/// What values a dialect allows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Those that OpenAI's API promises to hold.
    Narrow,
    /// Whatever has a meaning, as with llama-server and Ollama.
    Wide,
}

impl Ranges {
    fn temperature(self) -> RangeInclusive<f64> {
        match self {
            Self::Narrow => 0.0..=2.0,
            Self::Wide => POSITIVE,
        }
    }

    fn penalty(self) -> RangeInclusive<f64> {
        match self {
            Self::Narrow => -2.0..=2.0,
            Self::Wide => ANY,
        }
    }
}

/// Texts to stop at, at most: each is looked for after each token. OpenAI's own limit of 4 is too low for some clients.
pub(super) const MAX_STOPS: usize = 64;

/// Texts that break a repetition, at most; each is looked for in the whole vocabulary.
const MAX_BREAKERS: usize = 32;

const POSITIVE: RangeInclusive<f64> = 0.0..=f32::MAX as f64;
/// Every number that a float can hold.
pub const ANY: RangeInclusive<f64> = f32::MIN as f64..=f32::MAX as f64;

/// Reads how tokens are chosen.
pub fn sampling(fields: &mut Fields, ranges: Ranges) -> Result<Sampling, Fault> {
    let mut float = |name: &str, range| -> Result<Option<f32>, Fault> {
        Ok(fields.maybe_number(name, range)?.map(|value| value as f32))
    };
    let mut sampling = Sampling {
        temperature: float("temperature", ranges.temperature())?,
        top_p: float("top_p", 0.0..=1.0)?,
        min_p: float("min_p", 0.0..=1.0)?,
        typical_p: float("typical_p", 0.0..=1.0)?,
        top_n_sigma: float("top_n_sigma", ANY)?,
        repeat_penalty: float("repeat_penalty", POSITIVE)?,
        frequency_penalty: float("frequency_penalty", ranges.penalty())?,
        presence_penalty: float("presence_penalty", ranges.penalty())?,
        dynatemp_range: float("dynatemp_range", POSITIVE)?,
        dynatemp_exponent: float("dynatemp_exponent", POSITIVE)?,
        dry_multiplier: float("dry_multiplier", POSITIVE)?,
        dry_base: float("dry_base", POSITIVE)?,
        xtc_probability: float("xtc_probability", 0.0..=1.0)?,
        xtc_threshold: float("xtc_threshold", 0.0..=1.0)?,
        mirostat_tau: float("mirostat_tau", POSITIVE)?,
        mirostat_eta: float("mirostat_eta", POSITIVE)?,
        ..Sampling::default()
    };
    // vLLM's word for it.
    let repetition = float("repetition_penalty", POSITIVE)?;
    sampling.repeat_penalty = sampling.repeat_penalty.or(repetition);

    let mut whole = |name: &str, low: i64, high: i64| fields.maybe_integer(name, low..=high);
    let (unsigned, signed) = (i64::from(u32::MAX), i64::from(i32::MAX));
    // Both peers write −1 where others write 0: all tokens are candidates.
    let top_k = whole("top_k", -1, unsigned)?;
    sampling.top_k = top_k.map(|value| value.max(0) as u32);
    sampling.min_keep = whole("min_keep", 0, unsigned)?.map(|value| value as u32);
    sampling.repeat_last_n = whole("repeat_last_n", -1, signed)?.map(|value| value as i32);
    sampling.dry_allowed_length = whole("dry_allowed_length", 0, unsigned)?.map(|n| n as u32);
    sampling.dry_penalty_last_n = whole("dry_penalty_last_n", -1, signed)?.map(|n| n as i32);
    sampling.mirostat = whole("mirostat", 0, 2)?.map(|value| value as u32);
    if sampling.mirostat == Some(1) {
        return Err(Fault::field(
            &fields.at("mirostat"),
            format_args!("version 1 is not supported"),
        ));
    }
    if let Some(value) = fields.take("dry_sequence_breakers") {
        let path = fields.at("dry_sequence_breakers");
        let breakers = path.strings(value)?;
        if breakers.len() > MAX_BREAKERS {
            let problem = format_args!("must have at most {MAX_BREAKERS} texts");
            return Err(Fault::field(&path, problem));
        }
        sampling.dry_sequence_breakers = Some(breakers);
    }
    sampling.seed = seed(fields)?;
    sampling.logit_bias = logit_bias(fields)?;
    Ok(sampling)
}

/// Any 64 bits; −1 asks for a new one each time, as with llama-server and Ollama.
fn seed(fields: &mut Fields) -> Result<Option<u64>, Fault> {
    match fields.take("seed") {
        None => Ok(None),
        Some(Json::Large(seed)) => Ok(Some(seed)),
        Some(value) => {
            let seed = fields.at("seed").integer(&value, i64::MIN..=i64::MAX)?;
            Ok((seed != -1).then_some(seed as u64))
        }
    }
}

/// `{"token or text": bias}`, or llama-server's `[[token or text, bias or false]]`.
fn logit_bias(fields: &mut Fields) -> Result<Vec<(TokenOrText, f32)>, Fault> {
    let path = fields.at("logit_bias");
    match fields.take("logit_bias") {
        None => Ok(Vec::new()),
        Some(Json::Object(pairs)) => pairs
            .into_iter()
            .map(|(key, value)| {
                let bias = bias(&path.field(&key), &value)?;
                let token = key.parse().map(TokenOrText::Token);
                Ok((token.unwrap_or(TokenOrText::Text(key)), bias))
            })
            .collect(),
        Some(list @ Json::Array(_)) => path.list(list)?.map(|(at, item)| pair(&at, item)).collect(),
        Some(other) => Err(path.expected("an object", &other)),
    }
}

fn pair(path: &JsonPath, item: Json) -> Result<(TokenOrText, f32), Fault> {
    let Json::Array(pair) = item else {
        return Err(path.expected("a token and its bias", &item));
    };
    let Ok([token, value]) = <[Json; 2]>::try_from(pair) else {
        return Err(Fault::field(
            path,
            format_args!("must be a token and its bias"),
        ));
    };
    let text = match token {
        Json::String(text) => TokenOrText::Text(text),
        number => {
            TokenOrText::Token(path.item(0).integer(&number, 0..=i64::from(u32::MAX))? as u32)
        }
    };
    Ok((text, bias(&path.item(1), &value)?))
}

/// The API promises that −100 bans a token, whatever its logit; with llama-server `false` does, too.
fn bias(path: &JsonPath, value: &Json) -> Result<f32, Fault> {
    if *value == Json::Bool(false) {
        return Ok(f32::NEG_INFINITY);
    }
    let bias = path.number(value, -100.0..=100.0)?;
    Ok(if bias <= -100.0 {
        f32::NEG_INFINITY
    } else {
        bias as f32
    })
}
