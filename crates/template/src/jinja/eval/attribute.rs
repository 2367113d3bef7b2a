//! Attributes, subscripts and slices.
use super::{Interp, OBJECT_BYTES};
use crate::jinja::error::{Fault, Missing, Run, bad_value, not};
use crate::jinja::methods;
use crate::jinja::value::{Method, Range, Value};
use alloc::string::String;
use alloc::sync::Arc;

impl Interp<'_> {
    /// The method `name` of `value`, if it has one that templates may use.
    pub(super) fn method_of(&self, value: &Value, name: &str) -> Option<&'static str> {
        methods::find(value, name)
    }

    /// Jinja's `value.name`: an attribute, or else an item of that name.
    pub(crate) fn attribute(&mut self, value: &Value, name: &Arc<str>) -> Run<Value> {
        if let Some(found) = self.own_attribute(value, name)? {
            return Ok(found);
        }
        self.touch(name.len())?;
        match value {
            Value::Map(map) => match map.get_str(name) {
                Some(found) => Ok(found.clone()),
                None => self.no_attribute(value, name),
            },
            Value::Undefined(missing) => Err(Fault::Undefined(missing.why.clone())),
            _ => self.no_attribute(value, name),
        }
    }

    fn no_attribute(&self, value: &Value, name: &Arc<str>) -> Run<Value> {
        let owner = value.owner_name();
        let name = name.clone();
        self.undefined(Missing::Attribute { owner, name })
    }

    /// What Python's `getattr` finds, as far as the sandbox lets a template see it.
    fn own_attribute(&mut self, value: &Value, name: &Arc<str>) -> Run<Option<Value>> {
        if let Some(method) = self.method_of(value, name) {
            return Ok(Some(Value::Method(Arc::new(Method {
                of: value.clone(),
                name: method,
                _charge: self.meter.charge(OBJECT_BYTES)?,
            }))));
        }
        match value {
            Value::Namespace(at) => {
                let attributes = self.namespaces.get(*at).map_or(0, alloc::vec::Vec::len);
                self.step(1 + attributes / 8)?;
                let mut attributes = self.namespaces.get(*at).into_iter().flatten();
                let found = attributes.find(|(key, _)| key.as_str() == Some(name));
                Ok(found.map(|(_, value)| value.clone()))
            }
            Value::Loop(at) => self.loop_attribute(**at, name),
            Value::Tuple(items) if items.is_group() => Ok(match &**name {
                "grouper" => items.first().cloned(),
                "list" => items.get(1).cloned(),
                _ => None,
            }),
            Value::Cycler(cycler) if &**name == "current" => Ok(methods::current(cycler)),
            Value::Macro(closure) if &**name == "name" => {
                let name = closure.name.clone();
                Ok(Some(self.text(&name)?))
            }
            _ if methods::is_unsafe(value, name) || name.starts_with("__") => {
                if value.is_undefined() {
                    return Ok(None);
                }
                let owner = value.type_name();
                let name = name.clone();
                Ok(Some(self.undefined(Missing::Unsafe { owner, name })?))
            }
            _ => Ok(None),
        }
    }

    /// Jinja's `value[index]`: an item, or else an attribute of that name.
    pub(crate) fn item(&mut self, value: &Value, index: &Value) -> Run<Value> {
        self.step(1)?;
        let found = match (value, index) {
            (Value::Undefined(missing), _) => return Err(Fault::Undefined(missing.why.clone())),
            (Value::Map(map), key) => {
                self.find_key(key, map.len())?;
                map.get(key).cloned()
            }
            (Value::List(items) | Value::Tuple(items), index) => {
                let place = index.as_int().and_then(|index| at(index, items.len()));
                place.and_then(|place| items.get(place)).cloned()
            }
            (Value::Str(text), index) => match index.as_int() {
                Some(index) => {
                    if !text.is_all_ascii() {
                        self.touch(text.len())?;
                    }
                    match at(index, text.char_count()) {
                        Some(place) => {
                            let text = text.clone();
                            Some(self.text_like(text.chars_between(place, place + 1), &text)?)
                        }
                        None => None,
                    }
                }
                None => None,
            },
            (Value::Range(range), index) => {
                let place = index.as_int().and_then(|index| at(index, range.len));
                place.and_then(|place| range.get(place)).map(Value::Int)
            }
            _ => None,
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if let Value::Str(name) = index {
            let name: Arc<str> = (**name).into();
            return match self.own_attribute(value, &name)? {
                Some(found) => Ok(found),
                None => self.no_attribute(value, &name),
            };
        }
        let owner = value.owner_name();
        let index = String::from(&*self.repr_of(index)?);
        self.undefined(Missing::Element { owner, index })
    }

    pub(super) fn slice(&mut self, value: &Value, bounds: [Option<i64>; 3]) -> Run<Value> {
        if let Value::Undefined(missing) = value {
            return Err(Fault::Undefined(missing.why.clone()));
        }
        let len = match value {
            Value::Str(_) | Value::List(_) | Value::Tuple(_) | Value::Range(_) => {
                self.length(value)?
            }
            other => return not(other.type_name(), "subscriptable"),
        };
        let Some((first, count, step)) = slice_indices(bounds, len) else {
            return bad_value("slice", "slice step cannot be zero");
        };
        let place = |nth: usize| {
            let offset = step.saturating_mul(i64::try_from(nth).unwrap_or(i64::MAX));
            usize::try_from(first.saturating_add(offset)).unwrap_or(usize::MAX)
        };
        match value {
            Value::Str(text) if step == 1 => {
                let from = place(0);
                let text = text.clone();
                self.text_like(text.chars_between(from, from.saturating_add(count)), &text)
            }
            Value::Str(text) => {
                self.scan(text.len())?;
                let mut chars = self.growing_of(len)?;
                for c in text.chars() {
                    chars.push(c)?;
                }
                let mut buffer = self.buffer()?;
                for nth in 0..count {
                    if let Some(&c) = chars.as_slice().get(place(nth)) {
                        buffer.push(c)?;
                    }
                }
                Ok(self.finish_like(buffer, text))
            }
            Value::Range(range) => {
                let at = |index: i64| range.start.saturating_add(range.step.saturating_mul(index));
                let stop = step.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
                Ok(Value::Range(Arc::new(Range {
                    start: at(first),
                    stop: at(bounds_stop(bounds, len).unwrap_or(first.saturating_add(stop))),
                    step: range.step.saturating_mul(step),
                    len: count,
                    _charge: self.meter.charge(OBJECT_BYTES)?,
                })))
            }
            other => {
                let items = self.collect(other)?;
                self.step(1 + count / 2)?;
                let mut growing = self.growing_of(count)?;
                for nth in 0..count {
                    if let Some(item) = items.get(place(nth)) {
                        growing.push(item.clone())?;
                    }
                }
                let list = self.finish_list(growing)?;
                Ok(match other {
                    Value::Tuple(_) => Value::Tuple(list),
                    _ => Value::List(list),
                })
            }
        }
    }
}

