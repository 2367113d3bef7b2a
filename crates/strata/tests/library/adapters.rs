//! LoRA adapters, which requests ask for by number.

use crate::devices::{present, vulkan};
use crate::support::{Tensor, gguf, open, tale, tale_file};
use std::path::Path;
use strata::{ErrorKind, GpuLayers, Model, Options};
use strata_weights::gguf::Builder;
use strata_weights::{GgmlType, Gguf};

const RANK: u64 = 2;

/// Writes an adapter that changes the built-in model's attention at random.
fn write_adapter(path: &Path, seed: u32) {
    let file = tale_file();
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
    let mut tensors = Vec::new();
    let changed = |name: &str| name.ends_with("attn_output.weight");
    for tensor in parsed.tensors().iter().filter(|t| changed(t.name)) {
        let (columns, rows) = (tensor.dims[0], tensor.dims[1]);
        for (half, dims) in [("a", [columns, RANK]), ("b", [RANK, rows])] {
            let values = (0..dims[0] * dims[1]).flat_map(|_| noise().to_le_bytes());
            tensors.push(Tensor {
                name: format!("{}.lora_{half}", tensor.name),
                ty: GgmlType::F32,
                dims: dims.to_vec(),
                data: values.collect(),
            });
        }
    }
    std::fs::write(path, gguf(builder, &tensors)).unwrap();
}

fn ask(model: &Model, adapters: &[(usize, f32)]) -> String {
    let request = model.complete("Once upon a time").temperature(0.0);
    let request = adapters.iter().fold(request, |request, &(number, scale)| {
        request.adapter(number, scale)
    });
    request.max_tokens(16).text().unwrap()
}

#[test]
fn a_request_has_the_adapter_that_it_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["one.gguf", "two.gguf"].map(|name| folder.path().join(name));
    write_adapter(&paths[0], 1);
    write_adapter(&paths[1], 2);
    let options = Options::default().adapter(&paths[0], 0.0);
    let model = open("tale", options.adapter(&paths[1], 0.0)).unwrap();
    let plain = ask(tale(), &[]);
    let (one, two) = (ask(&model, &[(0, 1.0)]), ask(&model, &[(1, 1.0)]));
    assert_eq!(ask(&model, &[]), plain);
    assert_eq!(ask(&model, &[(0, 0.0)]), plain);
    assert!(
        one != plain && two != plain && one != two,
        "{one:?} {two:?}"
    );
    assert_eq!(ask(&model, &[(0, 1.0)]), one);
    let refused = model.complete("a").adapter(2, 1.0).text().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    // The strength that it was opened with is for requests that ask for none.
    let model = open("tale", Options::default().adapter(&paths[1], 1.0)).unwrap();
    assert_eq!(ask(&model, &[]), two);
    assert_eq!(ask(&model, &[(0, 0.0)]), plain);
    assert_eq!(model.worker().adapters().count(), 1);
}

#[test]
fn a_gpu_computes_with_adapters_as_the_processors_do() {
    if !present() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.gguf");
    write_adapter(&path, 1);
    let options = Options::default().context(128).adapter(&path, 0.0);
    let here = open("tale", options.clone()).unwrap();
    let split = options.device(vulkan()).gpu_layers(GpuLayers::Last(4));
    let there = open("tale", split).unwrap();
    for adapters in [&[(0, 1.0)][..], &[], &[(0, 0.5)]] {
        assert_eq!(ask(&there, adapters), ask(&here, adapters));
    }
}
