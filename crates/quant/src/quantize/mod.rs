//! From floats to the bytes of a type.

mod fp4;
mod iq4;
mod k;
mod legacy;
mod ternary;

use crate::dequantize::check_lengths;
use crate::number::{BF16, F16, LeF32, LeF64};
use crate::{GgmlType, QuantError, Quantize};

/// Writes `src` into `dst` as whole blocks of `ty`, as near as the format allows.
///
/// `importance` says how much an error in each column counts, as an importance matrix does: one number a column, for a
/// row or for several; it is repeated over the rows of `src`. The types that search for their scales use it (all but
/// Q8 and the plain floats).
///
/// Values that are not finite, or that the type cannot hold ([`GgmlType::max_magnitude`]), are refused before
/// anything is written.
pub fn quantize(
    ty: GgmlType,
    src: &[f32],
    importance: Option<&[f32]>,
    dst: &mut [u8],
) -> Result<(), QuantError> {
    let limit = ty
        .max_magnitude()
        .ok_or(QuantError::CannotQuantize { ty })?;
    check_lengths(ty, dst.len(), src.len())?;
    check_values(ty, src, limit)?;
    if let Some(importance) = importance {
        check_importance(ty, importance, src.len())?;
    }
    match ty {
        GgmlType::F32 => scalars(src, dst, LeF32::new),
        GgmlType::F16 => scalars(src, dst, F16::from_f32),
        GgmlType::BF16 => scalars(src, dst, BF16::from_f32),
        GgmlType::F64 => scalars(src, dst, |x| LeF64::new(f64::from(x))),
        GgmlType::Q4_0 => blocks::<crate::BlockQ4_0>(src, importance, dst),
        GgmlType::Q4_1 => blocks::<crate::BlockQ4_1>(src, importance, dst),
        GgmlType::Q5_0 => blocks::<crate::BlockQ5_0>(src, importance, dst),
        GgmlType::Q5_1 => blocks::<crate::BlockQ5_1>(src, importance, dst),
        GgmlType::Q8_0 => blocks::<crate::BlockQ8_0>(src, None, dst),
        GgmlType::Q8_1 => blocks::<crate::BlockQ8_1>(src, None, dst),
        GgmlType::Q2_K => blocks::<crate::BlockQ2_K>(src, importance, dst),
        GgmlType::Q3_K => blocks::<crate::BlockQ3_K>(src, importance, dst),
        GgmlType::Q4_K => blocks::<crate::BlockQ4_K>(src, importance, dst),
        GgmlType::Q5_K => blocks::<crate::BlockQ5_K>(src, importance, dst),
        GgmlType::Q6_K => blocks::<crate::BlockQ6_K>(src, importance, dst),
        GgmlType::Q8_K => blocks::<crate::BlockQ8_K>(src, None, dst),
        GgmlType::IQ4_NL => blocks::<crate::BlockIQ4_NL>(src, importance, dst),
        GgmlType::IQ4_XS => blocks::<crate::BlockIQ4_XS>(src, importance, dst),
        GgmlType::TQ1_0 => blocks::<crate::BlockTQ1_0>(src, importance, dst),
        GgmlType::TQ2_0 => blocks::<crate::BlockTQ2_0>(src, importance, dst),
        GgmlType::MXFP4 => blocks::<crate::BlockMXFP4>(src, importance, dst),
        GgmlType::NVFP4 => blocks::<crate::BlockNVFP4>(src, importance, dst),
        _ => return Err(QuantError::CannotQuantize { ty }),
    }
    Ok(())
}

