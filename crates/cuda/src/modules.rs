//! The kernels, compiled ahead by `cargo xtask cuda`. The driver brings them to the GPU's own code.

/// A module and its text for each generation of GPUs.
struct Module {
    name: &'static str,
    /// From compute capability 7.5, 8.0 and 9.0 on.
    texts: [&'static [u8]; 3],
}

macro_rules! modules {
    ($($name:literal)*) => {
        const MODULES: &[Module] = &[$(Module {
            name: $name,
            texts: [
                include_bytes!(concat!("../ptx/sm_75/", $name, ".ptx.z")),
                include_bytes!(concat!("../ptx/sm_80/", $name, ".ptx.z")),
                include_bytes!(concat!("../ptx/sm_90/", $name, ".ptx.z")),
            ],
        }),*];
    };
}

modules! {
    "adapter" "attention" "experts" "ffn" "float" "mixed" "projection" "residual"
    "matmul_Q4_0" "matmul_Q4_1" "matmul_Q5_0" "matmul_Q5_1" "matmul_Q8_0"
    "matmul_Q2_K" "matmul_Q3_K" "matmul_Q4_K" "matmul_Q5_K" "matmul_Q6_K"
    "matmul_IQ4_NL" "matmul_IQ4_XS" "matmul_MXFP4"
}

/// The text of a module for a GPU.
pub(crate) fn find(name: &str, capability: (i32, i32)) -> Option<Vec<u8>> {
    let module = MODULES.iter().find(|module| module.name == name)?;
    let text = match capability {
        (9.., _) => 2,
        (8, _) => 1,
        _ => 0,
    };
    miniz_oxide::inflate::decompress_to_vec_zlib(module.texts[text]).ok()
}
