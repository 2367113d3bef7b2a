//! `/api/embed`, and `/api/embeddings` from before it.

use super::write::nanoseconds;
use super::{model, options};
use crate::answer::Reply;
use crate::call::{Call, Load};
use crate::request_fields::inputs::MAX_INPUTS;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{Embed, Embeddings, Fault, PromptPart, Timings};

pub(super) fn open(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = model(&mut fields)?;
    let path = fields.at("input");
    let input = fields.take("input");
    let input = input.ok_or_else(|| fields.missing("input"))?;
    let texts = texts(input, &path)?;
    let dimensions = fields.maybe_integer("dimensions", 1..=i64::from(u32::MAX))?;
    let mut request = request(&mut fields, model, texts)?;
    request.dimensions = dimensions.map(|number| number as usize);
    // What the API promises where nothing is said.
    request.truncate = fields.maybe_boolean("truncate")?.unwrap_or(true);
    fields.finish()?;
    let name = request.model.clone();
    if request.inputs.is_empty() {
        return Ok(load(request, move |timings| {
            let embeddings = Embeddings {
                timings: *timings,
                ..Embeddings::default()
            };
            write(&embeddings, &name)
        }));
    }
    Ok(Call::Embed(
        request,
        Box::new(move |embeddings| write(embeddings, &name)),
    ))
}

/// One text, whose embedding keeps its length.
pub(super) fn legacy(body: &[u8]) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = model(&mut fields)?;
    let text = fields.maybe_string("prompt")?.unwrap_or_default();
    let texts = if text.is_empty() {
        Vec::new()
    } else {
        [text].into()
    };
    let mut request = request(&mut fields, model, texts)?;
    request.normalize = false;
    fields.finish()?;
    let reply = |row: Json| Reply::json(&Json::object([("embedding", row)]));
    if request.inputs.is_empty() {
        return Ok(load(request, move |_| reply(Json::Array(Vec::new()))));
    }
    Ok(Call::Embed(
        request,
        Box::new(move |embeddings| reply(embeddings.rows.first().map_or(Json::Null, row))),
    ))
}

/// Nothing to embed only brings the model into memory.
fn load(request: Embed, write: impl FnOnce(&Timings) -> Reply + Send + 'static) -> Call {
    let load = Load {
        model: request.model,
        keep_alive: request.keep_alive,
        context: request.context,
    };
    Call::Load(load, Box::new(write))
}

fn request(fields: &mut Fields, model: String, texts: Vec<String>) -> Result<Embed, Fault> {
    let inputs = texts
        .into_iter()
        .map(|text| [PromptPart::Text(text)].into());
    Ok(Embed {
        model,
        inputs: inputs.collect(),
        dimensions: None,
        pooling: None,
        normalize: true,
        truncate: false,
        keep_alive: options::keep_alive(fields)?,
        context: options::embed_context(fields)?,
    })
}

fn texts(input: Json, path: &JsonPath) -> Result<Vec<String>, Fault> {
    let texts = match input {
        Json::String(text) if text.is_empty() => Vec::new(),
        Json::String(text) => [text].into(),
        list @ Json::Array(_) => path.strings(list)?,
        other => return Err(path.expected("a string or an array of strings", &other)),
    };
    if texts.len() > MAX_INPUTS {
        let problem = format_args!("must have at most {MAX_INPUTS} texts");
        return Err(Fault::field(path, problem));
    }
    Ok(texts)
}

fn write(embeddings: &Embeddings, model: &str) -> Reply {
    let timings = &embeddings.timings;
    Reply::json(&Json::object([
        ("model", model.into()),
        ("embeddings", Json::array(embeddings.rows.iter().map(row))),
        ("total_duration", nanoseconds(timings.total).into()),
        ("load_duration", nanoseconds(timings.load).into()),
        ("prompt_eval_count", embeddings.tokens.into()),
    ]))
}

/// A model that pools nothing has a row for each token.
fn row(rows: &Vec<Vec<f32>>) -> Json {
    match rows.as_slice() {
        [row] => row.clone().into(),
        rows => rows.to_vec().into(),
    }
}
