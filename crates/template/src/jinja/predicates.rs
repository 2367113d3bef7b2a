//! Jinja's tests: what may follow `is`.
use super::arguments::{Arguments, required};
use super::ast::{ArithOp, CompareOp};
use super::error::{Run, TypeFault};
use super::eval::{Interp, is_number};
use super::filters;
use super::methods::text::is;
use super::value::Value;
use alloc::string::String;

const NAMES: [&str; 39] = [
    "odd",
    "even",
    "divisibleby",
    "defined",
    "undefined",
    "filter",
    "test",
    "none",
    "boolean",
    "false",
    "true",
    "integer",
    "float",
    "lower",
    "upper",
    "string",
    "mapping",
    "number",
    "sequence",
    "iterable",
    "callable",
    "sameas",
    "escaped",
    "in",
    "==",
    "eq",
    "equalto",
    "!=",
    "ne",
    ">",
    "gt",
    "greaterthan",
    "ge",
    ">=",
    "<",
    "lt",
    "lessthan",
    "<=",
    "le",
];

/// Whether there is a test of that name.
pub(crate) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

/// `value is name(args)`.
pub(crate) fn holds(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    args: Arguments,
) -> Run<bool> {
    interp.step(1)?;
    let comparison = match name {
        "==" | "eq" | "equalto" => Some(CompareOp::Eq),
        "!=" | "ne" => Some(CompareOp::Ne),
        ">" | "gt" | "greaterthan" => Some(CompareOp::Gt),
        ">=" | "ge" => Some(CompareOp::Ge),
        "<" | "lt" | "lessthan" => Some(CompareOp::Lt),
        "<=" | "le" => Some(CompareOp::Le),
        "in" => Some(CompareOp::In),
        _ => None,
    };
    if let Some(op) = comparison {
        let [other] = args.bind(name, ["other"])?;
        let other = required(other, name, "other")?;
        return interp.compare(op, value, &other);
    }
    match name {
        "divisibleby" => {
            let [by] = args.bind(name, ["num"])?;
            let by = required(by, name, "num")?;
            remainder_is(interp, value, &by, 0)
        }
        "sameas" => {
            let [other] = args.bind(name, ["other"])?;
            Ok(same(value, &required(other, name, "other")?))
        }
        _ => {
            args.none(name)?;
            plain(interp, name, value)
        }
    }
}

/// A test without arguments.
fn plain(interp: &mut Interp<'_>, name: &str, value: &Value) -> Run<bool> {
    Ok(match name {
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => is_number(value),
        "string" => matches!(value, Value::Str(_)),
        "mapping" => matches!(value, Value::Map(_)),
        "sequence" => matches!(
            value,
            Value::Str(_)
                | Value::List(_)
                | Value::Tuple(_)
                | Value::Map(_)
                | Value::Range(_)
                | Value::Undefined(_)
        ),
        "iterable" => matches!(value, Value::Loop(_)) || interp.iterate(value).is_ok(),
        "callable" => matches!(
            value,
            Value::Undefined(_)
                | Value::Macro(_)
                | Value::Function(_)
                | Value::Method(_)
                | Value::Loop(_)
                | Value::Joiner(_)
        ),
        "escaped" => matches!(value, Value::Str(text) if text.is_markup()),
        "odd" => remainder_is(interp, value, &Value::Int(2), 1)?,
        "even" => remainder_is(interp, value, &Value::Int(2), 0)?,
        "lower" | "upper" => {
            let text = interp.str_of(value)?;
            interp.touch(text.len())?;
            is(
                &text,
                if name == "lower" {
                    "islower"
                } else {
                    "isupper"
                },
            )
        }
        "filter" => value.as_str().is_some_and(filters::exists),
        "test" => value.as_str().is_some_and(exists),
        other => return Err(TypeFault::Test(String::from(other)).into()),
    })
}

fn remainder_is(interp: &mut Interp<'_>, value: &Value, by: &Value, wanted: i64) -> Run<bool> {
    let rest = interp.arith(ArithOp::Mod, value, by)?;
    interp.equal(&rest, &Value::Int(wanted))
}

/// Python's `is`, where small values are one object if they are alike.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a.same(b) || **a == **b,
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => a.same(b),
        (Value::Map(a), Value::Map(b)) => a.same(b),
        (Value::Namespace(a), Value::Namespace(b)) => a == b,
        _ => false,
    }
}
