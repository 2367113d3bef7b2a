//! `/v1/embeddings`.

use crate::answer::Reply;
use crate::base64::BASE64;
use crate::call::Call;
use crate::request_fields::{inputs, model};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use strata_chat::json::{Fields, Json};
use strata_chat::{Embed, Embeddings, Fault};

pub(super) fn open(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = model(&mut fields)?;
    let inputs = inputs::field(&mut fields, "input")?;
    let formats = [("float", false), ("base64", true)];
    let base64 = fields.maybe_word("encoding_format", &formats)?;
    let dimensions = fields.maybe_integer("dimensions", 1..=i64::from(u32::MAX))?;
    fields.ignore(&["user"]);
    fields.finish()?;
    let request = Embed {
        model,
        inputs,
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
        Box::new(move |embeddings| write(embeddings, base64)),
    ))
}

fn write(embeddings: &Embeddings, base64: bool) -> Reply {
    let vector = |row: &Vec<f32>| {
        if base64 {
            Json::String(packed(row))
        } else {
            row.clone().into()
        }
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
        ("model", embeddings.model.as_str().into()),
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
