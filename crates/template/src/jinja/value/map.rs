//! Dictionaries: immutable, shared, in insertion order, with Python's equality of keys.
use super::Value;
use crate::jinja::limits::Charge;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A dictionary. Keys are scalars or tuples of scalars; a lookup is a binary search in an index of sorted keys, so that
/// no choice of keys makes it slow.
#[derive(Clone, Debug)]
pub struct Map(Arc<Entries>);

#[derive(Debug)]
struct Entries {
    pairs: Vec<(Value, Value)>,
    /// Positions in `pairs`, by key.
    sorted: Vec<u32>,
    depth: u32,
    _charge: Charge,
}

impl Map {
    /// A dictionary of these pairs. A key that comes twice keeps its place and takes the later value.
    pub fn new(pairs: Vec<(Value, Value)>) -> Map {
        Map::charged(pairs, Charge::default())
    }

    pub(crate) fn charged(mut pairs: Vec<(Value, Value)>, charge: Charge) -> Map {
        let mut sorted: Vec<u32> = (0..u32::try_from(pairs.len()).unwrap_or(u32::MAX)).collect();
        // Stable, so that equal keys stay in the order they came.
        sorted.sort_by(|&a, &b| key_order(&pairs[a as usize].0, &pairs[b as usize].0));
        let twice = |w: &[u32]| same_key(&pairs[w[0] as usize].0, &pairs[w[1] as usize].0);
        if sorted.windows(2).any(twice) {
            (pairs, sorted) = merge(pairs, &sorted);
        }
        let depths = pairs
            .iter()
            .map(|(key, value)| key.depth().max(value.depth()));
        Map(Arc::new(Entries {
            depth: depths.max().unwrap_or(0).saturating_add(1),
            pairs,
            sorted,
            _charge: charge,
        }))
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.0.pairs.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.pairs.is_empty()
    }

    /// The pairs in insertion order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Value, &Value)> + ExactSizeIterator {
        self.0.pairs.iter().map(|(key, value)| (key, value))
    }

    /// The pair at `index`.
    pub(crate) fn at(&self, index: usize) -> Option<(&Value, &Value)> {
        self.0.pairs.get(index).map(|(key, value)| (key, value))
    }

    /// The value of `key`.
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.find(|probe| key_order(probe, key))
    }

    /// The value of a text key.
    pub fn get_str(&self, key: &str) -> Option<&Value> {
        self.find(|probe| match probe {
            Value::Str(text) => (**text).cmp(key),
            other => rank(other).cmp(&STR_RANK),
        })
    }

    fn find(&self, order: impl Fn(&Value) -> Ordering) -> Option<&Value> {
        let pairs = &self.0.pairs;
        let place = self
            .0
            .sorted
            .binary_search_by(|&at| order(&pairs[at as usize].0))
            .ok()?;
        let at = *self.0.sorted.get(place)?;
        pairs.get(at as usize).map(|(_, value)| value)
    }

    pub(crate) fn depth(&self) -> u32 {
        self.0.depth
    }

    pub(crate) fn same(&self, other: &Map) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Pairs with each key once, and their index.
fn merge(pairs: Vec<(Value, Value)>, sorted: &[u32]) -> (Vec<(Value, Value)>, Vec<u32>) {
    let mut kept: Vec<Option<(Value, Value)>> = pairs.into_iter().map(Some).collect();
    let mut first = 0;
    for &at in sorted {
        let at = at as usize;
        let same = at != first
            && match (&kept[first], &kept[at]) {
                (Some((a, _)), Some((b, _))) => same_key(a, b),
                _ => false,
            };
        if same {
            if let Some((_, value)) = kept[at].take()
                && let Some(pair) = &mut kept[first]
            {
                pair.1 = value;
            }
        } else {
            first = at;
        }
    }
    let pairs: Vec<(Value, Value)> = kept.into_iter().flatten().collect();
    let mut sorted: Vec<u32> = (0..u32::try_from(pairs.len()).unwrap_or(u32::MAX)).collect();
    sorted.sort_by(|&a, &b| key_order(&pairs[a as usize].0, &pairs[b as usize].0));
    (pairs, sorted)
}

fn same_key(a: &Value, b: &Value) -> bool {
    key_order(a, b) == Ordering::Equal
}

const STR_RANK: u8 = 2;

fn rank(key: &Value) -> u8 {
    match key {
        Value::None => 0,
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => 1,
        Value::Str(_) => STR_RANK,
        Value::Tuple(_) => 3,
        _ => 4,
    }
}

/// A total order of keys in which equal means equal to Python.
fn key_order(a: &Value, b: &Value) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Value::Tuple(a), Value::Tuple(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            let unequal = pairs.find_map(|(a, b)| match key_order(a, b) {
                Ordering::Equal => None,
                order => Some(order),
            });
            unequal.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Float(a), Value::Float(b)) if a.is_nan() || b.is_nan() => a.total_cmp(b),
        _ => scalar_order(a, b).unwrap_or(Ordering::Equal),
    })
}

/// The order of two scalars of comparable types.
pub(crate) fn scalar_order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::None, Value::None) => Some(Ordering::Equal),
        (Value::Str(a), Value::Str(b)) => Some((**a).cmp(&**b)),
        _ => number_order(a, b),
    }
}

/// The order of two numbers, exact between integers and floats.
pub(crate) fn number_order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Float(a), b) => int_order(b.as_int()?, *a).map(Ordering::reverse),
        (a, Value::Float(b)) => int_order(a.as_int()?, *b),
        (a, b) => Some(a.as_int()?.cmp(&b.as_int()?)),
    }
}

fn int_order(a: i64, b: f64) -> Option<Ordering> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if b.is_nan() {
        None
    } else if b >= LIMIT {
        Some(Ordering::Less)
    } else if b < -LIMIT {
        Some(Ordering::Greater)
    } else {
        let whole = b as i64;
        let fraction = b - whole as f64;
        let rest = 0.0_f64.partial_cmp(&fraction)?;
        Some(a.cmp(&whole).then(rest))
    }
}
