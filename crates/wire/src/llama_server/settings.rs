//! `generation_settings`: how a request asked for its tokens to be chosen.

use super::samplers;
use strata_chat::json::Json;
use strata_chat::{Format, Generate, Sampling, TokenOrText};

/// What llama-server takes and writes for "a new seed each time", besides −1.
pub(super) const ANY_SEED: u64 = u32::MAX as u64;

/// What a request says. What it leaves to the model is not there: only the model knows it.
pub(super) fn write(request: &Generate) -> Json {
    let mut settings = Json::object([
        (
            "n_predict",
            request.max_tokens.map_or(Json::Int(-1), Json::from),
        ),
        ("stream", request.stream.into()),
        ("n_probs", request.logprobs.unwrap_or(0).into()),
        ("ignore_eos", request.ignore_end.into()),
        ("stop", request.stop.clone().into()),
        ("samplers", Json::array(samplers::names().map(Json::from))),
    ]);
    if let Format::Gbnf(grammar) = &request.format {
        settings.push("grammar", grammar.as_str());
    }
    sampling(&request.sampling, &mut settings);
    if request.sampling.seed.is_none() {
        settings.push("seed", ANY_SEED);
    }
    settings
}

/// Adds the knobs that are set.
pub(super) fn sampling(sampling: &Sampling, settings: &mut Json) {
    let s = sampling;
    let floats = [
        ("temperature", s.temperature),
        ("top_p", s.top_p),
        ("min_p", s.min_p),
        ("typical_p", s.typical_p),
        ("top_n_sigma", s.top_n_sigma),
        ("repeat_penalty", s.repeat_penalty),
        ("frequency_penalty", s.frequency_penalty),
        ("presence_penalty", s.presence_penalty),
        ("dynatemp_range", s.dynatemp_range),
        ("dynatemp_exponent", s.dynatemp_exponent),
        ("dry_multiplier", s.dry_multiplier),
        ("dry_base", s.dry_base),
        ("xtc_probability", s.xtc_probability),
        ("xtc_threshold", s.xtc_threshold),
        ("mirostat_tau", s.mirostat_tau),
        ("mirostat_eta", s.mirostat_eta),
    ];
    let whole = [
        ("top_k", s.top_k.map(i64::from)),
        ("min_keep", s.min_keep.map(i64::from)),
        ("repeat_last_n", s.repeat_last_n.map(i64::from)),
        ("dry_allowed_length", s.dry_allowed_length.map(i64::from)),
        ("dry_penalty_last_n", s.dry_penalty_last_n.map(i64::from)),
        ("mirostat", s.mirostat.map(i64::from)),
    ];
    let floats = floats
        .into_iter()
        .map(|(name, value)| (name, value.map(Json::from)));
    let whole = whole
        .into_iter()
        .map(|(name, value)| (name, value.map(Json::from)));
    let seed = [("seed", s.seed.map(Json::from))];
    for (name, value) in seed.into_iter().chain(floats).chain(whole) {
        if let Some(value) = value {
            settings.push(name, value);
        }
    }
    if let Some(breakers) = &s.dry_sequence_breakers {
        settings.push("dry_sequence_breakers", breakers.clone());
    }
    let biases = s.logit_bias.iter().map(|(text, bias)| {
        let token = match text {
            TokenOrText::Token(token) => Json::from(*token),
            TokenOrText::Text(text) => text.as_str().into(),
        };
        // Infinity, for a token that cannot be, has no form in JSON.
        let bias = bias.is_finite().then_some(*bias);
        Json::object([("bias", bias.into()), ("token", token)])
    });
    settings.push("logit_bias", Json::array(biases));
}
