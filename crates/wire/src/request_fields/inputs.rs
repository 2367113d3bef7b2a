//! Texts and tokens to embed or to continue.

use alloc::vec::Vec;
use strata_chat::json::{Json, JsonPath};
use strata_chat::{Fault, PromptPart};

/// Texts in one request at most, as in the API.
pub(crate) const MAX_INPUTS: usize = 2048;

/// A text, texts, tokens, or lists of tokens.
pub(crate) fn inputs(input: Json, path: &JsonPath) -> Result<Vec<PromptPart>, Fault> {
    let items = match input {
        Json::String(text) => return Ok([PromptPart::Text(text)].into()),
        Json::Array(items) => items,
        other => return Err(path.expected("a string or an array", &other)),
    };
    let inputs = match items.first() {
        None => return Err(Fault::field(path, format_args!("must not be empty"))),
        Some(Json::String(_)) => {
            let texts = path.strings(Json::Array(items))?;
            texts.into_iter().map(PromptPart::Text).collect()
        }
        Some(Json::Array(_)) => path
            .list(Json::Array(items))?
            .map(|(path, item)| Ok(PromptPart::Tokens(tokens(item, &path)?)))
            .collect::<Result<Vec<_>, Fault>>()?,
        Some(_) => [PromptPart::Tokens(tokens(Json::Array(items), path)?)].into(),
    };
    if inputs.len() > MAX_INPUTS {
        let problem = format_args!("must have at most {MAX_INPUTS} texts");
        return Err(Fault::field(path, problem));
    }
    Ok(inputs)
}

pub(crate) fn tokens(list: Json, path: &JsonPath) -> Result<Vec<u32>, Fault> {
    let tokens = path
        .list(list)?
        .map(|(path, item)| Ok(path.integer(&item, 0..=i64::from(u32::MAX))? as u32))
        .collect::<Result<Vec<_>, Fault>>()?;
    if tokens.is_empty() {
        Err(Fault::field(path, format_args!("must not be empty")))
    } else {
        Ok(tokens)
    }
}
