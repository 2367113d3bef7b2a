//! The metadata pairs of a file.

use alloc::vec::Vec;

use super::error::GgufError;
use super::name::Name;
use super::value::{Array, Value, ValueType};

/// A metadata pair and where its key begins.
#[derive(Clone, Debug)]
pub(super) struct Pair<'a> {
    pub(super) offset: u64,
    pub(super) key: &'a str,
    pub(super) value: Value<'a>,
}

/// The metadata of a file: named values in file order.
#[derive(Clone, Debug, Default)]
pub struct Metadata<'a> {
    pairs: Vec<Pair<'a>>,
    /// Positions in `pairs`, sorted by key.
    by_key: Vec<u32>,
}

impl<'a> Metadata<'a> {
    /// Indexes pairs, refusing a key that is there twice.
    pub(super) fn new(pairs: Vec<Pair<'a>>) -> Result<Metadata<'a>, GgufError> {
        match index_by_name(&pairs, |pair| pair.key) {
            Ok(by_key) => Ok(Metadata { pairs, by_key }),
            Err(position) => {
                let (offset, key) = (pairs[position].offset, Name::new(pairs[position].key));
                Err(GgufError::DuplicateKey { offset, key })
            }
        }
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Walks the pairs in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, Value<'a>)> {
        self.pairs.iter().map(|pair| (pair.key, pair.value))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.pair(key).map(|pair| pair.value)
    }

    pub(super) fn pair(&self, key: &str) -> Option<&Pair<'a>> {
        find_by_name(&self.pairs, &self.by_key, key, |pair| pair.key)
    }

    /// A string; `None` when the key is absent.
    pub fn str(&self, key: &str) -> Result<Option<&'a str>, GgufError> {
        self.typed(key, ValueType::Str, |value| value.as_str())
    }

    /// An array; `None` when the key is absent.
    pub fn array(&self, key: &str) -> Result<Option<Array<'a>>, GgufError> {
        self.typed(key, ValueType::Array, |value| value.as_array())
    }

    /// A bool; `None` when the key is absent.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, ValueType::Bool, |value| match value {
            Value::Bool(x) => Some(x),
            _ => None,
        })
    }

    /// A float, rounded from `f64` if need be; `None` when the key is absent.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, ValueType::F32, |value| match value {
            Value::F32(x) => Some(x),
            Value::F64(x) => Some(x as f32),
            _ => None,
        })
    }

    /// A float; `None` when the key is absent.
    pub fn f64(&self, key: &str) -> Result<Option<f64>, GgufError> {
        self.typed(key, ValueType::F64, |value| match value {
            Value::F32(x) => Some(x.into()),
            Value::F64(x) => Some(x),
            _ => None,
        })
    }

    /// An integer of any width whose value fits; `None` when the key is absent.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        self.integer(key, ValueType::U32)
    }

    /// An integer of any width whose value fits; `None` when the key is absent.
    pub fn i32(&self, key: &str) -> Result<Option<i32>, GgufError> {
        self.integer(key, ValueType::I32)
    }

    /// An integer of any width whose value fits; `None` when the key is absent.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.integer(key, ValueType::U64)
    }

    /// An integer of any width whose value fits; `None` when the key is absent.
    pub fn i64(&self, key: &str) -> Result<Option<i64>, GgufError> {
        self.integer(key, ValueType::I64)
    }

    fn integer<T: TryFrom<i128>>(
        &self,
        key: &str,
        expected: ValueType,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.typed(key, expected, |value| value.as_integer())? else {
            return Ok(None);
        };
        match T::try_from(value) {
            Ok(fitting) => Ok(Some(fitting)),
            Err(_) => Err(GgufError::OutOfRange {
                key: Name::new(key),
                value,
                expected,
            }),
        }
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: ValueType,
        convert: impl Fn(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match convert(value) {
            Some(converted) => Ok(Some(converted)),
            None => {
                let found = value.value_type();
                Err(GgufError::WrongType {
                    key: Name::new(key),
                    expected,
                    found,
                })
            }
        }
    }
}

/// Positions of `items` sorted by name; or the position of one whose name another before it has.
pub(super) fn index_by_name<T>(
    items: &[T],
    name: impl for<'t> Fn(&'t T) -> &'t str,
) -> Result<Vec<u32>, usize> {
    let mut index: Vec<u32> = (0..items.len() as u32).collect();
    index.sort_unstable_by_key(|&i| (name(&items[i as usize]), i));
    let twins = index
        .windows(2)
        .filter(|w| name(&items[w[0] as usize]) == name(&items[w[1] as usize]));
    match twins.map(|w| w[1]).min() {
        Some(again) => Err(again as usize),
        None => Ok(index),
    }
}

/// Looks a name up in what [`index_by_name`] made.
pub(super) fn find_by_name<'i, T>(
    items: &'i [T],
    index: &[u32],
    wanted: &str,
    name: impl for<'t> Fn(&'t T) -> &'t str,
) -> Option<&'i T> {
    items.get(position_by_name(items, index, wanted, name)?)
}

/// Where the item of a name stands.
pub(super) fn position_by_name<T>(
    items: &[T],
    index: &[u32],
    wanted: &str,
    name: impl for<'t> Fn(&'t T) -> &'t str,
) -> Option<usize> {
    let at = index
        .binary_search_by(|&i| name(&items[i as usize]).cmp(wanted))
        .ok()?;
    Some(*index.get(at)? as usize)
}
