//! Whole forward passes in emulation: golden models, in batches of several kinds.

use crate::compare::{LIMITS, PAGES, STEPS, Side, compare, load, on_processors, root};
use crate::emulation::library;
use crate::lent::Lent;
use crate::split;
use std::path::PathBuf;
use std::sync::Arc;
use strata_gpu::{DeviceError, GpuExecutor, GpuOptions, GpuPart};
use strata_model::{Executor, KvType, Model};
use strata_platform::Inline;

fn emulated(
    model: &Arc<Model>,
    kv: KvType,
    capability: (i32, i32),
) -> Result<Box<dyn Executor>, DeviceError> {
    let options = GpuOptions {
        kv,
        pages: PAGES,
        most_pages: PAGES,
        limits: LIMITS,
        pool: Arc::new(Inline),
        processors: &mut |_| None,
        progress: &mut |_, _| true,
    };
    let library = library().ok_or(DeviceError::NoDriver { of: "emulated" })?;
    let part = GpuPart::whole(strata_cuda::emulated(library, capability)?, model);
    let executor = GpuExecutor::on(vec![part], Arc::clone(model), options)?;
    Ok(Box::new(executor))
}

/// Models that between them have most of what there is: norms and their places, gates, biases, windows, sinks, soft caps,
/// ALiBi, learned positions, experts of several kinds. `STRATA_GOLDEN=all` takes every golden model.
const SOME: &str = "llama gemma2 gpt-oss bloom gpt2 afmoe grok arctic";

#[test]
fn golden_models_have_the_same_bits() {
    if library().is_none() {
        return;
    }
    let folder = root().join("crates/model/tests/golden");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
        .collect();
    paths.sort();
    // All of them take minutes.
    let wanted = std::env::var("STRATA_GOLDEN");
    let wanted = wanted.as_deref().unwrap_or(SOME);
    let wanted: Vec<&str> = wanted.split_whitespace().collect();
    let (mut computed, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for (index, path) in paths.iter().enumerate() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !wanted.contains(&"all") && !wanted.contains(&&*name) {
            continue;
        }
        let model = load(path);
        let kinds = [KvType::F16, KvType::F32, KvType::Q8_0];
        let kv = kinds[index % 3];
        let kv = if model.config().stores_kv(kv) {
            kv
        } else {
            KvType::F16
        };
        match emulated(&model, kv, (8, 0)) {
            Ok(executor) => {
                let ours = Side::new(executor, 3);
                let mut sides = [
                    ours,
                    Side::new(
                        on_processors(&model, kv, (PAGES, LIMITS), Arc::new(Inline)),
                        3,
                    ),
                ];
                let run = || compare(&name, &model, &mut sides, &STEPS);
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    Ok(()) => computed += 1,
                    Err(_) => wrong.push(name),
                }
            }
            Err(DeviceError::Unsupported(_)) => refused.push(name),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    println!(
        "{computed} models have the same bits; refused: {}",
        refused.join(" ")
    );
    assert!(wrong.is_empty(), "wrong: {wrong:?}");
    assert!(
        computed > 0 && (wanted != ["all"] || computed >= 100),
        "only {computed}"
    );
}

/// How layers are shared out is not this crate's: crates/vulkan tests more of it, without an emulation.
#[test]
fn adapters_behind_layers_of_the_processors_give_the_same_bits() {
    if let Some(library) = library() {
        let gpu = || strata_cuda::emulated(library, (8, 0)).unwrap();
        split::same_bits_with_adapters("llama", &[1], &mut || Lent::new(gpu()));
    }
}
