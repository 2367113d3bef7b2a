//! `/tokenize`, `/detokenize` and `/apply-template`.

use crate::answer::Reply;
use crate::call::Call;
use crate::request_fields::chat;
use alloc::boxed::Box;
use strata_chat::json::{Fields, Json};
use strata_chat::{Detokenize, Fault, TokenPiece, Tokenize};

pub(super) fn tokenize(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let request = Tokenize {
        model: fields.maybe_string("model")?,
        text: fields.string("content")?,
        add_special: fields.maybe_boolean("add_special")?.unwrap_or(false),
        parse_special: fields.maybe_boolean("parse_special")?.unwrap_or(true),
    };
    let with_pieces = fields.maybe_boolean("with_pieces")?.unwrap_or(false);
    fields.finish()?;
    let token = move |piece: &TokenPiece| {
        if with_pieces {
            Json::object([("id", piece.token.into()), ("piece", spelt(&piece.bytes))])
        } else {
            piece.token.into()
        }
    };
    Ok(Call::Tokenize(
        request,
        Box::new(move |pieces| {
            let tokens = Json::array(pieces.iter().map(token));
            Reply::json(&Json::object([("tokens", tokens)]))
        }),
    ))
}

/// A text, or its bytes where they are only a piece of a character.
fn spelt(bytes: &[u8]) -> Json {
    match core::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => Json::array(bytes.iter().map(|&byte| u32::from(byte).into())),
    }
}

pub(super) fn detokenize(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = fields.maybe_string("model")?;
    let path = fields.at("tokens");
    let list = fields.take("tokens");
    let list = list.ok_or_else(|| fields.missing("tokens"))?;
    let tokens = path
        .list(list)?
        .map(|(path, item)| Ok(path.integer(&item, 0..=i64::from(u32::MAX))? as u32))
        .collect::<Result<_, Fault>>()?;
    fields.finish()?;
    Ok(Call::Detokenize(
        Detokenize { model, tokens },
        Box::new(|text| Reply::json(&Json::object([("content", text.as_str().into())]))),
    ))
}

/// The prompt that a chat would give the model.
pub(super) fn apply_template(body: &[u8]) -> Result<Call, Fault> {
    let (request, _) = chat::read(body)?;
    Ok(Call::Render(
        Box::new(request),
        Box::new(|rendered| {
            let prompt = rendered.text.as_str().into();
            Reply::json(&Json::object([("prompt", prompt)]))
        }),
    ))
}
