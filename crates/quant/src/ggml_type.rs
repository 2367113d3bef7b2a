//! The tensor types that a GGUF file can name: id, spelling, block length and block size.

/// Writes the enum and its tables from one list, so that they cannot disagree.
macro_rules! ggml_types {
    ($($name:ident = $id:literal: $len:literal values in $bytes:literal bytes, $doc:literal;)*) => {
        /// The type of a tensor's values, with GGUF's ids and spellings.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum GgmlType {
            $(#[doc = $doc] $name = $id,)*
        }

        impl GgmlType {
            /// Every type, by id.
            pub const ALL: &[GgmlType] = &[$(GgmlType::$name),*];

            /// The type that a file means by `id`; ids that ggml retired have none.
            pub const fn from_id(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(GgmlType::$name),)*
                    _ => None,
                }
            }

            /// GGUF's spelling, as in `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(GgmlType::$name => stringify!($name),)*
                }
            }

            /// Values in one block.
            pub const fn block_len(self) -> usize {
                match self {
                    $(GgmlType::$name => $len,)*
                }
            }

            /// Bytes of one block.
            pub const fn block_bytes(self) -> usize {
                match self {
                    $(GgmlType::$name => $bytes,)*
                }
            }
        }
    };
}

ggml_types! {
    F32 = 0: 1 values in 4 bytes, "IEEE binary32.";
    F16 = 1: 1 values in 2 bytes, "IEEE binary16.";
    Q4_0 = 2: 32 values in 18 bytes, "4 bits around zero and a scale.";
    Q4_1 = 3: 32 values in 20 bytes, "4 bits, a scale and a minimum.";
    Q5_0 = 6: 32 values in 22 bytes, "5 bits around zero and a scale.";
    Q5_1 = 7: 32 values in 24 bytes, "5 bits, a scale and a minimum.";
    Q8_0 = 8: 32 values in 34 bytes, "8 bits and a scale.";
    Q8_1 = 9: 32 values in 36 bytes, "8 bits, a scale and the scaled sum (an activation format).";
    Q2_K = 10: 256 values in 84 bytes, "2 bits; 16 groups with 4-bit scales and minima.";
    Q3_K = 11: 256 values in 110 bytes, "3 bits; 16 groups with 6-bit scales.";
    Q4_K = 12: 256 values in 144 bytes, "4 bits; 8 groups with 6-bit scales and minima.";
    Q5_K = 13: 256 values in 176 bytes, "5 bits; 8 groups with 6-bit scales and minima.";
    Q6_K = 14: 256 values in 210 bytes, "6 bits; 16 groups with 8-bit scales.";
    Q8_K = 15: 256 values in 292 bytes, "8 bits, an f32 scale and group sums (an activation format).";
    IQ2_XXS = 16: 256 values in 66 bytes, "2.06 bits a value: 8-value points of a 256-entry grid.";
    IQ2_XS = 17: 256 values in 74 bytes, "2.31 bits a value: 8-value points of a 512-entry grid.";
    IQ3_XXS = 18: 256 values in 98 bytes, "3.06 bits a value: 4-value points of a 256-entry grid.";
    IQ1_S = 19: 256 values in 50 bytes, "1.56 bits a value: 8-value points of a 2048-entry grid.";
    IQ4_NL = 20: 32 values in 18 bytes, "4 bits on a non-linear scale.";
    IQ3_S = 21: 256 values in 110 bytes, "3.44 bits a value: 4-value points of a 512-entry grid.";
    IQ2_S = 22: 256 values in 82 bytes, "2.56 bits a value: 8-value points of a 1024-entry grid.";
    IQ4_XS = 23: 256 values in 136 bytes, "4 bits on a non-linear scale; 8 groups with 6-bit scales.";
    I8 = 24: 1 values in 1 bytes, "Signed 8-bit integers.";
    I16 = 25: 1 values in 2 bytes, "Signed 16-bit integers.";
    I32 = 26: 1 values in 4 bytes, "Signed 32-bit integers.";
    I64 = 27: 1 values in 8 bytes, "Signed 64-bit integers.";
    F64 = 28: 1 values in 8 bytes, "IEEE binary64.";
    IQ1_M = 29: 256 values in 56 bytes, "1.75 bits a value: the grid of IQ1_S with finer scales.";
    BF16 = 30: 1 values in 2 bytes, "The upper half of a binary32.";
    TQ1_0 = 34: 256 values in 54 bytes, "Ternary, five values a byte.";
    TQ2_0 = 35: 256 values in 66 bytes, "Ternary, four values a byte.";
    MXFP4 = 39: 32 values in 17 bytes, "E2M1 with a power-of-two scale (OCP microscaling).";
    NVFP4 = 40: 64 values in 36 bytes, "E2M1; 4 groups with E4M3 scales.";
}

impl GgmlType {
    /// The id that a file stores.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The type with this spelling, whatever its case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|ty| ty.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of a row of `cols` values; `None` when that is not whole blocks, or overflows.
    pub const fn row_bytes(self, cols: u64) -> Option<u64> {
        let len = self.block_len() as u64;
        if !cols.is_multiple_of(len) {
            return None;
        }
        (cols / len).checked_mul(self.block_bytes() as u64)
    }
}

impl core::fmt::Display for GgmlType {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::GgmlType;

    #[test]
    fn ids_and_names_lead_back() {
        for &ty in GgmlType::ALL {
            assert_eq!(GgmlType::from_id(ty.id()), Some(ty));
            assert_eq!(GgmlType::from_name(ty.name()), Some(ty));
            assert_eq!(
                GgmlType::from_name(&ty.name().to_ascii_lowercase()),
                Some(ty)
            );
        }
        assert_eq!(GgmlType::from_name("Q4_k"), Some(GgmlType::Q4_K));
        assert_eq!(GgmlType::from_name("Q4_M"), None);
        for retired in [4, 5, 31, 32, 33, 36, 37, 38, u32::MAX] {
            assert_eq!(GgmlType::from_id(retired), None, "{retired}");
        }
    }

    #[test]
    fn rows_are_whole_blocks() {
        assert_eq!(GgmlType::Q4_K.row_bytes(4096), Some(16 * 144));
        assert_eq!(GgmlType::Q4_K.row_bytes(0), Some(0));
        assert_eq!(GgmlType::Q4_K.row_bytes(4095), None);
        assert_eq!(GgmlType::F32.row_bytes(u64::MAX), None);
        assert_eq!(GgmlType::F64.row_bytes(1 << 61), None);
        assert_eq!(GgmlType::I8.row_bytes(u64::MAX), Some(u64::MAX));
    }
}
