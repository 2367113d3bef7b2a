//! Adapters for the built-in model, for the tests of every language.

use std::path::Path;
use strata_weights::gguf::Builder;
use strata_weights::{GgmlType, Gguf};

const RANK: u64 = 2;

/// Writes an adapter that changes the built-in model's attention at random.
pub(crate) fn write_adapter(path: &Path, seed: u32) {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf");
    let file = std::fs::read(model).unwrap();
    let parsed = Gguf::parse(&file).unwrap();
    let mut builder = Builder::new();
    let arch = parsed.metadata().str("general.architecture").unwrap();
    builder.set("general.architecture", arch.unwrap()).unwrap();
    builder.set("general.type", "adapter").unwrap();
    builder.set("adapter.type", "lora").unwrap();
    builder.set("adapter.lora.alpha", RANK as f32).unwrap();
    let mut state = seed;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.3 * (state as i32 as f32 / i32::MAX as f32)
    };
    let mut data: Vec<Vec<u8>> = Vec::new();
    let changed = |name: &str| name.ends_with("attn_output.weight");
    for tensor in parsed.tensors().iter().filter(|t| changed(t.name)) {
        let (columns, rows) = (tensor.dims[0], tensor.dims[1]);
        for (half, dims) in [("a", [columns, RANK]), ("b", [RANK, rows])] {
            let name = format!("{}.lora_{half}", tensor.name);
            builder.tensor(&name, GgmlType::F32, &dims).unwrap();
            let values = (0..dims[0] * dims[1]).flat_map(|_| noise().to_le_bytes());
            data.push(values.collect());
        }
    }
    let layout = builder.finish().unwrap();
    let mut file = layout.header;
    let start = file.len();
    file.resize(layout.total_len as usize, 0);
    for (extent, bytes) in layout.tensors.iter().zip(&data) {
        let place = start + extent.offset as usize;
        file[place..place + bytes.len()].copy_from_slice(bytes);
    }
    std::fs::write(path, file).unwrap();
}

/// Writes them where `cargo xtask test-bindings` wants them.
#[test]
fn adapters_are_written_for_other_languages() {
    let place = tempfile::tempdir().unwrap();
    let given = std::env::var_os("STRATA_ADAPTER_FOLDER");
    let folder = given.as_ref().map_or(place.path(), Path::new);
    for (name, seed) in [("one.gguf", 1), ("two.gguf", 2)] {
        write_adapter(&folder.join(name), seed);
        assert!(std::fs::metadata(folder.join(name)).unwrap().len() > 10_000);
    }
}
