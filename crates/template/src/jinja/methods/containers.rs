//! Methods of dictionaries, lists and tuples.
use crate::jinja::arguments::{Arguments, int, required};
use crate::jinja::error::{Run, bad_value};
use crate::jinja::eval::{Interp, check_key, slice_indices};
use crate::jinja::value::{List, Map, Value, ViewKind};

pub(super) fn dict(
    interp: &mut Interp<'_>,
    map: &Map,
    name: &'static str,
    args: Arguments,
) -> Run<Value> {
    if name == "get" {
        if !args.named.is_empty() {
            return bad_value("get", "dict.get takes no keyword arguments");
        }
        let [key, default] = args.bind("get", ["key", "default"])?;
        let key = required(key, "get", "key")?;
        if !key.is_undefined() {
            check_key(&key)?;
        }
        interp.find_key(&key, map.len())?;
        let found = map.get(&key).cloned();
        return Ok(found.or(default).unwrap_or_default());
    }
    args.none(name)?;
    Ok(match name {
        "keys" => Value::View(ViewKind::Keys, map.clone()),
        "values" => Value::View(ViewKind::Values, map.clone()),
        "items" => Value::View(ViewKind::Items, map.clone()),
        _ => Value::Map(map.clone()),
    })
}

pub(super) fn list(
    interp: &mut Interp<'_>,
    items: &List,
    name: &'static str,
    args: Arguments,
) -> Run<Value> {
    if name == "copy" {
        args.none(name)?;
        return Ok(Value::List(items.clone()));
    }
    let [item, start, stop] = args.bind(name, ["value", "start", "stop"])?;
    let item = required(item, name, "value")?;
    let bounds = [int(start, "index")?, int(stop, "index")?, None];
    let Some((first, count, _)) = slice_indices(bounds, items.len()) else {
        return Ok(Value::None);
    };
    let first = usize::try_from(first).unwrap_or(0);
    let mut found = 0;
    for (at, other) in items.iter().enumerate().skip(first).take(count) {
        if interp.equal(other, &item)? {
            if name == "index" {
                return Ok(Value::Int(i64::try_from(at).unwrap_or(i64::MAX)));
            }
            found += 1;
        }
    }
    match name {
        "index" => bad_value("index", "the value is not in the list"),
        _ => Ok(Value::Int(found)),
    }
}
