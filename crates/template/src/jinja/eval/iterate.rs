//! Walking over values.
use super::{Interp, OBJECT_BYTES};
use crate::jinja::error::{Run, not};
use crate::jinja::limits::Growing;
use crate::jinja::value::{List, Map, Once, Range, Str, Value, ViewKind};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// A value being walked over, with the place of the next item.
pub(crate) enum Source {
    Empty,
    Items(List, usize),
    Map(ViewKind, Map, usize),
    Chars(Str, usize),
    Range(Arc<Range>, usize),
    Once(Arc<Once>),
}

impl Source {
    /// The number of items, for values that have a length.
    pub(super) fn known_len(&self) -> Option<usize> {
        match self {
            Source::Empty => Some(0),
            Source::Items(items, _) => Some(items.len()),
            Source::Map(_, map, _) => Some(map.len()),
            Source::Chars(text, _) => Some(text.char_count()),
            Source::Range(range, _) => Some(range.len),
            Source::Once(_) => None,
        }
    }
}

impl Interp<'_> {
    /// Python's `iter(value)`.
    pub(crate) fn iterate(&mut self, value: &Value) -> Run<Source> {
        Ok(match value {
            Value::Undefined(_) => Source::Empty,
            Value::List(items) | Value::Tuple(items) => Source::Items(items.clone(), 0),
            Value::Map(map) => Source::Map(ViewKind::Keys, map.clone(), 0),
            Value::View(kind, map) => Source::Map(*kind, map.clone(), 0),
            Value::Str(text) => {
                self.touch(text.len())?;
                Source::Chars(text.clone(), 0)
            }
            Value::Range(range) => Source::Range(range.clone(), 0),
            Value::Iterator(once) => Source::Once(once.clone()),
            other => return not(other.type_name(), "iterable"),
        })
    }

    pub(crate) fn next_of(&mut self, source: &mut Source) -> Run<Option<Value>> {
        Ok(match source {
            Source::Empty => None,
            Source::Items(items, at) => {
                let item = items.get(*at).cloned();
                *at += 1;
                item
            }
            Source::Map(kind, map, at) => {
                let pair = map.at(*at).map(|(key, value)| (key.clone(), value.clone()));
                *at += 1;
                match (pair, kind) {
                    (None, _) => None,
                    (Some((key, _)), ViewKind::Keys) => Some(key),
                    (Some((_, value)), ViewKind::Values) => Some(value),
                    (Some((key, value)), ViewKind::Items) => {
                        Some(Value::Tuple(self.list_of([key, value])?))
                    }
                }
            }
            Source::Chars(text, at) => {
                let rest = text.get(*at..).unwrap_or("");
                let len = rest.chars().next().map(char::len_utf8);
                match len.and_then(|len| rest.get(..len)) {
                    None => None,
                    Some(c) => {
                        *at += c.len();
                        // Plain even from escaped text, as Python's own iteration is.
                        Some(self.text(c)?)
                    }
                }
            }
            Source::Range(range, at) => {
                let item = range.get(*at).map(Value::Int);
                *at += 1;
                item
            }
            Source::Once(once) => {
                let at = once.next.fetch_add(1, Ordering::Relaxed);
                once.items.get(at).cloned()
            }
        })
    }

    /// Python's `list(value)`.
    pub(crate) fn collect(&mut self, value: &Value) -> Run<List> {
        if let Value::List(items) | Value::Tuple(items) = value {
            self.step(1)?;
            return Ok(items.clone());
        }
        let items = self.collect_growing(value)?;
        self.finish_list(items)
    }

    /// `list(value)` that can still be changed.
    pub(crate) fn collect_growing(&mut self, value: &Value) -> Run<Growing<Value>> {
        let mut source = self.iterate(value)?;
        let mut items = self.growing()?;
        while let Some(item) = self.next_of(&mut source)? {
            self.step(1)?;
            items.push(item)?;
        }
        Ok(items)
    }

    /// A generator over these items.
    pub(crate) fn once(&mut self, items: Growing<Value>) -> Run<Value> {
        let items = self.finish_list(items)?;
        Ok(Value::Iterator(Arc::new(Once {
            items,
            next: 0.into(),
            _charge: self.meter.charge(OBJECT_BYTES)?,
        })))
    }

    /// Python's `len(value)`.
    pub(crate) fn length(&mut self, value: &Value) -> Run<usize> {
        Ok(match value {
            Value::Undefined(_) => 0,
            Value::Str(text) => {
                self.touch(text.len())?;
                text.char_count()
            }
            Value::List(items) | Value::Tuple(items) => items.len(),
            Value::Map(map) | Value::View(_, map) => map.len(),
            Value::Range(range) => range.len,
            other => return not(other.type_name(), "something with a length"),
        })
    }
}
