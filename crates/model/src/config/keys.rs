//! Metadata under the architecture's prefix, checked as it is read.

use crate::error::LoadError;
use alloc::format;
use alloc::string::String;
use strata_weights::{Metadata, Value};

/// Metadata under the architecture's prefix.
pub(super) struct Keys<'a, 'b> {
    pub(super) metadata: &'a Metadata<'b>,
    pub(super) arch: &'a str,
}

impl Keys<'_, '_> {
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    pub(super) fn u32(&self, name: &str) -> Result<Option<u32>, LoadError> {
        Ok(self.metadata.u32(&self.key(name))?)
    }

    pub(super) fn f32(&self, name: &str) -> Result<Option<f32>, LoadError> {
        let key = self.key(name);
        match self.metadata.f32(&key)? {
            Some(value) if !value.is_finite() => Err(LoadError::BadValue {
                key,
                value: f64::from(value),
                needs: "finite",
            }),
            value => Ok(value),
        }
    }

    /// A positive finite number.
    pub(super) fn positive(&self, name: &str) -> Result<Option<f32>, LoadError> {
        match self.f32(name)? {
            Some(value) if value <= 0.0 => Err(LoadError::BadValue {
                key: self.key(name),
                value: f64::from(value),
                needs: "above 0",
            }),
            value => Ok(value),
        }
    }

    pub(super) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, LoadError> {
        value.ok_or_else(|| LoadError::MissingKey {
            key: self.key(name),
        })
    }

    /// A size between 1 and `max`.
    pub(super) fn size(&self, name: &str, max: u32) -> Result<Option<usize>, LoadError> {
        match self.u32(name)? {
            Some(value) if value == 0 || value > max => Err(LoadError::BadValue {
                key: self.key(name),
                value: f64::from(value),
                needs: "above 0 and within reason",
            }),
            value => Ok(value.map(|value| value as usize)),
        }
    }

    pub(super) fn required_size(&self, name: &str, max: u32) -> Result<usize, LoadError> {
        let size = self.size(name, max)?;
        self.required(name, size)
    }

    /// A size that some files give as an array with one element for each layer, all equal.
    pub(super) fn uniform_size(&self, name: &str, max: u32) -> Result<Option<usize>, LoadError> {
        let key = self.key(name);
        let Some(Value::Array(array)) = self.metadata.get(&key) else {
            return self.size(name, max);
        };
        let mut values = array.integers().into_iter().flatten();
        let first = values.next();
        match first {
            Some(value) if value < 1 || value > i128::from(max) => Err(LoadError::BadValue {
                key,
                value: value as f64,
                needs: "above 0 and within reason",
            }),
            Some(value) if values.all(|other| other == value) => Ok(Some(value as usize)),
            _ => Err(LoadError::LayersDiffer { key }),
        }
    }
}
