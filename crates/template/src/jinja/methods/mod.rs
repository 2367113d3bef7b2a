//! The methods that templates may call on values. Those that would change a list or a dictionary are closed, as in
//! Jinja's immutable sandbox.
mod containers;
pub(crate) mod text;
pub(crate) mod unicode;

use super::arguments::Arguments;
use super::error::{Run, not};
use super::eval::Interp;
use super::value::{Cycler, Value};
use core::sync::atomic::Ordering;

const DICT: [&str; 5] = ["copy", "get", "items", "keys", "values"];
const DICT_UNSAFE: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const LIST: [&str; 3] = ["copy", "count", "index"];
const LIST_UNSAFE: [&str; 8] = [
    "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort",
];
const TUPLE: [&str; 2] = ["count", "index"];

/// The method `name` of `value`.
pub(crate) fn find(value: &Value, name: &str) -> Option<&'static str> {
    let names: &[&'static str] = match value {
        Value::Str(_) => &text::NAMES,
        Value::Map(_) => &DICT,
        Value::List(_) => &LIST,
        Value::Tuple(_) | Value::Range(_) => &TUPLE,
        Value::Float(_) => &["is_integer"],
        Value::Int(_) | Value::Bool(_) => &["bit_length"],
        Value::Loop(_) => &["cycle", "changed"],
        Value::Cycler(_) => &["next", "reset"],
        _ => &[],
    };
    names.iter().find(|known| **known == name).copied()
}

/// Whether `name` is a method that would change `value`.
pub(crate) fn is_unsafe(value: &Value, name: &str) -> bool {
    match value {
        Value::Map(_) => DICT_UNSAFE.contains(&name),
        Value::List(_) => LIST_UNSAFE.contains(&name),
        _ => false,
    }
}

/// Calls a method that [`find`] found.
pub(crate) fn call(
    interp: &mut Interp<'_>,
    of: &Value,
    name: &'static str,
    args: Arguments,
) -> Run<Value> {
    match of {
        Value::Str(text) => text::call(interp, text, name, args),
        Value::Map(map) => containers::dict(interp, map, name, args),
        Value::List(items) | Value::Tuple(items) => containers::list(interp, items, name, args),
        Value::Range(_) => {
            let items = interp.collect(of)?;
            containers::list(interp, &items, name, args)
        }
        Value::Float(number) => {
            args.none(name)?;
            Ok(Value::Bool(
                number.is_finite() && libm::floor(*number) == *number,
            ))
        }
        Value::Int(_) | Value::Bool(_) => {
            args.none(name)?;
            let size = of.as_int().unwrap_or(0).unsigned_abs();
            Ok(Value::Int(i64::from(u64::BITS - size.leading_zeros())))
        }
        Value::Cycler(cycler) => {
            args.none(name)?;
            if name == "reset" {
                cycler.next.store(0, Ordering::Relaxed);
                return Ok(Value::None);
            }
            let value = current(cycler).unwrap_or_default();
            cycler.next.fetch_add(1, Ordering::Relaxed);
            Ok(value)
        }
        other => not(other.type_name(), "callable"),
    }
}

/// What a cycler gives next.
pub(crate) fn current(cycler: &Cycler) -> Option<Value> {
    let next = cycler.next.load(Ordering::Relaxed);
    let place = next.checked_rem(cycler.items.len())?;
    cycler.items.get(place).cloned()
}
