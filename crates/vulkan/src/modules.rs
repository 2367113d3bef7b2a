//! The kernels, compiled ahead by `cargo xtask vulkan`. The driver brings them to the device's own code.

use ash::vk;

/// A module, and what its constant of its own is.
pub(crate) struct Module {
    pub(crate) name: &'static str,
    pub(crate) constant: u32,
    /// Whether it fuses by way of 64-bit floats on any device.
    pub(crate) doubles: bool,
}

macro_rules! modules {
    ($($name:literal)*) => {
        /// By name, without 64-bit floats and with them.
        const MODULES: &[(&str, [&[u8]; 2])] = &[$((
            $name,
            [
                include_bytes!(concat!("../spirv/", $name, ".spv.z")),
                include_bytes!(concat!("../spirv/", $name, "_f64.spv.z")),
            ],
        )),*];
    };
}

modules! {
    "activate" "adapter_add" "adapter_weights" "choose_experts" "expert_inputs" "finish_mixed" "float" "gather_experts" "join_chunks" "logits"
    "output_rows" "project_heads" "residual" "self_test" "attend_1" "attend_2" "attend_4"
    "gemv_Q4_0" "gemv_Q4_1" "gemv_Q5_0" "gemv_Q5_1" "gemv_Q8_0" "gemv_IQ4_NL" "gemv_MXFP4"
    "gemv_Q4_K" "gemv_Q5_K" "gemv_Q6_K" "gemv_Q3_K" "gemv_Q2_K" "gemv_IQ4_XS"
    "tiles_Q4_0" "tiles_Q4_1" "tiles_Q5_0" "tiles_Q5_1" "tiles_Q8_0" "tiles_IQ4_NL" "tiles_MXFP4"
    "tiles_Q4_K" "tiles_Q5_K" "tiles_Q6_K" "tiles_Q3_K" "tiles_Q2_K" "tiles_IQ4_XS"
}

impl Module {
    /// What a kernel of this name is.
    pub(crate) fn of(kernel: &str) -> Option<Self> {
        let kinds = ["KV_F32", "KV_F16", "KV_Q8_0"];
        let (name, constant) = match kernel {
            "self_test_f64" => ("self_test", 0),
            "add_norm" => ("residual", 0),
            "activate_rows" => ("activate", 0),
            "activate_norm" => ("activate", 1),
            "finish_logits" => ("logits", 0),
            "float_f32" => ("float", 0),
            "float_f16" => ("float", 1),
            "float_bf16" => ("float", 2),
            _ => match kernel.strip_prefix("attend_") {
                None => (kernel, 0),
                Some(rest) => {
                    let (kind, heads) = rest.rsplit_once('_')?;
                    let kind = kinds.iter().position(|name| *name == kind)?;
                    let name = match heads {
                        "1" => "attend_1",
                        "2" => "attend_2",
                        _ => "attend_4",
                    };
                    (name, kind as u32)
                }
            },
        };
        let (name, _) = MODULES.iter().find(|(known, _)| *known == name)?;
        Some(Self {
            name,
            constant,
            doubles: kernel == "self_test_f64",
        })
    }
}

/// The words of a module, which fuses by way of 64-bit floats or not.
pub(crate) fn words(name: &str, doubles: bool) -> Option<Vec<u32>> {
    let (_, packed) = MODULES.iter().find(|(known, _)| *known == name)?;
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib(packed[usize::from(doubles)]).ok()?;
    let words = bytes.as_chunks::<4>().0.iter();
    Some(words.map(|word| u32::from_le_bytes(*word)).collect())
}

/// Capabilities and modes of SPIR-V (`SPV_KHR_float_controls`): small numbers stay, zeros keep their signs and infinities are
/// there, results are rounded to the nearest.
const DENORM_PRESERVE: (u32, u32) = (4464, 4459);
const SIGNED_ZERO_INF_NAN_PRESERVE: (u32, u32) = (4466, 4461);
const ROUNDING_MODE_RTE: (u32, u32) = (4467, 4462);

/// What a device promises of 32-bit floats where it is asked to.
pub(crate) fn float_controls(
    properties: &vk::PhysicalDeviceFloatControlsProperties<'_>,
) -> Vec<(u32, u32)> {
    let known = [
        (properties.shader_denorm_preserve_float32, DENORM_PRESERVE),
        (
            properties.shader_signed_zero_inf_nan_preserve_float32,
            SIGNED_ZERO_INF_NAN_PRESERVE,
        ),
        (
            properties.shader_rounding_mode_rte_float32,
            ROUNDING_MODE_RTE,
        ),
    ];
    let promised = known.into_iter().filter(|(promised, _)| *promised != 0);
    promised.map(|(_, control)| control).collect()
}

/// Instructions of SPIR-V.
const ENTRY_POINT: u16 = 15;
const EXECUTION_MODE: u32 = 16;
const CAPABILITY: u32 = 17;
/// Words before them.
const HEADER: usize = 5;

/// The module with controls of its 32-bit floats.
pub(crate) fn with_controls(words: &[u32], controls: &[(u32, u32)]) -> Vec<u32> {
    let mut out = words[..HEADER].to_vec();
    out.extend(
        controls
            .iter()
            .flat_map(|(capability, _)| [2 << 16 | CAPABILITY, *capability]),
    );
    let mut rest = &words[HEADER..];
    while let Some(&first) = rest.first() {
        let len = ((first >> 16) as usize).clamp(1, rest.len());
        let (instruction, after) = rest.split_at(len);
        out.extend(instruction);
        if first as u16 == ENTRY_POINT {
            let main = instruction[2];
            out.extend(
                controls
                    .iter()
                    .flat_map(|(_, mode)| [4 << 16 | EXECUTION_MODE, main, *mode, 32]),
            );
        }
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{MODULES, Module, words};
    use std::collections::HashSet;

    #[test]
    fn no_operation_on_floats_may_be_joined() {
        let both = |(name, _): &(&'static str, _)| [(*name, false), (*name, true)];
        for (name, doubles) in MODULES.iter().flat_map(both) {
            let words = words(name, doubles).unwrap();
            let (mut decorated, mut arithmetic) = (HashSet::new(), HashSet::new());
            let mut rest = &words[5..];
            while let Some(&first) = rest.first() {
                let (instruction, after) = rest.split_at((first >> 16) as usize);
                match first as u16 {
                    71 if instruction[2] == 42 => {
                        decorated.insert(instruction[1]);
                    }
                    127 | 129 | 131 | 133 | 136 => {
                        arithmetic.insert(instruction[2]);
                    }
                    _ => {}
                }
                rest = after;
            }
            assert!(!arithmetic.is_empty(), "{name}");
            assert!(arithmetic.is_subset(&decorated), "{name}");
        }
    }

    #[test]
    fn kernels_have_modules() {
        for name in ["add_norm", "attend_KV_F16_2", "gemv_Q4_K", "float_bf16"] {
            assert!(Module::of(name).is_some(), "{name}");
        }
        for name in ["", "attend_KV_F64_2", "gemv_Q9", "prompt_KV_F16_64"] {
            assert!(Module::of(name).is_none(), "{name}");
        }
    }
}
