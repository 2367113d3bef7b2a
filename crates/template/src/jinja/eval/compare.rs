//! Equality, order and membership, as Python defines them.
use super::Interp;
use crate::jinja::ast::CompareOp;
use crate::jinja::error::{Fault, Run, TypeFault, not};
use crate::jinja::value::{Value, number_order, scalar_order};
use alloc::sync::Arc;
use core::cmp::Ordering;

/// Fails unless `key` can be a dictionary's key.
pub(crate) fn check_key(key: &Value) -> Run<()> {
    let is_scalar = |value: &Value| {
        matches!(
            value,
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_)
        )
    };
    match key {
        // Tuples of tuples are hashable too, but no template needs them and comparing them can take forever.
        Value::Tuple(items) if items.iter().all(is_scalar) => Ok(()),
        key if is_scalar(key) => Ok(()),
        other => not(other.type_name(), "hashable"),
    }
}

impl Interp<'_> {
    pub(crate) fn equal(&mut self, a: &Value, b: &Value) -> Run<bool> {
        self.step(1)?;
        Ok(match (a, b) {
            (Value::Undefined(_), Value::Undefined(_)) => true,
            (Value::Str(a), Value::Str(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                self.touch(a.len())?;
                **a == **b
            }
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                if a.same(b) {
                    return Ok(true);
                }
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.iter().zip(b.iter()) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Map(a), Value::Map(b)) => {
                if a.same(b) {
                    return Ok(true);
                }
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (key, value) in a.iter() {
                    self.find_key(key, b.len())?;
                    match b.get(key) {
                        Some(other) if self.equal(value, other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Range(a), Value::Range(b)) => {
                a.len == b.len
                    && (a.len == 0 || (a.start == b.start && (a.len == 1 || a.step == b.step)))
            }
            (Value::Namespace(a), Value::Namespace(b)) => a == b,
            (Value::Function(a), Value::Function(b)) => a == b,
            (Value::Macro(a), Value::Macro(b)) => Arc::ptr_eq(a, b),
            (Value::Loop(a), Value::Loop(b)) => a == b,
            (Value::Iterator(a), Value::Iterator(b)) => Arc::ptr_eq(a, b),
            _ => scalar_order(a, b) == Some(Ordering::Equal),
        })
    }

    /// The order of two values; nothing between NaN and any number.
    pub(crate) fn order(
        &mut self,
        op: &'static str,
        a: &Value,
        b: &Value,
    ) -> Run<Option<Ordering>> {
        self.step(1)?;
        if let Value::Undefined(missing) = a {
            return Err(Fault::Undefined(missing.why.clone()));
        }
        if let Value::Undefined(missing) = b {
            return Err(Fault::Undefined(missing.why.clone()));
        }
        match (a, b) {
            (Value::Str(a), Value::Str(b)) => {
                self.touch(a.len().min(b.len()))?;
                Ok(Some((**a).cmp(&**b)))
            }
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                for (a, b) in a.iter().zip(b.iter()) {
                    if !self.equal(a, b)? {
                        return self.order(op, a, b);
                    }
                }
                Ok(Some(a.len().cmp(&b.len())))
            }
            _ if is_number(a) && is_number(b) => Ok(number_order(a, b)),
            _ => {
                let (left, right) = (a.type_name(), b.type_name());
                Err(TypeFault::Operands { op, left, right }.into())
            }
        }
    }

    pub(crate) fn compare(&mut self, op: CompareOp, a: &Value, b: &Value) -> Run<bool> {
        let mut order = |op, wanted: fn(Ordering) -> bool| {
            self.order(op, a, b).map(|order| order.is_some_and(wanted))
        };
        match op {
            CompareOp::Lt => order("<", Ordering::is_lt),
            CompareOp::Le => order("<=", Ordering::is_le),
            CompareOp::Gt => order(">", Ordering::is_gt),
            CompareOp::Ge => order(">=", Ordering::is_ge),
            CompareOp::Eq => self.equal(a, b),
            CompareOp::Ne => self.equal(a, b).map(|equal| !equal),
            CompareOp::In => self.contains(b, a),
            CompareOp::NotIn => self.contains(b, a).map(|found| !found),
        }
    }

    /// Python's `item in container`.
    pub(crate) fn contains(&mut self, container: &Value, item: &Value) -> Run<bool> {
        self.step(1)?;
        match (container, item) {
            (Value::Str(text), Value::Str(part)) => {
                self.touch(text.len())?;
                Ok(text.contains(&**part))
            }
            (Value::Str(_), other) => not(other.type_name(), "a string to look for in a string"),
            (Value::Map(map), key) => {
                if key.is_undefined() {
                    return Ok(false);
                }
                check_key(key)?;
                self.find_key(key, map.len())?;
                Ok(map.get(key).is_some())
            }
            (container, item) => {
                let mut source = self.iterate(container)?;
                while let Some(other) = self.next_of(&mut source)? {
                    if self.equal(&other, item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

pub(crate) fn is_number(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_))
}
