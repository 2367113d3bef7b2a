//! Filters that look up an attribute of each item, apply a filter to it, or keep those that pass a test.
use crate::jinja::arguments::Arguments;
use crate::jinja::error::{Run, bad_value, not};
use crate::jinja::eval::Interp;
use crate::jinja::predicates;
use crate::jinja::value::{Str, Value};
use alloc::vec::Vec;

/// `a.b.0` as the keys to follow.
pub(super) struct Path(Vec<Value>);

pub(super) fn attribute_path(attribute: Option<&Value>) -> Run<Path> {
    Ok(Path(match attribute {
        None | Some(Value::None) => Vec::new(),
        Some(Value::Str(text)) => {
            if text.len() > 4096 {
                return bad_value("attribute", "the name is too long");
            }
            text.split('.').map(part).collect()
        }
        Some(other) => alloc::vec![other.clone()],
    }))
}

fn part(text: &str) -> Value {
    let is_index = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(index) if is_index => Value::Int(index),
        _ => Value::Str(Str::from(text)),
    }
}

impl Path {
    /// Follows the path from `item`; what is missing becomes `default` if there is one.
    pub(super) fn get(
        &self,
        interp: &mut Interp<'_>,
        item: Value,
        default: Option<&Value>,
    ) -> Run<Value> {
        let mut item = item;
        for part in &self.0 {
            item = interp.item(&item, part)?;
            if let (true, Some(default)) = (item.is_undefined(), default) {
                item = default.clone();
            }
        }
        Ok(item)
    }
}

pub(super) fn apply(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    args: Arguments,
) -> Run<Value> {
    if !value.is_true() {
        let none = interp.growing()?;
        return interp.once(none);
    }
    match name {
        "map" => map(interp, value, args),
        _ => select(interp, name, value, args),
    }
}

fn map(interp: &mut Interp<'_>, value: &Value, mut args: Arguments) -> Run<Value> {
    let mut source = interp.iterate(value)?;
    let mut results = interp.growing()?;
    let is_attribute = |(name, _): &(_, _)| -> bool {
        let name: &alloc::sync::Arc<str> = name;
        &**name == "attribute"
    };
    if args.positional.is_empty() && args.named.iter().any(is_attribute) {
        let [attribute, default] = args.bind("map", ["attribute", "default"])?;
        let path = attribute_path(attribute.as_ref())?;
        let default = default.filter(|default| !matches!(default, Value::None));
        while let Some(item) = interp.next_of(&mut source)? {
            interp.step(1)?;
            let result = path.get(interp, item, default.as_ref())?;
            results.push(result)?;
        }
        return interp.once(results);
    }
    if args.positional.is_empty() {
        return bad_value("map", "map requires a filter argument");
    }
    let filter = args.positional.remove(0);
    let Value::Str(filter) = filter else {
        return not(filter.type_name(), "the name of a filter");
    };
    while let Some(item) = interp.next_of(&mut source)? {
        interp.step(1 + args.positional.len() + args.named.len())?;
        let args = args.clone();
        let result = interp.nested(|interp| super::apply(interp, &filter, item, args))?;
        results.push(result)?;
    }
    interp.once(results)
}

fn select(interp: &mut Interp<'_>, name: &str, value: &Value, mut args: Arguments) -> Run<Value> {
    let by_attribute = name.ends_with("attr");
    let wanted = name.starts_with("select");
    let mut path = attribute_path(None)?;
    if by_attribute {
        if args.positional.is_empty() {
            return bad_value("selectattr", "missing parameter for attribute name");
        }
        path = attribute_path(Some(&args.positional.remove(0)))?;
    }
    let test = if args.positional.is_empty() {
        None
    } else {
        Some(args.positional.remove(0))
    };
    let mut source = interp.iterate(value)?;
    let mut kept = interp.growing()?;
    while let Some(item) = interp.next_of(&mut source)? {
        interp.step(1 + args.positional.len() + args.named.len())?;
        let tested = path.get(interp, item.clone(), None)?;
        let truth = match &test {
            None => tested.is_true(),
            Some(Value::Str(test)) => predicates::holds(interp, test, &tested, args.clone())?,
            Some(other) => return not(other.type_name(), "the name of a test"),
        };
        if truth == wanted {
            kept.push(item)?;
        }
    }
    interp.once(kept)
}
