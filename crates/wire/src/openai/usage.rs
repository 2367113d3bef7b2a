//! What an answer took, in this dialect's words.

use strata_chat::Usage;
use strata_chat::json::Json;

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
