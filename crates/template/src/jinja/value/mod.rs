//! The values that templates compute with: Python's, as far as chat templates can see them.
mod deserialize;
mod map;
mod sequence;
mod text;

pub use map::Map;
pub use sequence::List;
pub use text::Str;

use super::error::Missing;
use super::limits::Charge;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize};

/// A value that a template can be given or can make. Cloning is cheap: text and containers are shared.
///
/// `serde_json::from_str::<Value>` reads JSON with the order of keys kept. The variants marked *internal* appear only
/// inside a render.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Value {
    /// *Internal*: what a missing variable, key or attribute evaluates to.
    Undefined(Arc<Undefined>),
    /// Python's `None`, JSON's `null`.
    #[default]
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Str(Str),
    /// A list.
    List(List),
    /// A tuple.
    Tuple(List),
    /// A dictionary, in insertion order.
    Map(Map),
    /// *Internal*: Python's `range`.
    Range(Arc<Range>),
    /// *Internal*: what `keys()`, `values()` and `items()` of a dictionary give.
    View(ViewKind, Map),
    /// *Internal*: an iterator that can be walked once.
    Iterator(Arc<Once>),
    /// *Internal*: a method taken from its object without being called.
    Method(Arc<Method>),
    /// *Internal*: a macro with the scope that it was defined in.
    Macro(Arc<Closure>),
    /// *Internal*: a function that every template has.
    Function(Function),
    /// *Internal*: `namespace(…)`, an index into the render's namespaces.
    Namespace(usize),
    /// *Internal*: the `loop` variable, an index into the render's loops.
    Loop(Arc<usize>),
    /// *Internal*: `cycler(…)`.
    Cycler(Arc<Cycler>),
    /// *Internal*: `joiner(…)`.
    Joiner(Arc<Joiner>),
}

/// A value that is not there, and why.
#[derive(Debug)]
pub struct Undefined {
    pub(crate) why: Missing,
    pub(crate) _charge: Charge,
}

/// Python's `range(start, stop, step)`, at most 100,000 long.
#[derive(Debug)]
pub struct Range {
    pub(crate) start: i64,
    pub(crate) stop: i64,
    pub(crate) step: i64,
    pub(crate) len: usize,
    pub(crate) _charge: Charge,
}

impl Range {
    /// The element at `index`, which is less than the length.
    pub(crate) fn get(&self, index: usize) -> Option<i64> {
        if index >= self.len {
            return None;
        }
        let offset = self.step.checked_mul(i64::try_from(index).ok()?)?;
        self.start.checked_add(offset)
    }
}

/// Which part of a dictionary a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// The keys.
    Keys,
    /// The values.
    Values,
    /// Pairs of both.
    Items,
}

/// A list that is walked at most once, like Python's generators.
#[derive(Debug)]
pub struct Once {
    pub(crate) items: List,
    pub(crate) next: AtomicUsize,
    pub(crate) _charge: Charge,
}

/// A method with its object.
#[derive(Debug)]
pub struct Method {
    pub(crate) of: Value,
    pub(crate) name: &'static str,
    pub(crate) _charge: Charge,
}

/// A macro and the scope that it sees.
#[derive(Debug)]
pub struct Closure {
    pub(crate) decl: usize,
    pub(crate) scope: usize,
    pub(crate) name: Arc<str>,
    pub(crate) _charge: Charge,
}

/// Values given out in turn.
#[derive(Debug)]
pub struct Cycler {
    pub(crate) items: List,
    pub(crate) next: AtomicUsize,
    pub(crate) _charge: Charge,
}

/// Text given out on every call but the first.
#[derive(Debug)]
pub struct Joiner {
    pub(crate) separator: Value,
    pub(crate) used: AtomicBool,
    pub(crate) _charge: Charge,
}

/// The functions that every template has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Function {
    /// `range`.
    Range,
    /// `dict`.
    Dict,
    /// `namespace`.
    Namespace,
    /// `cycler`.
    Cycler,
    /// `joiner`.
    Joiner,
    /// `raise_exception`.
    RaiseException,
    /// `strftime_now`.
    StrftimeNow,
}

