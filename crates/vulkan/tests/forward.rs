//! Whole forward passes: golden models in batches of several kinds, the built-in model's own text.

use crate::compare::{LIMITS, PAGES, STEPS, Side, compare, load, on_processors, root};
use crate::lent::Lent;
use crate::present;
use std::path::PathBuf;
use std::sync::Arc;
use strata_gpu::{DeviceError, GpuExecutor, GpuOptions, GpuPart};
use strata_model::{BatchLimits, Executor, KvType, Model, Output};
use strata_platform::Inline;
use strata_vulkan::{Exactness, backend_at_most};

fn lent(at_most: Option<Exactness>) -> Lent {
    Lent::new(backend_at_most(0, at_most).unwrap().0)
}

fn on_device(
    model: &Arc<Model>,
    kv: KvType,
    (pages, limits): (usize, BatchLimits),
    device: &Lent,
) -> Result<Box<dyn Executor>, DeviceError> {
    let options = GpuOptions {
        kv,
        pages,
        most_pages: pages,
        limits,
        pool: Arc::new(Inline),
        processors: &mut |_| None,
        progress: &mut |_, _| true,
    };
    let part = GpuPart::whole(Box::new(device.clone()), model);
    let executor = GpuExecutor::on(vec![part], Arc::clone(model), options)?;
    Ok(Box::new(executor))
}

/// Models that between them have most of what there is: norms and their places, gates, biases, windows, sinks, soft caps,
/// ALiBi, learned positions, experts of several kinds. `STRATA_GOLDEN=all` takes every golden model.
const SOME: &str = "llama gemma2 gpt-oss bloom gpt2 afmoe grok arctic";

#[test]
fn golden_models_have_the_same_bits() {
    if !present() {
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
    let device = lent(None);
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
        let room = (PAGES, LIMITS);
        match on_device(&model, kv, room, &device) {
            Ok(executor) => {
                let processors = on_processors(&model, kv, room, Arc::new(Inline));
                let mut sides = [Side::new(executor, 3), Side::new(processors, 3)];
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

fn greatest(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    best.unwrap() as u32
}

/// Greedy text after a prompt that comes in chunks, past one chunk of attention, beside a second sequence.
fn tale(at_most: Option<Exactness>, prompt: usize, more: usize) {
    let model = load(&root().join("models/tale/tale-q4_k_m.gguf"));
    let limits = BatchLimits {
        tokens: 160,
        logits: 2,
    };
    let room = (24, limits);
    let device = on_device(&model, KvType::F16, room, &lent(at_most)).unwrap();
    let processors = on_processors(&model, KvType::F16, room, Arc::new(Inline));
    let mut sides = [Side::new(device, 2), Side::new(processors, 2)];
    let text: Vec<u32> = (0..prompt).map(|i| 100 + (i * i % 900) as u32).collect();
    let mut tokens = vec![text[..prompt / 2].to_vec(), vec![7; 3]];
    for step in 0..more {
        let [ours, theirs] = sides
            .each_mut()
            .map(|side| side.forward(&tokens, Output::LastLogits).0);
        let bits = |logits: &[f32]| logits.iter().map(|l| l.to_bits()).collect::<Vec<_>>();
        assert!(bits(&ours) == bits(&theirs), "step {step}");
        let vocabulary = model.config().vocabulary;
        tokens = if step == 0 {
            vec![text[prompt / 2..].to_vec(), vec![]]
        } else {
            ours.chunks_exact(vocabulary)
                .map(|logits| vec![greatest(logits)])
                .collect()
        };
        tokens.resize(2, Vec::new());
    }
}

#[test]
fn the_built_in_model_writes_the_same_text() {
    if present() {
        tale(None, 300, 12);
    }
}

#[test]
fn it_does_with_quotients_and_roots_in_integers() {
    if present() {
        let doubles = true;
        let most = Exactness {
            doubles,
            ..Exactness::default()
        };
        tale(Some(most), 6, 3);
    }
}

#[test]
fn a_device_with_the_bits_of_the_processors_is_taken() {
    if present() {
        let model = load(&root().join("crates/model/tests/golden/llama.gguf"));
        let options = GpuOptions {
            kv: KvType::F16,
            pages: PAGES,
            most_pages: PAGES,
            limits: LIMITS,
            pool: Arc::new(Inline),
            processors: &mut |_| None,
            progress: &mut |_, _| true,
        };
        let part = GpuPart::whole(strata_vulkan::backend(0).unwrap(), &model);
        let opened = GpuExecutor::open(vec![part], model, options);
        assert!(opened.is_ok(), "{:?}", opened.err());
    }
}
