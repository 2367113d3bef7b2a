//! Products and sums rounded once, as `VK_KHR_shader_fma` promises them: where a device has it, kernels fuse by its
//! instruction (`SPV_KHR_fma`) instead of the one that may be rounded twice. The self-test looks at either.
#![allow(unsafe_code)]

use ash::vk;
use std::ffi::{CStr, c_void};

/// The device's extension.
pub(crate) const NAME: &CStr = c"VK_KHR_shader_fma";

/// What a device has of it, and what is asked for: `VkPhysicalDeviceShaderFmaFeaturesKHR`.
#[repr(C)]
pub(crate) struct ShaderFma {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    half: vk::Bool32,
    single: vk::Bool32,
    double: vk::Bool32,
}

// SAFETY: the specification lets the struct extend both, and it has their header.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for ShaderFma {}
// SAFETY: likewise.
unsafe impl vk::ExtendsDeviceCreateInfo for ShaderFma {}

impl ShaderFma {
    /// With the operation on 32-bit floats, or without.
    pub(crate) fn new(single: bool) -> Self {
        Self {
            s_type: vk::StructureType::from_raw(1_000_579_000),
            p_next: std::ptr::null_mut(),
            half: vk::FALSE,
            single: single.into(),
            double: vk::FALSE,
        }
    }

    /// Whether 32-bit floats are fused so.
    pub(crate) fn has_single(&self) -> bool {
        self.single != vk::FALSE
    }
}

/// Instructions of SPIR-V.
const EXTENSION: u16 = 10;
const IMPORT: u16 = 11;
const IMPORTED: u16 = 12;
const CAPABILITY: u32 = 17;
const TYPE_FLOAT: u16 = 22;
const FUSE: u32 = 4427;
/// The capability, and its extension.
const FUSES: u32 = 6030;
const FUSES_NAME: &[u8; 12] = b"SPV_KHR_fma\0";
/// `Fma` among the imported ones (GLSL.std.450).
const FMA: u32 = 50;
/// Words before the instructions.
const HEADER: usize = 5;

/// The instructions after the header; one that is cut short ends them.
fn instructions(words: &[u32]) -> impl Iterator<Item = (u16, &[u32])> {
    let mut rest = words.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let (instruction, after) = rest.split_at_checked(((first >> 16) as usize).max(1))?;
        rest = after;
        Some((first as u16, instruction))
    })
}

/// The module with that instruction for 32-bit floats in the place of the imported one.
pub(crate) fn with_fused(words: &[u32]) -> Vec<u32> {
    let single = instructions(words).find_map(|(op, instruction)| match (op, instruction) {
        (TYPE_FLOAT, &[_, id, 32]) => Some(id),
        _ => None,
    });
    let mut out = words[..HEADER].to_vec();
    out.extend([2 << 16 | CAPABILITY, FUSES]);
    let mut named = false;
    for (op, instruction) in instructions(words) {
        if op == IMPORT && !named {
            // Extensions come after capabilities and before imports.
            out.push(4 << 16 | u32::from(EXTENSION));
            let name = FUSES_NAME.as_chunks::<4>().0;
            out.extend(name.iter().map(|bytes| u32::from_le_bytes(*bytes)));
            named = true;
        }
        match (op, instruction) {
            (IMPORTED, &[_, ty, id, _, FMA, x, y, z]) if Some(ty) == single => {
                out.extend([6 << 16 | FUSE, ty, id, x, y, z]);
            }
            _ => out.extend(instruction),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{FMA, FUSE, FUSES, IMPORTED, instructions, with_fused};
    use crate::modules::words;

    #[test]
    fn kernels_fuse_by_the_instruction_that_is_rounded_once() {
        for (name, doubles) in [("self_test", false), ("residual", true), ("float", false)] {
            let plain = words(name, doubles).unwrap();
            let fused = with_fused(&plain);
            let imported = |words: &[u32]| {
                let all = instructions(words);
                all.filter(|(op, i)| *op == IMPORTED && i.get(4) == Some(&FMA))
                    .count()
            };
            let own = instructions(&fused).filter(|(op, _)| u32::from(*op) == FUSE);
            assert!(imported(&plain) > 0, "{name}");
            assert_eq!(
                (own.count(), imported(&fused)),
                (imported(&plain), 0),
                "{name}"
            );
            // Nothing else has changed but the capability and the name of its extension.
            let lost = 2 * imported(&plain);
            assert_eq!(fused.len(), plain.len() + 2 + 4 - lost, "{name}");
            assert_eq!(fused[6], FUSES);
            let ops: Vec<u16> = instructions(&fused).map(|(op, _)| op).collect();
            assert!(
                ops.is_sorted_by_key(|op| match op {
                    17 => 0,
                    10 => 1,
                    11 => 2,
                    _ => 3,
                }),
                "{name}"
            );
        }
    }
}