impl Value {
    /// A list of these values.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Value {
        Value::List(List::new(items.into_iter().collect()))
    }

    /// A tuple of these values.
    pub fn tuple(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Tuple(List::new(items.into_iter().collect()))
    }

    /// A dictionary of these pairs, in this order. A key that comes twice keeps its place and takes the later value.
    pub fn map<K: Into<Str>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Value {
        let pairs = pairs
            .into_iter()
            .map(|(key, value)| (Value::Str(key.into()), value));
        Value::Map(Map::new(pairs.collect()))
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The dictionary in a dictionary.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The items of a list or tuple.
    pub fn as_slice(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) | Value::Tuple(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    /// Python's name for the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "Undefined",
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(text) if text.is_markup() => "Markup",
            Value::Str(_) => "str",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Map(_) => "dict",
            Value::Range(_) => "range",
            Value::View(ViewKind::Keys, _) => "dict_keys",
            Value::View(ViewKind::Values, _) => "dict_values",
            Value::View(ViewKind::Items, _) => "dict_items",
            Value::Iterator(_) => "generator",
            Value::Method(_) => "builtin_function_or_method",
            Value::Macro(_) => "Macro",
            Value::Function(_) => "function",
            Value::Namespace(_) => "Namespace",
            Value::Loop(_) => "LoopContext",
            Value::Cycler(_) => "Cycler",
            Value::Joiner(_) => "Joiner",
        }
    }

    /// How Jinja names the owner of a missing attribute.
    pub(crate) fn owner_name(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "bool object",
            Value::Int(_) => "int object",
            Value::Float(_) => "float object",
            Value::Str(text) if text.is_markup() => "markupsafe.Markup object",
            Value::Str(_) => "str object",
            Value::List(_) => "list object",
            Value::Tuple(_) => "tuple object",
            Value::Map(_) => "dict object",
            Value::Range(_) => "range object",
            Value::View(ViewKind::Keys, _) => "dict_keys object",
            Value::View(ViewKind::Values, _) => "dict_values object",
            Value::View(ViewKind::Items, _) => "dict_items object",
            Value::Iterator(_) => "generator object",
            Value::Method(_) => "builtin_function_or_method object",
            Value::Macro(_) => "jinja2.runtime.Macro object",
            Value::Function(_) => "function object",
            Value::Namespace(_) => "namespace object",
            Value::Loop(_) => "jinja2.runtime.LoopContext object",
            Value::Cycler(_) => "jinja2.utils.Cycler object",
            Value::Joiner(_) => "jinja2.utils.Joiner object",
            Value::Undefined(_) => "jinja2.runtime.Undefined object",
        }
    }

    /// Python's truth of a value.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(truth) => *truth,
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::List(items) | Value::Tuple(items) => !items.is_empty(),
            Value::Map(map) | Value::View(_, map) => !map.is_empty(),
            Value::Range(range) => range.len != 0,
            _ => true,
        }
    }

    /// How deep containers nest in this value: 0 for a scalar.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Value::List(items) | Value::Tuple(items) => items.depth(),
            Value::Map(map) | Value::View(_, map) => map.depth(),
            Value::Iterator(once) => once.items.depth(),
            Value::Cycler(cycler) => cycler.items.depth(),
            Value::Method(method) => method.of.depth().saturating_add(1),
            Value::Joiner(joiner) => joiner.separator.depth().saturating_add(1),
            _ => 0,
        }
    }

    /// An integer, where Python would take one: booleans count.
    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Value::Bool(truth) => Some(i64::from(*truth)),
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }
}

impl PartialEq for Value {
    /// Equality of plain data, as Python has it (`1 == 1.0 == True`); internal values differ from everything.
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => **a == **b,
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len() && a.iter().all(|(key, value)| b.get(key) == Some(value))
            }
            _ => scalar_order(self, other) == Some(core::cmp::Ordering::Equal),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Str(text.into())
    }
}

impl From<Str> for Value {
    fn from(text: Str) -> Self {
        Value::Str(text)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::list(items)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

pub(crate) use map::{number_order, scalar_order};
