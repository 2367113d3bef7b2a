//! From the bytes of any type to floats.

use crate::number::{BF16, F16, LeF32, LeF64, LeI16, LeI32, LeI64};
use crate::{Block, GgmlType, QuantError};
use crate::{fp4, iq, k, legacy, ternary};

/// Reads `src`, whole blocks of `ty`, into `dst`, which must have room for exactly its values.
///
/// The results are the same bits as those of the `gguf` Python package. Integers and doubles are rounded to f32.
pub fn dequantize(ty: GgmlType, src: &[u8], dst: &mut [f32]) -> Result<(), QuantError> {
    check_lengths(ty, src.len(), dst.len())?;
    match ty {
        GgmlType::F32 => scalars(src, dst, LeF32::get),
        GgmlType::F16 => scalars(src, dst, F16::to_f32),
        GgmlType::BF16 => scalars(src, dst, BF16::to_f32),
        GgmlType::F64 => scalars(src, dst, |x: LeF64| x.get() as f32),
        GgmlType::I8 => scalars(src, dst, |x: i8| f32::from(x)),
        GgmlType::I16 => scalars(src, dst, |x: LeI16| f32::from(x.get())),
        GgmlType::I32 => scalars(src, dst, |x: LeI32| x.get() as f32),
        GgmlType::I64 => scalars(src, dst, |x: LeI64| x.get() as f32),
        GgmlType::Q4_0 => blocks::<legacy::BlockQ4_0>(src, dst),
        GgmlType::Q4_1 => blocks::<legacy::BlockQ4_1>(src, dst),
        GgmlType::Q5_0 => blocks::<legacy::BlockQ5_0>(src, dst),
        GgmlType::Q5_1 => blocks::<legacy::BlockQ5_1>(src, dst),
        GgmlType::Q8_0 => blocks::<legacy::BlockQ8_0>(src, dst),
        GgmlType::Q8_1 => blocks::<legacy::BlockQ8_1>(src, dst),
        GgmlType::Q2_K => blocks::<k::BlockQ2_K>(src, dst),
        GgmlType::Q3_K => blocks::<k::BlockQ3_K>(src, dst),
        GgmlType::Q4_K => blocks::<k::BlockQ4_K>(src, dst),
        GgmlType::Q5_K => blocks::<k::BlockQ5_K>(src, dst),
        GgmlType::Q6_K => blocks::<k::BlockQ6_K>(src, dst),
        GgmlType::Q8_K => blocks::<k::BlockQ8_K>(src, dst),
        GgmlType::IQ1_S => blocks::<iq::BlockIQ1_S>(src, dst),
        GgmlType::IQ1_M => blocks::<iq::BlockIQ1_M>(src, dst),
        GgmlType::IQ2_XXS => blocks::<iq::BlockIQ2_XXS>(src, dst),
        GgmlType::IQ2_XS => blocks::<iq::BlockIQ2_XS>(src, dst),
        GgmlType::IQ2_S => blocks::<iq::BlockIQ2_S>(src, dst),
        GgmlType::IQ3_XXS => blocks::<iq::BlockIQ3_XXS>(src, dst),
        GgmlType::IQ3_S => blocks::<iq::BlockIQ3_S>(src, dst),
        GgmlType::IQ4_NL => blocks::<iq::BlockIQ4_NL>(src, dst),
        GgmlType::IQ4_XS => blocks::<iq::BlockIQ4_XS>(src, dst),
        GgmlType::TQ1_0 => blocks::<ternary::BlockTQ1_0>(src, dst),
        GgmlType::TQ2_0 => blocks::<ternary::BlockTQ2_0>(src, dst),
        GgmlType::MXFP4 => blocks::<fp4::BlockMXFP4>(src, dst),
        GgmlType::NVFP4 => blocks::<fp4::BlockNVFP4>(src, dst),
    }
    Ok(())
}

/// Whole blocks, and bytes as many as they take.
pub(crate) fn check_lengths(ty: GgmlType, bytes: usize, values: usize) -> Result<(), QuantError> {
    if !values.is_multiple_of(ty.block_len()) {
        return Err(QuantError::PartialBlock { ty, len: values });
    }
    // The product fits: a block is at most 8 bytes for a value, and the values are 4 bytes each in memory.
    let expected = (values / ty.block_len()).saturating_mul(ty.block_bytes());
    if bytes != expected {
        return Err(QuantError::ByteLength {
            ty,
            values,
            expected,
            actual: bytes,
        });
    }
    Ok(())
}

/// The lengths are checked by the caller, and blocks have alignment 1, so the casts cannot fail.
fn blocks<B: Block>(src: &[u8], dst: &mut [f32]) {
    let src: &[B] = bytemuck::cast_slice(src);
    let dst: &mut [B::Values] = bytemuck::cast_slice_mut(dst);
    for (block, out) in src.iter().zip(dst) {
        block.dequantize(out);
    }
}

fn scalars<T: bytemuck::Pod>(src: &[u8], dst: &mut [f32], to_f32: impl Fn(T) -> f32) {
    let src: &[T] = bytemuck::cast_slice(src);
    for (out, &value) in dst.iter_mut().zip(src) {
        *out = to_f32(value);
    }
}
