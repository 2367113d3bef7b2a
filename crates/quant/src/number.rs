//! The numbers inside blocks: half floats, one-byte scales and little-endian words, all of alignment 1.

use bytemuck::{Pod, Zeroable};

/// IEEE binary16, as stored in a file.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct F16(pub [u8; 2]);

impl F16 {
    /// The largest finite value.
    pub const MAX: f32 = 65504.0;

    /// The number with these bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits.to_le_bytes())
    }

    /// Sign, exponent and mantissa as one word.
    pub const fn to_bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// The same number in f32; every half has one. NaNs come out quiet, as x86's and ARM's instructions do it.
    #[inline]
    pub const fn to_f32(self) -> f32 {
        let half = self.to_bits() as u32;
        let sign = (half & 0x8000) << 16;
        let magnitude = (half & 0x7fff) << 13;
        let bits = if magnitude >= 0x7c00 << 13 {
            let quiet = if magnitude > 0x7c00 << 13 { 1 << 22 } else { 0 };
            magnitude | 0x7f80_0000 | quiet
        } else if magnitude >= 0x0400 << 13 {
            magnitude + (112 << 23)
        } else {
            // A subnormal is its mantissa times 2^-24: put it under 2^-14 and take 2^-14 away, which is exact.
            let smallest_normal = f32::from_bits(113 << 23);
            (f32::from_bits(magnitude + (113 << 23)) - smallest_normal).to_bits()
        };
        f32::from_bits(sign | bits)
    }

    /// The nearest half, ties to even; beyond the range, infinity.
    #[inline]
    pub const fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        let half = if magnitude > 0x7f80_0000 {
            0x7e00 | ((magnitude >> 13) & 0x3ff)
        } else if magnitude >= 0x477f_f000 {
            0x7c00
        } else if magnitude >= 113 << 23 {
            let round = 0xfff + ((magnitude >> 13) & 1);
            (magnitude + round - (112 << 23)) >> 13
        } else {
            // Next to 0.5 the step of f32 is the step of a subnormal half, so the addition rounds for us.
            (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
        };
        Self::from_bits((sign | half) as u16)
    }

    /// The nearest finite half: what a scale must be, since an infinite one would spoil its block.
    pub(crate) fn from_f32_saturating(value: f32) -> Self {
        Self::from_f32(value.clamp(-Self::MAX, Self::MAX))
    }
}

/// bfloat16, as stored in a file.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct BF16(pub [u8; 2]);

impl BF16 {
    /// The number with these bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits.to_le_bytes())
    }

    /// Sign, exponent and mantissa as one word.
    pub const fn to_bits(self) -> u16 {
        u16::from_le_bytes(self.0)
    }

    /// The same number in f32; every bfloat16 has one.
    #[inline]
    pub const fn to_f32(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }

    /// The nearest bfloat16, ties to even; beyond the range, infinity. NaNs come out quiet.
    #[inline]
    pub const fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = if bits & 0x7fff_ffff > 0x7f80_0000 {
            bits | (0x40 << 16)
        } else {
            bits + 0x7fff + ((bits >> 16) & 1)
        };
        Self::from_bits((rounded >> 16) as u16)
    }
}

/// A power of two in a byte, the scale of MXFP4: 2^(byte − 127).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct E8M0(pub u8);

impl E8M0 {
    /// Half of the scale: FP4's values are kept doubled, to be integers. The byte 255 is no NaN here: ggml reads it as
    /// one more power of two.
    #[inline]
    pub const fn to_f32_half(self) -> f32 {
        f32::from_bits(match self.0 {
            0 => 0x0020_0000,
            1 => 0x0040_0000,
            e => (e as u32 - 1) << 23,
        })
    }
}

/// An unsigned float of 4 exponent and 3 mantissa bits, the scale of NVFP4. The upper bit is not read.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct UE4M3(pub u8);

impl UE4M3 {
    /// The code of the largest value, 448; the one above it stands for NaN.
    pub const MAX: Self = Self(0x7e);

    /// Half of the scale, for FP4 values kept doubled. The NaN code gives 0, as in ggml.
    #[inline]
    pub const fn to_f32_half(self) -> f32 {
        let exponent = (self.0 >> 3) as u32 & 15;
        let mantissa = (self.0 & 7) as u32;
        if self.0 == 0x7f {
            0.0
        } else if exponent == 0 {
            mantissa as f32 / 1024.0
        } else {
            // Bias 7 there and 127 here, and one power less for the half.
            f32::from_bits((exponent + 119) << 23 | mantissa << 20)
        }
    }
}

/// Defines a little-endian number that may lie at any address.
macro_rules! little_endian {
    ($($name:ident, $number:ty, $bytes:literal;)*) => {$(
        #[doc = concat!("A little-endian ", stringify!($number), " at any address.")]
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub [u8; $bytes]);

        impl $name {
            /// Stores the number.
            #[inline]
            pub const fn new(value: $number) -> Self {
                Self(value.to_le_bytes())
            }

            /// Reads the number.
            #[inline]
            pub const fn get(self) -> $number {
                <$number>::from_le_bytes(self.0)
            }
        }
    )*};
}

little_endian! {
    LeU16, u16, 2;
    LeU32, u32, 4;
    LeI16, i16, 2;
    LeI32, i32, 4;
    LeI64, i64, 8;
    LeF32, f32, 4;
    LeF64, f64, 8;
}
