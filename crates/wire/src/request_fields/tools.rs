//! Tools and whether they must be called, in the form of chats and in that of responses.

use super::unsupported;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{Fault, Tool, ToolChoice, Tools};

/// Where a tool's name stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Chats: inside `function`.
    Nested,
    /// Responses: beside `type`.
    Flat,
}

/// `tools`, `tool_choice` and `parallel_tool_calls`.
pub(crate) fn read(fields: &mut Fields, form: Form) -> Result<Tools, Fault> {
    let mut list = Vec::new();
    for (path, item) in fields.items("tools")? {
        let mut tool = function(path.object(item)?, form)?;
        list.push(definition(&mut tool)?);
        tool.finish()?;
    }
    let path = fields.at("tool_choice");
    let choice = match fields.take("tool_choice") {
        None => ToolChoice::Auto,
        Some(value) => choice(value, &path, form)?,
    };
    let parallel = fields.maybe_boolean("parallel_tool_calls")?;
    let tools = Tools {
        list,
        choice,
        parallel: parallel.unwrap_or(true),
    };
    tools.check(&fields.at("tools"), &path)?;
    Ok(tools)
}

/// `functions` and `function_call`, from before there were tools; `None` if they are not used.
pub(crate) fn legacy(fields: &mut Fields) -> Result<Option<Tools>, Fault> {
    let mut list = Vec::new();
    for (path, item) in fields.items("functions")? {
        let mut tool = path.object(item)?;
        list.push(definition(&mut tool)?);
        tool.finish()?;
    }
    let path = fields.at("function_call");
    let choice = match fields.take("function_call") {
        None => ToolChoice::Auto,
        Some(Json::String(word)) => self::word(&word, &path, &["none", "auto"])?,
        Some(value) => {
            let mut named = path.object(value)?;
            let choice = ToolChoice::Named(named.string("name")?);
            named.finish()?;
            choice
        }
    };
    let tools = Tools {
        list,
        choice,
        parallel: false,
    };
    tools.check(&fields.at("functions"), &path)?;
    Ok((!tools.list.is_empty()).then_some(tools))
}

/// The fields of a function: those of the object, or of `function` in it.
fn function(mut fields: Fields, form: Form) -> Result<Fields, Fault> {
    let path = fields.at("type");
    let kind = fields.string("type")?;
    if kind != "function" {
        return Err(unsupported(&path, &alloc::format!("{kind:?}")));
    }
    if form == Form::Flat {
        return Ok(fields);
    }
    let function = fields.maybe_object("function")?;
    let function = function.ok_or_else(|| fields.missing("function"))?;
    // Hints to caches of prompts, which find their prefixes by themselves here.
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    Ok(function)
}

fn definition(fields: &mut Fields) -> Result<Tool, Fault> {
    let name = fields.string("name")?;
    if name.is_empty() {
        let path = fields.at("name");
        return Err(Fault::field(&path, format_args!("must not be empty")));
    }
    let path = fields.at("parameters");
    let parameters = match fields.take("parameters") {
        None => Json::Null,
        Some(schema @ Json::Object(_)) => schema,
        Some(other) => return Err(path.expected("a JSON schema", &other)),
    };
    Ok(Tool {
        name,
        description: fields.maybe_string("description")?,
        parameters,
        strict: fields.maybe_boolean("strict")?.unwrap_or(false),
    })
}

fn choice(value: Json, path: &JsonPath, form: Form) -> Result<ToolChoice, Fault> {
    if let Json::String(text) = value {
        return word(&text, path, &["none", "auto", "required"]);
    }
    let Json::Object(_) = value else {
        return Err(path.expected("a string or an object", &value));
    };
    let mut fields = path.object(value)?;
    if fields_type(&fields) != Some("allowed_tools") {
        return Ok(ToolChoice::Named(name(fields, form)?));
    }
    fields.ignore(&["type"]);
    let allowed = match form {
        Form::Flat => fields,
        Form::Nested => {
            let inner = fields.maybe_object("allowed_tools")?;
            let inner = inner.ok_or_else(|| fields.missing("allowed_tools"))?;
            fields.finish()?;
            inner
        }
    };
    allowed_tools(allowed, form)
}

fn fields_type(fields: &Fields) -> Option<&str> {
    fields.peek("type").and_then(Json::as_str)
}

fn allowed_tools(mut fields: Fields, form: Form) -> Result<ToolChoice, Fault> {
    let mode = fields.maybe_word("mode", &[("auto", false), ("required", true)])?;
    let required = mode.ok_or_else(|| fields.missing("mode"))?;
    let mut names = Vec::new();
    for (path, item) in fields.items("tools")? {
        names.push(name(path.object(item)?, form)?);
    }
    fields.finish()?;
    Ok(ToolChoice::Allowed { names, required })
}

/// `{"type":"function", …}` that only names a tool.
fn name(fields: Fields, form: Form) -> Result<String, Fault> {
    let mut function = function(fields, form)?;
    let name = function.string("name")?;
    function.finish()?;
    Ok(name)
}

fn word(word: &str, path: &JsonPath, known: &[&str]) -> Result<ToolChoice, Fault> {
    match word {
        _ if !known.contains(&word) => Err(Fault::field(
            path,
            format_args!(
                "must be one of {}, or an object, not {word:?}",
                known.join(", ")
            ),
        )),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Ok(ToolChoice::Auto),
    }
}