impl GgmlType {
    /// The largest magnitude that [`quantize`] takes: beyond it a scale, a minimum or a sum would not fit its field.
    /// `None` for the types that it cannot write.
    pub const fn max_magnitude(self) -> Option<f32> {
        Some(match self {
            Self::F32 | Self::F64 => f32::MAX,
            // The last floats that do not round to infinity.
            Self::F16 => f32::from_bits(0x477f_efff),
            Self::BF16 => f32::from_bits(0x7f7f_7fff),
            Self::Q4_0 => 8.0 * F16::MAX,
            Self::Q5_0 => 16.0 * F16::MAX,
            Self::Q4_1 | Self::Q5_1 | Self::TQ1_0 | Self::TQ2_0 => F16::MAX,
            Self::Q8_0 => 127.0 * F16::MAX,
            Self::Q8_1 => F16::MAX / 32.0,
            Self::Q2_K => 15.0 * F16::MAX,
            Self::Q3_K => 4.0 * 31.0 * F16::MAX,
            Self::Q4_K | Self::Q5_K => 63.0 * F16::MAX,
            Self::Q6_K => 32.0 * 127.0 * F16::MAX,
            Self::Q8_K => 1e30,
            Self::IQ4_NL => 113.0 * F16::MAX,
            Self::IQ4_XS => 113.0 * 31.0 * F16::MAX,
            // 6 · 2^125: a larger one could round up to 2^128.
            Self::MXFP4 => f32::from_bits(0x7f40_0000),
            Self::NVFP4 => 6.0 * 448.0,
            _ => return None,
        })
    }
}

fn check_values(ty: GgmlType, src: &[f32], limit: f32) -> Result<(), QuantError> {
    // One pass without branches first; the index is wanted only when there is something to say.
    let fine = src.iter().fold(true, |fine, x| fine & (x.abs() <= limit));
    if fine {
        return Ok(());
    }
    match src.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(QuantError::NotFinite { index }),
        None => {
            let index = src.iter().position(|x| x.abs() > limit).unwrap_or(0);
            Err(QuantError::TooLarge { ty, index })
        }
    }
}

fn check_importance(ty: GgmlType, importance: &[f32], values: usize) -> Result<(), QuantError> {
    let len = importance.len();
    let whole_rows = len > 0 && values.is_multiple_of(len) && len.is_multiple_of(ty.block_len());
    if !whole_rows && values > 0 {
        return Err(QuantError::ImportanceLength { ty, len, values });
    }
    match importance
        .iter()
        .position(|w| !(0.0..=f32::MAX).contains(w))
    {
        Some(index) => Err(QuantError::BadImportance { index }),
        None => Ok(()),
    }
}

/// The lengths are checked by the caller, and blocks have alignment 1, so the casts cannot fail.
fn blocks<B: Quantize>(src: &[f32], importance: Option<&[f32]>, dst: &mut [u8]) {
    let src: &[B::Values] = bytemuck::cast_slice(src);
    let dst: &mut [B] = bytemuck::cast_slice_mut(dst);
    let Some(importance) = importance else {
        for (block, values) in dst.iter_mut().zip(src) {
            *block = B::quantize(values, None);
        }
        return;
    };
    let importance: &[B::Values] = bytemuck::cast_slice(importance);
    for ((block, values), importance) in dst.iter_mut().zip(src).zip(importance.iter().cycle()) {
        let mut weights = *importance;
        even_out(bytemuck::cast_slice_mut(core::slice::from_mut(
            &mut weights,
        )));
        *block = B::quantize(values, Some(&weights));
    }
}

/// Brings the weights of a block to at most 1, so that sums of squares stay in range, and to at least a little, so that
/// columns of no importance still get a sensible value.
fn even_out(weights: &mut [f32]) {
    let largest = weights.iter().copied().fold(0.0, f32::max);
    for w in weights {
        *w = if largest > 0.0 {
            (*w / largest).max(1e-5)
        } else {
            1.0
        };
    }
}

fn scalars<T: bytemuck::Pod>(src: &[f32], dst: &mut [u8], from_f32: impl Fn(f32) -> T) {
    let dst: &mut [T] = bytemuck::cast_slice_mut(dst);
    for (out, &value) in dst.iter_mut().zip(src) {
        *out = from_f32(value);
    }
}
