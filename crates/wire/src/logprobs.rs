//! Log-probabilities of tokens: how many are asked for, and how they are written.

use alloc::string::String;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, TokenLogprob, TokenLogprobs};

/// `logprobs` and `top_logprobs`: how many of the likeliest tokens are told, if any are.
pub(crate) fn read(fields: &mut Fields) -> Result<Option<usize>, Fault> {
    let wanted = fields.maybe_boolean("logprobs")?.unwrap_or(false);
    let top = fields.maybe_integer("top_logprobs", 0..=20)?;
    match (wanted, top) {
        (true, top) => Ok(Some(top.unwrap_or(0) as usize)),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(Fault::field(
            &fields.at("top_logprobs"),
            format_args!("needs logprobs to be true"),
        )),
    }
}

/// A token's own and its alternatives'.
pub(crate) fn token_logprob(token: &TokenLogprobs) -> Json {
    let top = token.top.iter().map(one);
    one(&token.chosen).with("top_logprobs", Json::array(top))
}

/// Minus infinity has no form in JSON; the API writes -9999 for what cannot be. No number at all becomes `null`.
pub(crate) fn finite(logprob: f32) -> f32 {
    if logprob < -9999.0 { -9999.0 } else { logprob }
}

fn one(token: &TokenLogprob) -> Json {
    let bytes = token.bytes.iter().map(|&byte| Json::from(u32::from(byte)));
    Json::object([
        (
            "token",
            String::from_utf8_lossy(&token.bytes).as_ref().into(),
        ),
        ("logprob", finite(token.logprob).into()),
        ("bytes", Json::array(bytes)),
    ])
}
