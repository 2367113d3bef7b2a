//! The element types of checkpoints.

use strata_quant::{GgmlType, dequantize};

/// The type of a checkpoint's elements.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Dtype {
    F64,
    F32,
    F16,
    BF16,
    F8E4M3,
    F8E5M2,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl Dtype {
    /// The type that a safetensors header spells so.
    pub fn from_safetensors(name: &str) -> Option<Dtype> {
        Some(match name {
            "F64" => Dtype::F64,
            "F32" => Dtype::F32,
            "F16" => Dtype::F16,
            "BF16" => Dtype::BF16,
            "F8_E4M3" => Dtype::F8E4M3,
            "F8_E5M2" => Dtype::F8E5M2,
            "I64" => Dtype::I64,
            "I32" => Dtype::I32,
            "I16" => Dtype::I16,
            "I8" => Dtype::I8,
            "U64" => Dtype::U64,
            "U32" => Dtype::U32,
            "U16" => Dtype::U16,
            "U8" => Dtype::U8,
            "BOOL" => Dtype::Bool,
            _ => return None,
        })
    }

    /// The type of the storage that PyTorch calls so.
    pub fn from_torch_storage(name: &str) -> Option<Dtype> {
        Some(match name {
            "DoubleStorage" => Dtype::F64,
            "FloatStorage" => Dtype::F32,
            "HalfStorage" => Dtype::F16,
            "BFloat16Storage" => Dtype::BF16,
            "LongStorage" => Dtype::I64,
            "IntStorage" => Dtype::I32,
            "ShortStorage" => Dtype::I16,
            "CharStorage" => Dtype::I8,
            "ByteStorage" => Dtype::U8,
            "BoolStorage" => Dtype::Bool,
            _ => return None,
        })
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => 8,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::BF16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::I8 | Dtype::U8 | Dtype::Bool => 1,
        }
    }

    /// Whether the elements are floats, as weights are.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F8E4M3 | Dtype::F8E5M2
        )
    }

    /// The GGUF type with the same bytes.
    pub const fn ggml(self) -> Option<GgmlType> {
        Some(match self {
            Dtype::F64 => GgmlType::F64,
            Dtype::F32 => GgmlType::F32,
            Dtype::F16 => GgmlType::F16,
            Dtype::BF16 => GgmlType::BF16,
            Dtype::I64 => GgmlType::I64,
            Dtype::I32 => GgmlType::I32,
            Dtype::I16 => GgmlType::I16,
            Dtype::I8 => GgmlType::I8,
            _ => return None,
        })
    }

    /// Reads elements side by side as floats; `None` unless the type is a float and the lengths agree.
    pub(crate) fn floats(self, bytes: &[u8], out: &mut [f32]) -> Option<()> {
        match self {
            Dtype::F8E4M3 | Dtype::F8E5M2 if bytes.len() == out.len() => {
                for (value, &byte) in out.iter_mut().zip(bytes) {
                    *value = match self {
                        Dtype::F8E4M3 => e4m3(byte),
                        _ => e5m2(byte),
                    };
                }
                Some(())
            }
            _ if self.is_float() => dequantize(self.ggml()?, bytes, out).ok(),
            _ => None,
        }
    }
}

impl core::fmt::Display for Dtype {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(self, f)
    }
}

/// 4 exponent bits with a bias of 7, 3 of mantissa, no infinities (OCP FP8 E4M3).
fn e4m3(byte: u8) -> f32 {
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (byte >> 3 & 15, byte & 7);
    sign * match (exponent, mantissa) {
        (15, 7) => f32::NAN,
        (0, m) => f32::from(m) / 512.0,
        (e, m) => f32::from_bits((u32::from(e) + 120) << 23 | u32::from(m) << 20),
    }
}

/// The upper byte of a half float.
fn e5m2(byte: u8) -> f32 {
    strata_quant::F16::from_bits(u16::from(byte) << 8).to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bit_floats_have_their_published_values() {
        for (byte, value) in [
            (0x00, 0.0),
            (0x01, 1.0 / 512.0),
            (0x08, 1.0 / 64.0),
            (0x38, 1.0),
            (0x7e, 448.0),
            (0xb8, -1.0),
        ] {
            assert_eq!(e4m3(byte), value, "{byte:02x}");
        }
        assert!(e4m3(0x7f).is_nan());
        assert_eq!(e5m2(0x3c), 1.0);
        assert_eq!(e5m2(0x7b), 57344.0);
        assert!(e5m2(0x7c).is_infinite());
    }
}
