//! Prompts in all their forms: a text, tokens, both mixed, or several of them.

use crate::fault::Fault;
use crate::json::{Json, Place};
use crate::lang::Piece;
use crate::openai::embeddings::MAX_INPUTS;
use alloc::string::String;
use alloc::vec::Vec;

/// A prompt or several. A list that has a number in it is one prompt; any other list has a prompt in each item.
pub(super) fn read(value: Json, place: &Place) -> Result<Vec<Vec<Piece>>, Fault> {
    let items = match value {
        Json::Array(items) => items,
        other => return Ok([one(other, place)?].into()),
    };
    if items.is_empty() {
        return Err(Fault::field(place, format_args!("must not be empty")));
    }
    let number = |item: &Json| matches!(item, Json::Int(_) | Json::Large(_) | Json::Float(_));
    if items.iter().any(number) {
        return Ok([mixed(items, place)?].into());
    }
    if items.len() > MAX_INPUTS {
        let problem = format_args!("must have at most {MAX_INPUTS} prompts");
        return Err(Fault::field(place, problem));
    }
    let numbered = items.into_iter().enumerate();
    numbered
        .map(|(i, item)| one(item, &place.item(i)))
        .collect()
}

fn one(value: Json, place: &Place) -> Result<Vec<Piece>, Fault> {
    match value {
        Json::String(text) => Ok([Piece::Text(text)].into()),
        Json::Array(items) if items.is_empty() => {
            Err(Fault::field(place, format_args!("must not be empty")))
        }
        Json::Array(items) => mixed(items, place),
        Json::Object(_) => {
            let mut fields = place.object(value)?;
            let text = fields.string("prompt_string")?;
            if !fields.items("multimodal_data")?.is_empty() {
                let place = fields.at("multimodal_data");
                return Err(Fault::field(&place, format_args!("is not supported")));
            }
            fields.finish()?;
            Ok([Piece::Text(text)].into())
        }
        other => Err(place.expected(
            "a string, an array of tokens and strings, or an object",
            &other,
        )),
    }
}

fn mixed(items: Vec<Json>, place: &Place) -> Result<Vec<Piece>, Fault> {
    let mut pieces = Vec::new();
    for (i, item) in items.into_iter().enumerate() {
        let token = match item {
            Json::String(text) => {
                pieces.push(Piece::Text(text));
                continue;
            }
            number => place.item(i).integer(&number, 0..=i64::from(u32::MAX))? as u32,
        };
        match pieces.last_mut() {
            Some(Piece::Tokens(tokens)) => tokens.push(token),
            _ => pieces.push(Piece::Tokens([token].into())),
        }
    }
    Ok(pieces)
}

/// The texts of a prompt.
pub(super) fn text(pieces: &[Piece]) -> String {
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => text.as_str(),
        Piece::Tokens(_) => "",
    });
    texts.collect()
}
