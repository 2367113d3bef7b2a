//! Matrices whose input and output are kept within bounds (Gemma 4's small models).

use crate::error::LoadError;
use crate::matrix::Linear;
use crate::tensors::Tensors;
use alloc::borrow::Cow;
use alloc::format;

/// A matrix, its bias, and its bounds.
pub(super) struct TowerLinear {
    pub(super) linear: Linear,
    pub(super) bounds: Option<Bounds>,
}

/// The least and the most.
type Range = (f32, f32);

/// What is kept within what.
pub(super) struct Bounds {
    input: Range,
    output: Range,
}

impl Bounds {
    /// Four numbers beside a matrix, if the file has them.
    pub(super) fn read(
        tensors: &mut Tensors<'_, '_>,
        name: &str,
    ) -> Result<Option<Self>, LoadError> {
        if !tensors.has(&format!("{name}.input_min")) {
            return Ok(None);
        }
        let mut range = |what: &str| {
            let mut number = |end: &str| -> Result<f32, LoadError> {
                Ok(tensors.vector(&format!("{name}.{what}_{end}"), &[1])?[0])
            };
            let (least, most) = (number("min")?, number("max")?);
            if least <= most {
                return Ok((least, most));
            }
            Err(LoadError::BadValue {
                key: format!("{name}.{what}_max"),
                value: f64::from(most),
                needs: "at least the minimum",
            })
        };
        Ok(Some(Self {
            input: range("input")?,
            output: range("output")?,
        }))
    }
}

impl TowerLinear {
    /// What the matrix reads.
    pub(super) fn input<'x>(&self, x: &'x [f32]) -> Cow<'x, [f32]> {
        match &self.bounds {
            None => x.into(),
            Some(bounds) => {
                let mut bounded = x.to_vec();
                clamp(&mut bounded, bounds.input);
                bounded.into()
            }
        }
    }

    /// Keeps a row of its results within bounds.
    pub(super) fn bound(&self, row: &mut [f32]) {
        if let Some(bounds) = &self.bounds {
            clamp(row, bounds.output);
        }
    }
}

fn clamp(x: &mut [f32], (least, most): Range) {
    for x in x {
        *x = x.clamp(least, most);
    }
}