/// The place of a possibly negative index.
fn at(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let place = if index < 0 {
        index.checked_add(len)?
    } else {
        index
    };
    (0..len)
        .contains(&place)
        .then_some(usize::try_from(place).ok()?)
}

/// Where a slice of a range stops, which shows when the range is printed.
fn bounds_stop(bounds: [Option<i64>; 3], len: usize) -> Option<i64> {
    let len = i64::try_from(len).ok()?;
    let (low, high) = if bounds[2].unwrap_or(1) > 0 {
        (0, len)
    } else {
        (-1, len - 1)
    };
    match bounds[1] {
        Some(stop) if stop < 0 => Some(stop.saturating_add(len).max(low)),
        Some(stop) => Some(stop.min(high)),
        None if bounds[2].unwrap_or(1) > 0 => Some(high),
        None => Some(low),
    }
}

/// Python's `slice.indices`: the first place, how many, and the step.
pub(crate) fn slice_indices(bounds: [Option<i64>; 3], len: usize) -> Option<(i64, usize, i64)> {
    let len = i64::try_from(len).ok()?;
    let step = bounds[2].unwrap_or(1);
    if step == 0 {
        return None;
    }
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp = |index: i64| {
        if index < 0 {
            index.saturating_add(len).max(low)
        } else {
            index.min(high)
        }
    };
    let first = bounds[0].map_or(if step > 0 { low } else { high }, clamp);
    let stop = bounds[1].map_or(if step > 0 { high } else { low }, clamp);
    let distance = if step > 0 {
        stop.saturating_sub(first)
    } else {
        first.saturating_sub(stop)
    };
    let count = if distance > 0 {
        (distance - 1) / step.saturating_abs() + 1
    } else {
        0
    };
    Some((first, usize::try_from(count).ok()?, step))
}
