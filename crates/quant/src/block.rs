//! What every block format has in common.

use bytemuck::Pod;

use crate::GgmlType;

/// One block of a tensor, laid out as in the file: any bytes of the right length are a block.
pub trait Block: Pod {
    /// The tensor type made of these blocks.
    const TYPE: GgmlType;

    /// An array of the block's values.
    type Values: Pod;

    /// The values of the block, in the order of the row.
    fn dequantize(&self, out: &mut Self::Values);
}

/// A block that can be made from floats.
pub trait Quantize: Block {
    /// The block that stands nearest to `values`, which must be finite and within the type's range
    /// ([`GgmlType::max_magnitude`]). With `weights` (finite, positive, of ordinary size) the types that search for
    /// their scales minimise the weighted squared error; without, the squared error.
    fn quantize(values: &Self::Values, weights: Option<&Self::Values>) -> Self;
}

/// Ties a block struct to its type, and refuses to compile when their sizes disagree.
macro_rules! block {
    ($block:ident, $ty:ident, $len:literal, $bytes:literal) => {
        const _: () = {
            assert!(size_of::<$block>() == $bytes);
            assert!(align_of::<$block>() == 1);
            assert!($crate::GgmlType::$ty.block_bytes() == $bytes);
            assert!($crate::GgmlType::$ty.block_len() == $len);
        };

        impl $crate::Block for $block {
            const TYPE: $crate::GgmlType = $crate::GgmlType::$ty;
            type Values = [f32; $len];

            #[inline]
            fn dequantize(&self, out: &mut [f32; $len]) {
                // The inherent method: inherent names win over the trait's.
                $block::dequantize(self, out);
            }
        }
    };
}
pub(crate) use block;
