//! What an answer took, in this dialect's words.

use core::time::Duration;
use strata_chat::json::Json;
use strata_chat::{Timings, Usage};

/// `usage` of chats and completions.
pub(super) fn usage(usage: &Usage) -> Json {
    let total = usage.prompt_tokens.saturating_add(usage.generated_tokens);
    let rejected = usage.drafted_tokens.saturating_sub(usage.accepted_tokens);
    Json::object([
        ("prompt_tokens", usage.prompt_tokens.into()),
        ("completion_tokens", usage.generated_tokens.into()),
        ("total_tokens", total.into()),
        (
            "prompt_tokens_details",
            Json::object([("cached_tokens", usage.cached_tokens.into())]),
        ),
        (
            "completion_tokens_details",
            Json::object([
                ("reasoning_tokens", usage.thinking_tokens.into()),
                ("accepted_prediction_tokens", usage.accepted_tokens.into()),
                ("rejected_prediction_tokens", rejected.into()),
            ]),
        ),
    ])
}

/// `timings`, which clients of llama-server read.
pub(crate) fn timings(usage: &Usage, timings: &Timings) -> Json {
    let computed = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
    let mut object = Json::object([("cache_n", usage.cached_tokens.into())]);
    for (name, tokens, time) in [
        ("prompt", computed, timings.prompt),
        ("predicted", usage.generated_tokens, timings.generate),
    ] {
        let per = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let count = tokens as f64;
        let milliseconds = time.as_secs_f64() * 1e3;
        let key = |what: &str| alloc::format!("{name}_{what}");
        object.push(&key("n"), tokens);
        object.push(&key("ms"), milliseconds);
        object.push(&key("per_token_ms"), per(milliseconds, count));
        object.push(&key("per_second"), per(count, time.as_secs_f64()));
    }
    if timings.load > Duration::ZERO {
        object.push("load_ms", timings.load.as_secs_f64() * 1e3);
    }
    object
}
