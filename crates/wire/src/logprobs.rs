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

/// A prompt's, as vLLM writes them: for each token, by number, its own and its alternatives'. The first has none.
pub(crate) fn of_prompt(prompt: &[TokenLogprobs]) -> Json {
    let entry = |token: &TokenLogprob, rank: Option<usize>| {
        let text = String::from_utf8_lossy(&token.bytes);
        let entry = Json::object([
            ("logprob", finite(token.logprob).into()),
            ("rank", rank.map(|rank| rank + 1).into()),
            ("decoded_token", text.as_ref().into()),
        ]);
        (alloc::format!("{}", token.token), entry)
    };
    Json::array(prompt.iter().map(|token| {
        if token.chosen.logprob.is_nan() {
            return Json::Null;
        }
        let same = |other: &TokenLogprob| other.token == token.chosen.token;
        let rank = token.top.iter().position(same);
        let others = token
            .top
            .iter()
            .enumerate()
            .filter(|(_, other)| !same(other));
        let others = others.map(|(rank, other)| entry(other, Some(rank)));
        let own = core::iter::once(entry(&token.chosen, rank));
        Json::Object(own.chain(others).collect())
    }))
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
