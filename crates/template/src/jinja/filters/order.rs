//! Filters that compare items with one another.
use super::select::{Path, attribute_path};
use crate::jinja::arguments::{Arguments, flag, required};
use crate::jinja::error::{Missing, Run, bad_value, not};
use crate::jinja::eval::{Interp, check_key};
use crate::jinja::limits::Growing;
use crate::jinja::value::{List, Map, Value, ViewKind};
use alloc::vec::Vec;
use core::cmp::Ordering;

pub(super) fn apply(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    args: Arguments,
) -> Run<Value> {
    match name {
        "sort" => {
            let names = ["reverse", "case_sensitive", "attribute"];
            let [reverse, sensitive, attribute] = args.bind(name, names)?;
            let paths = attribute_paths(attribute.as_ref())?;
            let sensitive = flag(sensitive, false);
            let items = interp.collect_growing(value)?;
            let mut keyed = Keyed::default();
            for item in items.as_slice() {
                let mut keys = interp.growing_of(paths.len())?;
                for path in &paths {
                    let key = path.get(interp, item.clone(), None)?;
                    keys.push(fold(interp, key, sensitive)?)?;
                }
                let keys = Value::List(interp.finish_list(keys)?);
                keyed.push(keys, item.clone());
            }
            Ok(Value::List(keyed.sorted(interp, flag(reverse, false))?))
        }
        "dictsort" => dict_sort(interp, value, args),
        "groupby" => group_by(interp, value, args),
        "unique" => {
            let [sensitive, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
            unique(interp, value, flag(sensitive, false), attribute.as_ref())
        }
        _ => {
            let [sensitive, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
            extreme(
                interp,
                name,
                value,
                flag(sensitive, false),
                attribute.as_ref(),
            )
        }
    }
}

/// Items with what they are sorted by.
#[derive(Default)]
struct Keyed(Vec<(Value, Value)>);

impl Keyed {
    fn push(&mut self, key: Value, item: Value) {
        self.0.push((key, item));
    }

    /// The items in the order of their keys; equal ones stay in place, also when reversed.
    fn sort(&mut self, interp: &mut Interp<'_>, reverse: bool) -> Run<()> {
        let mut failure = None;
        self.0.sort_by(|(a, _), (b, _)| {
            if failure.is_some() {
                return Ordering::Equal;
            }
            let (a, b) = if reverse { (b, a) } else { (a, b) };
            match interp.order("<", a, b) {
                Ok(order) => order.unwrap_or(Ordering::Equal),
                Err(fault) => {
                    failure = Some(fault);
                    Ordering::Equal
                }
            }
        });
        failure.map_or(Ok(()), Err)
    }

    fn sorted(mut self, interp: &mut Interp<'_>, reverse: bool) -> Run<List> {
        let _room = interp.meter.charge(self.0.len().saturating_mul(48))?;
        self.sort(interp, reverse)?;
        interp.list_of(self.0.into_iter().map(|(_, item)| item))
    }
}

/// Text in lower case unless case matters.
fn fold(interp: &mut Interp<'_>, value: Value, sensitive: bool) -> Run<Value> {
    match &value {
        Value::Str(text) if !sensitive => {
            crate::jinja::methods::text::change_case(interp, text, "lower")
        }
        _ => Ok(value),
    }
}

/// Several attributes with commas between.
fn attribute_paths(attribute: Option<&Value>) -> Run<Vec<Path>> {
    match attribute {
        Some(Value::Str(text)) if text.contains(',') => text
            .split(',')
            .map(|part| attribute_path(Some(&part.into())))
            .collect(),
        other => Ok(alloc::vec![attribute_path(other)?]),
    }
}

fn dict_sort(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let names = ["case_sensitive", "by", "reverse"];
    let [sensitive, by, reverse] = args.bind("dictsort", names)?;
    let sensitive = flag(sensitive, false);
    let by_value = match by.as_ref().map(Value::as_str) {
        None | Some(Some("key")) => false,
        Some(Some("value")) => true,
        _ => return bad_value("dictsort", "you can only sort by either 'key' or 'value'"),
    };
    let Value::Map(map) = value else {
        if let Value::Undefined(missing) = value {
            return Err(crate::jinja::error::Fault::Undefined(missing.why.clone()));
        }
        return not(value.type_name(), "a mapping");
    };
    let map: &Map = map;
    let pairs = interp.collect_growing(&Value::View(ViewKind::Items, map.clone()))?;
    let mut keyed = Keyed::default();
    for (pair, (key, value)) in pairs.as_slice().iter().zip(map.iter()) {
        let by = if by_value { value } else { key };
        let by = fold(interp, by.clone(), sensitive)?;
        keyed.push(by, pair.clone());
    }
    Ok(Value::List(keyed.sorted(interp, flag(reverse, false))?))
}

fn group_by(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let names = ["attribute", "default", "case_sensitive"];
    let [attribute, default, sensitive] = args.bind("groupby", names)?;
    let attribute = required(attribute, "groupby", "attribute")?;
    let path = attribute_path(Some(&attribute))?;
    let default = default.filter(|default| !matches!(default, Value::None));
    let sensitive = flag(sensitive, false);
    let items = interp.collect_growing(value)?;
    let mut keyed = Keyed::default();
    for item in items.as_slice() {
        let key = path.get(interp, item.clone(), default.as_ref())?;
        let key = fold(interp, key, sensitive)?;
        keyed.push(key, item.clone());
    }
    let _room = interp.meter.charge(keyed.0.len().saturating_mul(48))?;
    keyed.sort(interp, false)?;
    let mut groups = interp.growing()?;
    let mut rest = keyed.0.into_iter().peekable();
    while let Some((key, first)) = rest.next() {
        // The group is named as its first item writes it.
        let name = path.get(interp, first.clone(), default.as_ref())?;
        let mut members: Growing<Value> = interp.growing()?;
        members.push(first)?;
        while let Some((other, _)) = rest.peek() {
            if !interp.equal(&key, other)? {
                break;
            }
            if let Some((_, item)) = rest.next() {
                members.push(item)?;
            }
        }
        let members = Value::List(interp.finish_list(members)?);
        let charge = interp.meter.charge(128)?;
        let group = List::group(alloc::vec![name, members], charge);
        groups.push(Value::Tuple(group))?;
    }
    Ok(Value::List(interp.finish_list(groups)?))
}

fn unique(
    interp: &mut Interp<'_>,
    value: &Value,
    sensitive: bool,
    attribute: Option<&Value>,
) -> Run<Value> {
    let path = attribute_path(attribute)?;
    let mut source = interp.iterate(value)?;
    let mut seen: Growing<Value> = interp.growing()?;
    let mut kept = interp.growing()?;
    while let Some(item) = interp.next_of(&mut source)? {
        let key = path.get(interp, item.clone(), None)?;
        if !key.is_undefined() {
            check_key(&key)?;
        }
        let key = fold(interp, key, sensitive)?;
        let mut is_new = true;
        for other in seen.as_slice() {
            if interp.equal(other, &key)? {
                is_new = false;
                break;
            }
        }
        if is_new {
            seen.push(key)?;
            kept.push(item)?;
        }
    }
    interp.once(kept)
}

fn extreme(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    sensitive: bool,
    attribute: Option<&Value>,
) -> Run<Value> {
    let path = attribute_path(attribute)?;
    let mut source = interp.iterate(value)?;
    let mut best: Option<(Value, Value)> = None;
    while let Some(item) = interp.next_of(&mut source)? {
        let key = path.get(interp, item.clone(), None)?;
        let key = fold(interp, key, sensitive)?;
        let better = match &best {
            None => true,
            Some((held, _)) => {
                let order = interp.order("<", &key, held)?;
                order
                    == Some(if name == "min" {
                        Ordering::Less
                    } else {
                        Ordering::Greater
                    })
            }
        };
        if better {
            best = Some((key, item));
        }
    }
    match best {
        Some((_, item)) => Ok(item),
        None => interp.undefined(Missing::Because("No aggregated item, sequence was empty.")),
    }
}
