//! `timings`: how long an answer took, in llama-server's words.

use core::time::Duration;
use strata_chat::json::Json;
use strata_chat::{Timings, Usage};

/// `timings`, which clients of llama-server read.
pub(crate) fn write(usage: &Usage, timings: &Timings) -> Json {
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
