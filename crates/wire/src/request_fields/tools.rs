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
    let (tools, custom) = read_with_custom(fields, form)?;
    match custom.first() {
        None => Ok(tools),
        Some(_) => Err(unsupported(&fields.at("tools"), "\"custom\"")),
    }
}

/// The same, with the names of the tools that take free text: their arguments are an object with the text as `input`.
pub(crate) fn read_with_custom(
    fields: &mut Fields,
    form: Form,
) -> Result<(Tools, Vec<String>), Fault> {
    let (mut list, mut custom) = (Vec::new(), Vec::new());
    for (path, item) in fields.items("tools")? {
        let (mut tool, kind) = inner(path.object(item)?, form)?;
        list.push(match kind {
            ToolKind::Function => definition(&mut tool)?,
            ToolKind::Custom => custom_definition(&mut tool, form)?,
        });
        if kind == ToolKind::Custom {
            custom.extend(list.last().map(|tool: &Tool| tool.name.clone()));
        }
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
    Ok((tools, custom))
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

/// What a tool takes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ToolKind {
    /// Arguments.
    Function,
    /// Free text.
    Custom,
}

/// The fields of a tool: those of the object, or of the one in it that its type names.
fn inner(mut fields: Fields, form: Form) -> Result<(Fields, ToolKind), Fault> {
    let path = fields.at("type");
    let name = fields.string("type")?;
    let kind = match name.as_str() {
        "function" => ToolKind::Function,
        "custom" => ToolKind::Custom,
        _ => return Err(unsupported(&path, &alloc::format!("{name:?}"))),
    };
    if form == Form::Flat {
        return Ok((fields, kind));
    }
    let tool = fields.maybe_object(&name)?;
    let tool = tool.ok_or_else(|| fields.missing(&name))?;
    // Hints to caches of prompts, which find their prefixes by themselves here.
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    Ok((tool, kind))
}

/// A tool that takes free text, as one that takes an object with the text in it.
fn custom_definition(fields: &mut Fields, form: Form) -> Result<Tool, Fault> {
    let mut input = Json::object([("type", "string".into())]);
    if let Some(mut format) = fields.maybe_object("format")? {
        let kinds = [("text", false), ("grammar", true)];
        if format.maybe_word("type", &kinds)? == Some(true) {
            let mut grammar = match form {
                Form::Flat => format,
                Form::Nested => {
                    let grammar = format.maybe_object("grammar")?;
                    grammar.ok_or_else(|| format.missing("grammar"))?
                }
            };
            if grammar.string("syntax")? != "regex" {
                let problem = format_args!("must be \"regex\": other grammars are not supported");
                return Err(Fault::field(&grammar.at("syntax"), problem));
            }
            input.push(
                "pattern",
                alloc::format!("^(?:{})$", grammar.string("definition")?),
            );
            grammar.finish()?;
        } else {
            format.finish()?;
        }
    }
    let parameters = Json::object([
        ("type", "object".into()),
        ("properties", Json::object([("input", input)])),
        ("required", Json::array(["input".into()])),
        ("additionalProperties", false.into()),
    ]);
    Ok(Tool {
        parameters,
        ..definition(fields)?
    })
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

/// `{"type":"function", …}` or `{"type":"custom", …}` that only names a tool.
fn name(fields: Fields, form: Form) -> Result<String, Fault> {
    let (mut tool, _) = inner(fields, form)?;
    let name = tool.string("name")?;
    tool.finish()?;
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
