//! What an answer must look like: `response_format`, `text.format`, and the grammars of llama-server and vLLM.

use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{Fault, Format};

/// All fields of a chat or completion that constrain the answer; at most one of them may.
pub(crate) fn read(fields: &mut Fields) -> Result<Format, Fault> {
    let mut found = Vec::new();
    let path = fields.at("response_format");
    if let Some(value) = fields.take("response_format") {
        found.push(("response_format", format(path.object(value)?)?));
    }
    if let Some(text) = fields
        .maybe_string("grammar")?
        .filter(|text| !text.is_empty())
    {
        found.push(("grammar", Format::Gbnf(text)));
    }
    for name in ["json_schema", "guided_json"] {
        let path = fields.at(name);
        if let Some(value) = fields.take(name) {
            found.push((name, Format::JsonSchema(schema(value, &path)?)));
        }
    }
    if let Some(text) = fields.maybe_string("guided_regex")? {
        found.push(("guided_regex", Format::Regex(text)));
    }
    if let Some(text) = fields.maybe_string("guided_grammar")? {
        found.push(("guided_grammar", grammar(text)));
    }
    // Which library enforces it is this server's affair.
    fields.ignore(&["guided_decoding_backend"]);
    if let Some(value) = fields.take("guided_choice") {
        let texts = fields.at("guided_choice").strings(value)?;
        found.push(("guided_choice", Format::Choice(texts)));
    }
    if let Some(outputs) = fields.maybe_object("structured_outputs")? {
        found.push(("structured_outputs", structured(outputs)?));
    }
    found.retain(|(_, format)| *format != Format::Text);
    match found.len() {
        0 => Ok(Format::Text),
        1 => Ok(found.remove(0).1),
        _ => Err(Fault::field(
            &fields.at(found[1].0),
            format_args!("cannot be combined with {}", found[0].0),
        )),
    }
}

/// `{"type": …}`, with the schema inside `json_schema` as in chats or beside it as in responses.
pub(crate) fn format(mut fields: Fields) -> Result<Format, Fault> {
    #[derive(Copy, Clone)]
    enum Kind {
        Text,
        Object,
        Schema,
    }
    let kinds = [
        ("text", Kind::Text),
        ("json_object", Kind::Object),
        ("json_schema", Kind::Schema),
    ];
    let kind = fields.maybe_word("type", &kinds)?;
    let format = match kind.ok_or_else(|| fields.missing("type"))? {
        Kind::Text => Format::Text,
        // llama-server takes a schema here too.
        Kind::Object => match fields.take("schema") {
            None => Format::JsonObject,
            Some(value) => Format::JsonSchema(schema(value, &fields.at("schema"))?),
        },
        Kind::Schema => match fields.maybe_object("json_schema")? {
            Some(mut inner) => {
                let format = named_schema(&mut inner)?;
                inner.finish()?;
                format
            }
            None => named_schema(&mut fields)?,
        },
    };
    fields.finish()?;
    Ok(format)
}

/// vLLM's newer form: one object for all ways.
fn structured(mut fields: Fields) -> Result<Format, Fault> {
    let mut found = Vec::new();
    let path = fields.at("json");
    if let Some(value) = fields.take("json") {
        found.push(Format::JsonSchema(schema(value, &path)?));
    }
    if fields.maybe_boolean("json_object")? == Some(true) {
        found.push(Format::JsonObject);
    }
    found.extend(fields.maybe_string("regex")?.map(Format::Regex));
    if let Some(value) = fields.take("choice") {
        found.push(Format::Choice(fields.at("choice").strings(value)?));
    }
    found.extend(fields.maybe_string("grammar")?.map(grammar));
    let path = fields.path().clone();
    fields.ignore(&["_backend", "disable_fallback"]);
    fields.finish()?;
    match found.len() {
        0 | 1 => Ok(found.pop().unwrap_or_default()),
        _ => Err(Fault::field(&path, format_args!("must have one form"))),
    }
}

/// A grammar in either of the notations that vLLM takes.
fn grammar(text: String) -> Format {
    if text.contains("::=") {
        Format::Gbnf(text)
    } else {
        Format::Lark(text)
    }
}

/// The schema, whose name and description change nothing about the answer. It is followed whether `strict` or not.
fn named_schema(fields: &mut Fields) -> Result<Format, Fault> {
    fields.maybe_string("name")?;
    fields.maybe_string("description")?;
    fields.maybe_boolean("strict")?;
    let value = fields.take("schema");
    let value = value.ok_or_else(|| fields.missing("schema"))?;
    Ok(Format::JsonSchema(schema(value, &fields.at("schema"))?))
}

pub(crate) fn schema(value: Json, path: &JsonPath) -> Result<Json, Fault> {
    match value {
        schema @ (Json::Object(_) | Json::Bool(_)) => Ok(schema),
        other => Err(path.expected("a JSON schema", &other)),
    }
}
