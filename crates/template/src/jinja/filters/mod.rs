//! Jinja's filters.
pub(crate) mod html;
mod list;
mod number;
mod order;
mod select;
mod text;
mod wrap;

use super::arguments::{Arguments, flag, required};
use super::error::{Missing, Run, TypeFault, bad_value, not};
use super::eval::Interp;
use super::format::{JsonStyle, json};
use super::value::{Str, Value, ViewKind};
use alloc::string::String;
use alloc::sync::Arc;

const NAMES: [&str; 53] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
];

/// Whether there is a filter of that name.
pub(crate) fn exists(name: &str) -> bool {
    NAMES.contains(&name) || name == "xmlattr"
}

/// `value|name(args)`.
pub(crate) fn apply(
    interp: &mut Interp<'_>,
    name: &str,
    value: Value,
    args: Arguments,
) -> Run<Value> {
    interp.step(2)?;
    match name {
        "default" | "d" => default(value, args),
        "length" | "count" => {
            args.none(name)?;
            let length = interp.length(&value)?;
            Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
        }
        "string" => {
            args.none(name)?;
            Ok(Value::Str(interp.soft_str(&value)?))
        }
        "tojson" => to_json(interp, &value, args),
        "attr" => attr(interp, &value, args),
        "items" => match value {
            Value::Undefined(_) => Ok(Value::List(interp.list_of([])?)),
            Value::Map(map) => {
                let pairs = interp.collect_growing(&Value::View(ViewKind::Items, map))?;
                interp.once(pairs)
            }
            other => not(other.type_name(), "a mapping"),
        },
        "abs" | "float" | "int" | "round" | "sum" | "filesizeformat" => {
            number::apply(interp, name, &value, args)
        }
        "sort" | "dictsort" | "groupby" | "min" | "max" | "unique" => {
            order::apply(interp, name, &value, args)
        }
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => {
            select::apply(interp, name, &value, args)
        }
        "batch" | "slice" | "first" | "last" | "list" | "reverse" | "join" => {
            list::apply(interp, name, &value, args)
        }
        "e" | "escape" | "forceescape" | "safe" | "striptags" | "urlencode" | "xmlattr" => {
            html::apply(interp, name, &value, args)
        }
        "wordwrap" => wrap::apply(interp, &value, args),
        "random" => Err(TypeFault::Unsupported("the filter 'random'").into()),
        "urlize" => Err(TypeFault::Unsupported("the filter 'urlize'").into()),
        name if exists(name) => text::apply(interp, name, &value, args),
        name => Err(TypeFault::Filter(String::from(name)).into()),
    }
}

fn default(value: Value, args: Arguments) -> Run<Value> {
    let [default, boolean] = args.bind("default", ["default_value", "boolean"])?;
    let boolean = flag(boolean, false);
    if value.is_undefined() || boolean && !value.is_true() {
        Ok(default.unwrap_or_else(|| "".into()))
    } else {
        Ok(value)
    }
}

fn attr(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [name] = args.bind("attr", ["name"])?;
    match required(name, "attr", "name")? {
        Value::Str(name) => {
            let name: Arc<str> = (*name).into();
            match value {
                // Unlike `value.name`, never an item.
                Value::Map(_) if super::methods::find(value, &name).is_none() => {
                    let owner = value.owner_name();
                    interp.undefined(Missing::Attribute { owner, name })
                }
                _ => interp.attribute(value, &name),
            }
        }
        _ => bad_value("attr", "the name must be a string"),
    }
}

fn to_json(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ensure_ascii, indent, separators, sort_keys] = args.bind("tojson", names)?;
    let indent: Option<Str> = match indent {
        None | Some(Value::None) => None,
        Some(Value::Str(text)) => Some(text),
        Some(other) => match other.as_int() {
            Some(width) => {
                let width = usize::try_from(width).unwrap_or(0);
                let mut buffer = interp.buffer_of(width)?;
                buffer.push_repeated(" ", width)?;
                Some(Str::from_buffer(buffer))
            }
            None => return bad_value("tojson", "the indent must be an integer or a string"),
        },
    };
    let (item_separator, key_separator) = match separators {
        None | Some(Value::None) if indent.is_some() => (",".into(), ": ".into()),
        None | Some(Value::None) => (", ".into(), ": ".into()),
        Some(pair) => match &interp.collect(&pair)?[..] {
            [Value::Str(items), Value::Str(keys)] => (items.clone(), keys.clone()),
            _ => return bad_value("tojson", "the separators must be two strings"),
        },
    };
    let style = JsonStyle {
        indent,
        item_separator,
        key_separator,
        sort_keys: flag(sort_keys, false),
        ensure_ascii: flag(ensure_ascii, false),
    };
    let mut buffer = interp.buffer()?;
    json(interp, &mut buffer, &style, value)?;
    interp.touch(buffer.len())?;
    Ok(Value::Str(Str::from_buffer(buffer)))
}
