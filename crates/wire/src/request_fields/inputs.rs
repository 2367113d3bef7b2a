//! Prompts in all their forms: a text, tokens, both mixed, or several of them.

use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{Fault, PromptPart};

/// Prompts or texts in one request at most, as in OpenAI's API.
pub(crate) const MAX_INPUTS: usize = 2048;

/// The prompts of a field that must be there.
pub(crate) fn field(fields: &mut Fields, name: &str) -> Result<Vec<Vec<PromptPart>>, Fault> {
    let path = fields.at(name);
    let value = fields.take(name).ok_or_else(|| fields.missing(name))?;
    read(value, &path)
}

/// A prompt or several. A list that has a number in it is one prompt; any other list has a prompt in each item.
pub(crate) fn read(value: Json, path: &JsonPath) -> Result<Vec<Vec<PromptPart>>, Fault> {
    let items = match value {
        Json::Array(items) => items,
        other => return Ok([one(other, path)?].into()),
    };
    if items.is_empty() {
        return Err(Fault::field(path, format_args!("must not be empty")));
    }
    let number = |item: &Json| matches!(item, Json::Int(_) | Json::Large(_) | Json::Float(_));
    if items.iter().any(number) {
        return Ok([mixed(items, path)?].into());
    }
    if items.len() > MAX_INPUTS {
        let problem = format_args!("must have at most {MAX_INPUTS} prompts");
        return Err(Fault::field(path, problem));
    }
    let numbered = items.into_iter().enumerate();
    numbered.map(|(i, item)| one(item, &path.item(i))).collect()
}

fn one(value: Json, path: &JsonPath) -> Result<Vec<PromptPart>, Fault> {
    match value {
        Json::String(text) => Ok([PromptPart::Text(text)].into()),
        Json::Array(items) if items.is_empty() => {
            Err(Fault::field(path, format_args!("must not be empty")))
        }
        Json::Array(items) => mixed(items, path),
        Json::Object(_) => {
            let mut fields = path.object(value)?;
            if fields.peek("content").is_some() {
                return content(fields);
            }
            let text = fields.string("prompt_string")?;
            if !fields.items("multimodal_data")?.is_empty() {
                let path = fields.at("multimodal_data");
                return Err(Fault::field(&path, format_args!("is not supported")));
            }
            fields.finish()?;
            Ok([PromptPart::Text(text)].into())
        }
        other => Err(path.expected(
            "a string, an array of tokens and strings, or an object",
            &other,
        )),
    }
}

/// Text in the parts that a message's content has.
fn content(mut fields: Fields) -> Result<Vec<PromptPart>, Fault> {
    let mut text = String::new();
    for (path, item) in fields.items("content")? {
        let mut part = path.object(item)?;
        part.maybe_word("type", &[("text", ())])?;
        text.push_str(&part.string("text")?);
        part.finish()?;
    }
    fields.finish()?;
    Ok([PromptPart::Text(text)].into())
}

fn mixed(items: Vec<Json>, path: &JsonPath) -> Result<Vec<PromptPart>, Fault> {
    let mut pieces = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        let token = match item {
            Json::String(text) => {
                pieces.push(PromptPart::Text(text));
                continue;
            }
            number => path.item(i).integer(&number, 0..=i64::from(u32::MAX))? as u32,
        };
        match pieces.last_mut() {
            Some(PromptPart::Tokens(tokens)) => tokens.push(token),
            _ => pieces.push(PromptPart::Tokens([token].into())),
        }
    }
    Ok(pieces)
}

/// A list of tokens.
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

/// The texts of a prompt.
pub(crate) fn text(pieces: &[PromptPart]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        PromptPart::Text(text) => text.as_str(),
        PromptPart::Tokens(_) => "",
    });
    texts.collect()
}
