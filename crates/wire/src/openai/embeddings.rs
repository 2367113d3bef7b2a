//! `/v1/embeddings`.

use crate::answer::Reply;
use crate::base64::BASE64;
use crate::call::Call;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{Embed, Embeddings, Fault, PromptPart};

/// Texts in one request at most, as in the API.
pub(crate) const MAX_INPUTS: usize = 2048;

pub(super) fn open(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = super::model(&mut fields)?;
    let path = fields.at("input");
    let input = fields
        .take("input")
        .ok_or_else(|| fields.missing("input"))?;
    let inputs = inputs(input, &path)?;
    let formats = [("float", false), ("base64", true)];
    let base64 = fields.maybe_word("encoding_format", &formats)?;
    let dimensions = fields.maybe_integer("dimensions", 1..=i64::from(u32::MAX))?;
    fields.ignore(&["user"]);
    fields.finish()?;
    let request = Embed {
        model: model.clone(),
        inputs: inputs.into_iter().map(|piece| [piece].into()).collect(),
        dimensions: dimensions.map(|number| number as usize),
        pooling: None,
        normalize: true,
        truncate: false,
        keep_alive: None,
        context: None,
    };
    let base64 = base64.unwrap_or(false);
    Ok(Call::Embed(
        request,
        Box::new(move |embeddings| write(embeddings, &model, base64)),
    ))
}

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
    match tokens.is_empty() {
        true => Err(Fault::field(path, format_args!("must not be empty"))),
        false => Ok(tokens),
    }
}

fn write(embeddings: &Embeddings, model: &str, base64: bool) -> Reply {
    let vector = |row: &Vec<f32>| match base64 {
        true => Json::String(packed(row)),
        false => row.clone().into(),
    };
    let data = embeddings.rows.iter().enumerate().map(|(index, rows)| {
        let embedding = match rows.as_slice() {
            [row] => vector(row),
            // A model that pools nothing has a row for each token, as with llama-server.
            rows => Json::array(rows.iter().map(vector)),
        };
        Json::object([
            ("object", "embedding".into()),
            ("index", index.into()),
            ("embedding", embedding),
        ])
    });
    Reply::json(&Json::object([
        ("object", "list".into()),
        ("data", Json::array(data)),
        ("model", model.into()),
        (
            "usage",
            Json::object([
                ("prompt_tokens", embeddings.tokens.into()),
                ("total_tokens", embeddings.tokens.into()),
            ]),
        ),
    ]))
}

/// The bytes of the numbers, the lowest first, in base64.
fn packed(row: &[f32]) -> String {
    let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
    BASE64.encode(bytes)
}
