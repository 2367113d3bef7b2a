//! Reading what stands between the marks of a call.

use super::schemas::ArgumentSchemas;
use super::{loose, markup};
use crate::json::Json;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How calls are written between their marks.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Block {
    /// `{"name": …, "arguments": …}`, one, several or a list of them.
    Json,
    /// The name, this separator, the arguments' JSON; or as [`Block::Json`].
    NameThenJson(&'static str),
    /// `<function=name><parameter=key>value</parameter></function>`.
    Parameters,
    /// The same after `<function=`.
    OpenParameters,
    /// `name<arg_key>key</arg_key><arg_value>value</arg_value>`, with this after the name of each tag.
    KeysAndValues(&'static str),
    /// The same in a list of `<tool_call>`, with `<tool_sep>` after the name.
    ListedKeysAndValues(&'static str),
    /// `<invoke name="…"><parameter name="key">value</parameter></invoke>`, with this before the name of each tag.
    Invocations(&'static str),
    /// `"name"><param name="key">value</param>`.
    Function,
    /// `<invoke name="…"><key>value</key></invoke>`, with this before each tag.
    Elements(&'static str),
    /// DeepSeek's inner marks around a name and JSON, fenced or not.
    DeepSeek,
    /// Kimi's inner marks around `functions.name:0` and JSON.
    Kimi,
    /// Solar's inner marks around an id, the name and JSON.
    Solar,
    /// `[name(key=value)]`, or as [`Block::Json`].
    Python,
    /// `name(key=value)` on a line each.
    PythonLines,
    /// `call:name{key:value}`.
    Gemma,
    /// `[{"name": {…}}]`.
    NamedObjects,
}

/// What stands around each of DeepSeek's calls.
pub(crate) const DEEPSEEK_CALL: (&str, &str) = ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>");
/// What stands around each of Kimi's calls.
pub(crate) const KIMI_CALL: (&str, &str) = ("<|tool_call_begin|>", "<|tool_call_end|>");
/// What stands around each of Solar's calls.
pub(crate) const SOLAR_CALL: (&str, &str) = ("<|tool_call:begin|>", "<|tool_call:end|>");
/// What may stand before arguments, with as many backticks after them.
pub(crate) const FENCE: &str = "```json";

/// A tool's name with its arguments.
pub(crate) type Named = (String, Json);

impl Block {
    /// The calls in a block; `None` if it is not what it should be.
    pub(crate) fn read(self, text: &str, schemas: &ArgumentSchemas) -> Option<Vec<Named>> {
        match self {
            Self::Json => json(text),
            Self::NameThenJson(separator) => match json(text) {
                Some(calls) => Some(calls),
                None => name_then_json(text, separator).map(|call| [call].into()),
            },
            Self::Parameters => {
                let calls = text.split("<function=").skip(1);
                calls
                    .map(|call| parameters(call, schemas))
                    .collect::<Option<Vec<_>>>()
                    .filter(|calls| !calls.is_empty())
            }
            Self::OpenParameters => parameters(text, schemas).map(|call| [call].into()),
            Self::KeysAndValues(suffix) => {
                keys_and_values(text, suffix, schemas).map(|call| [call].into())
            }
            Self::ListedKeysAndValues(suffix) => listed_keys_and_values(text, suffix, schemas),
            Self::Invocations(prefix) => markup::invocations(text, prefix, schemas),
            Self::Function => markup::function(text, schemas),
            Self::Elements(mark) => markup::elements(text, mark, schemas),
            Self::DeepSeek => between(text, DEEPSEEK_CALL).map(deep_seek).collect(),
            Self::Kimi => between(text, KIMI_CALL).map(kimi).collect(),
            Self::Solar => between(text, SOLAR_CALL).map(solar).collect(),
            Self::PythonLines => loose::python_lines(text),
            Self::Python => loose::python(text).or_else(|| json(text)),
            Self::Gemma => loose::gemma(text),
            Self::NamedObjects => named_objects(text),
        }
    }
}

/// One call, a list of calls, or calls after one another.
pub(crate) fn json(text: &str) -> Option<Vec<Named>> {
    let text = text.trim();
    if let Ok(value) = Json::parse(text.as_bytes()) {
        return match value {
            Json::Array(items) if !items.is_empty() => items.into_iter().map(call).collect(),
            value => {
                let list = value.get("tool_calls").and_then(Json::as_array);
                match list {
                    Some(items) => items.iter().cloned().map(call).collect(),
                    None => Some([call(value)?].into()),
                }
            }
        };
    }
    let parts = text
        .split([';', '\n'])
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let calls: Option<Vec<_>> = parts
        .map(|part| call(Json::parse(part.as_bytes()).ok()?))
        .collect();
    calls.filter(|calls| !calls.is_empty())
}

/// A list of objects, each with a tool's name as its only key.
fn named_objects(text: &str) -> Option<Vec<Named>> {
    let list = Json::parse(text.trim().as_bytes()).ok()?;
    let calls = list.as_array()?.iter().map(|item| match item.as_object()? {
        [(name, arguments @ Json::Object(_))] => Some((name.clone(), arguments.clone())),
        _ => None,
    });
    let calls: Option<Vec<_>> = calls.collect();
    calls.filter(|calls| !calls.is_empty())
}

/// An object with a name and arguments, whatever a family calls them.
fn call(value: Json) -> Option<Named> {
    let value = match value.get("function") {
        Some(inner @ Json::Object(_)) => inner.clone(),
        _ => value,
    };
    let first = |keys: &[&str]| keys.iter().find_map(|key| value.get(key));
    let name = first(&["name", "tool_name", "function"])?.as_str()?;
    let arguments = match first(&["arguments", "parameters", "args"]) {
        None => Json::Object(Vec::new()),
        Some(Json::String(text)) => Json::parse(text.as_bytes()).ok()?,
        Some(other) => other.clone(),
    };
    arguments.as_object()?;
    Some((name.to_string(), arguments))
}

fn name_then_json(text: &str, separator: &str) -> Option<Named> {
    let brace = text.find('{')?;
    let (name, rest) = separated(&text[..brace], separator)?;
    rest.trim()
        .is_empty()
        .then(|| named(name, &text[brace..]))?
}

/// The name in the text before a call's arguments, and what follows the separator.
pub(crate) fn separated<'t>(head: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    let (name, rest) = head.split_once(separator).unwrap_or((head, ""));
    // Newer Mistral models put the call's number between name and arguments.
    let name = name.split("[CALL_ID]").next().unwrap_or(name).trim();
    (!name.is_empty()).then_some((name, rest))
}

fn named(name: &str, arguments: &str) -> Option<Named> {
    let arguments = Json::parse(arguments.trim().as_bytes()).ok()?;
    arguments.as_object()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    (!name.is_empty() && name.chars().all(plain)).then(|| (name.to_string(), arguments))
}

/// `name>…<parameter=key>value</parameter>…`.
fn parameters(text: &str, schemas: &ArgumentSchemas) -> Option<Named> {
    let (name, rest) = text.split_once('>')?;
    let name = name.trim();
    let mut arguments = Vec::new();
    for part in rest.split("<parameter=").skip(1) {
        let (key, value) = part.split_once('>')?;
        let value = value
            .split_once("</parameter>")
            .map_or(value, |(value, _)| value);
        let key = key.trim();
        let schema = schemas.arguments(name).property(key);
        arguments.push((key.to_string(), schema.value(without_lines_around(value))));
    }
    Some((name.to_string(), Json::Object(arguments)))
}

fn keys_and_values(text: &str, suffix: &str, schemas: &ArgumentSchemas) -> Option<Named> {
    let tag = |name: &str| format!("<{name}{suffix}>");
    let [key_begin, key_end] = [tag("arg_key"), tag("/arg_key")];
    let [value_begin, value_end] = [tag("arg_value"), tag("/arg_value")];
    let (name, mut rest) = match text.find(&key_begin) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let name = name.trim();
    let mut arguments = Vec::new();
    while let Some((key, after)) = rest
        .strip_prefix(&key_begin)
        .and_then(|rest| rest.split_once(&key_end))
    {
        let after = after.trim_start().strip_prefix(&value_begin)?;
        let (value, after) = after.split_once(&value_end)?;
        let key = key.trim();
        let schema = schemas.arguments(name).property(key);
        arguments.push((key.to_string(), schema.value(without_lines_around(value))));
        rest = after.trim_start();
    }
    let whole = rest.is_empty() && !name.is_empty() && !name.contains(char::is_whitespace);
    whole.then(|| (name.to_string(), Json::Object(arguments)))
}

/// `<tool_call>name<tool_sep>…</tool_call>`, once or several times.
fn listed_keys_and_values(
    text: &str,
    suffix: &str,
    schemas: &ArgumentSchemas,
) -> Option<Vec<Named>> {
    let (begin, end) = (
        format!("<tool_call{suffix}>"),
        format!("</tool_call{suffix}>"),
    );
    let separator = format!("<tool_sep{suffix}>");
    let calls = between(text, (&begin, &end));
    let calls =
        calls.map(|call| keys_and_values(&call.replacen(&separator, "", 1), suffix, schemas));
    let calls: Option<Vec<_>> = calls.collect();
    calls.filter(|calls| !calls.is_empty())
}

/// A value without the line breaks that templates put around it.
fn without_lines_around(text: &str) -> &str {
    let text = text.strip_prefix('\n').unwrap_or(text);
    text.strip_suffix('\n').unwrap_or(text)
}

fn deep_seek(text: &str) -> Option<Named> {
    let (name, rest) = deep_seek_name(text)?;
    let rest = rest.trim();
    let json = rest.strip_prefix(FENCE).unwrap_or(rest);
    named(name, json.strip_suffix("```").unwrap_or(json))
}

/// The name and what follows it: `function<｜tool▁sep｜>name` and a line with fenced JSON, or since V3.1
/// `name<｜tool▁sep｜>` and JSON.
pub(crate) fn deep_seek_name(text: &str) -> Option<(&str, &str)> {
    let (first, second) = text.split_once("<｜tool▁sep｜>")?;
    let (name, rest) = match first.trim() {
        "function" => second.split_once('\n')?,
        name => (name, second),
    };
    Some((name.trim(), rest))
}

fn kimi(text: &str) -> Option<Named> {
    let (name, arguments) = kimi_name(text)?;
    named(name, arguments)
}

/// The name in `functions.name:0` and its mark, and what follows.
pub(crate) fn kimi_name(text: &str) -> Option<(&str, &str)> {
    let (id, rest) = text.split_once("<|tool_call_argument_begin|>")?;
    let id = id.trim();
    let name = id.strip_prefix("functions.").unwrap_or(id);
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    Some((name, rest))
}

fn solar(text: &str) -> Option<Named> {
    let (name, arguments) = solar_name(text)?;
    named(name, arguments)
}

/// The name in `id<|tool_call:name|>name` and its mark, and what follows.
pub(crate) fn solar_name(text: &str) -> Option<(&str, &str)> {
    let (head, rest) = text.split_once("<|tool_call:args|>")?;
    let (_, name) = head.split_once("<|tool_call:name|>")?;
    Some((name.trim(), rest))
}

/// The texts between two marks, the last one perhaps unclosed.
fn between<'t>(text: &'t str, (begin, end): (&'t str, &'t str)) -> impl Iterator<Item = &'t str> {
    let parts = text.split(begin).skip(1);
    parts.map(move |part| part.split_once(end).map_or(part, |(inside, _)| inside))
}
