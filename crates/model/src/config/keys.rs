//! Metadata under the architecture's prefix, checked as it is read.

use crate::error::LoadError;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use strata_weights::Metadata;

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

    /// A finite number that is not negative; 0 is none.
    pub(super) fn above_zero(&self, name: &str) -> Result<Option<f32>, LoadError> {
        match self.f32(name)? {
            Some(0.0) => Ok(None),
            _ => self.positive(name),
        }
    }

    /// A finite number for each layer under a key without prefix: an array with an element for each, or one for all.
    pub(super) fn floats(&self, key: &str, layers: usize) -> Result<Vec<f32>, LoadError> {
        let numbers = self.numbers(key, layers)?;
        match numbers.iter().find(|number| !number.is_finite()) {
            Some(&number) => Err(LoadError::BadValue {
                key: key.into(),
                value: f64::from(number),
                needs: "finite",
            }),
            None => Ok(numbers),
        }
    }

    /// The same, with numbers that need not be finite.
    pub(super) fn numbers(&self, key: &str, layers: usize) -> Result<Vec<f32>, LoadError> {
        let key = String::from(key);
        let value = self.metadata.get(&key);
        let numbers = match value.and_then(|value| value.as_array()?.f32s()) {
            Some(numbers) => numbers.collect(),
            None => match self.metadata.f32(&key)? {
                Some(number) => vec![number; layers],
                None => return Err(LoadError::MissingKey { key }),
            },
        };
        if numbers.len() != layers {
            return Err(LoadError::LayerArray {
                key,
                found: numbers.len(),
                layers,
            });
        }
        Ok(numbers)
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

    /// A size for each layer: an array with an element for each, or one number above 0 for all.
    pub(super) fn sizes(
        &self,
        name: &str,
        layers: usize,
        allowed: RangeInclusive<u32>,
    ) -> Result<Option<Vec<usize>>, LoadError> {
        let key = self.key(name);
        let array = self.metadata.get(&key).and_then(|value| value.as_array());
        let Some(integers) = array.and_then(|array| array.integers()) else {
            let size = self.size(name, *allowed.end())?;
            return Ok(size.map(|size| vec![size; layers]));
        };
        let sizes: Vec<i128> = integers.collect();
        if sizes.len() != layers {
            return Err(LoadError::LayerArray {
                key,
                found: sizes.len(),
                layers,
            });
        }
        let size = |size: i128| match u32::try_from(size) {
            Ok(size) if allowed.contains(&size) => Ok(size as usize),
            _ => Err(LoadError::BadValue {
                key: self.key(name),
                value: size as f64,
                needs: "above 0 and within reason",
            }),
        };
        sizes
            .into_iter()
            .map(size)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// A size that is the same in all layers.
    pub(super) fn uniform_size(
        &self,
        name: &str,
        layers: usize,
        max: u32,
    ) -> Result<Option<usize>, LoadError> {
        let Some(sizes) = self.sizes(name, layers, 1..=max)? else {
            return Ok(None);
        };
        if sizes.iter().any(|size| *size != sizes[0]) {
            let key = self.key(name);
            return Err(LoadError::LayersDiffer { key });
        }
        Ok(sizes.first().copied())
    }
}
