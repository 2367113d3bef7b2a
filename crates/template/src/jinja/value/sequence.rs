//! Lists and tuples: immutable and shared, since no template may change one.
use super::Value;
use crate::jinja::limits::Charge;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

/// The items of a list or tuple.
#[derive(Clone, Debug)]
pub struct List(Arc<Items>);

#[derive(Debug)]
struct Items {
    items: Vec<Value>,
    depth: u32,
    is_group: bool,
    _charge: Charge,
}

impl List {
    /// A list of these items.
    pub fn new(items: Vec<Value>) -> List {
        List::charged(items, Charge::default())
    }

    pub(crate) fn charged(items: Vec<Value>, charge: Charge) -> List {
        List::with(items, charge, false)
    }

    /// A pair of the filter `groupby`, whose members also have names.
    pub(crate) fn group(items: Vec<Value>, charge: Charge) -> List {
        List::with(items, charge, true)
    }

    fn with(items: Vec<Value>, charge: Charge, is_group: bool) -> List {
        let inner = items.iter().map(Value::depth).max().unwrap_or(0);
        List(Arc::new(Items {
            items,
            depth: inner.saturating_add(1),
            is_group,
            _charge: charge,
        }))
    }

    pub(crate) fn depth(&self) -> u32 {
        self.0.depth
    }

    pub(crate) fn is_group(&self) -> bool {
        self.0.is_group
    }

    pub(crate) fn same(&self, other: &List) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for List {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        &self.0.items
    }
}
