//! `/embedding`: rows for each text, in a plain list.

use crate::answer::Reply;
use crate::call::Call;
use crate::request_fields::inputs;
use alloc::boxed::Box;
use strata_chat::json::{Fields, Json};
use strata_chat::{Embed, Embeddings, Fault};

pub(super) fn open(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = fields.maybe_string("model")?.unwrap_or_default();
    let name = match fields.peek("content") {
        Some(_) => "content",
        None => "input",
    };
    let inputs = inputs::field(&mut fields, name)?;
    fields.maybe_word("encoding_format", &[("float", ())])?;
    // The numbers are those of llama.cpp: −1 is as it is, 2 is length one; the others it has are seldom used.
    let normalize = match fields.maybe_integer("embd_normalize", -1..=i64::MAX)? {
        None | Some(2) => true,
        Some(-1) => false,
        Some(_) => {
            let problem = format_args!("must be -1, for none, or 2, for length one");
            return Err(Fault::field(&fields.at("embd_normalize"), problem));
        }
    };
    fields.finish()?;
    let request = Embed {
        model,
        inputs,
        dimensions: None,
        pooling: None,
        normalize,
        truncate: false,
        keep_alive: None,
        context: None,
    };
    Ok(Call::Embed(request, Box::new(write)))
}

fn write(embeddings: &Embeddings) -> Reply {
    let rows = embeddings.rows.iter().enumerate();
    Reply::json(&Json::array(rows.map(|(index, rows)| {
        Json::object([("index", index.into()), ("embedding", rows.clone().into())])
    })))
}
