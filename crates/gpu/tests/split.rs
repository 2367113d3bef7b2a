//! Layers shared out between the processors and one GPU or several: the bits of the processors alone.
#![allow(dead_code, reason = "not everybody uses all of it")]

use crate::compare::{LIMITS, PAGES, Random, STEPS, Side, assert_same, compare, load, root};
use crate::lent::Lent;
use std::path::PathBuf;
use std::sync::Arc;
use strata_gpu::{DeviceError, GpuExecutor, GpuOptions, GpuPart};
use strata_kernels::Kernels;
use strata_model::spec::Role;
use strata_model::{
    Adapted, Adapter, AdapterTensor, CpuExecutor, CpuStretch, Executor, GgmlType, KvType, Model,
    Output, PAGE, PageLayout, PageStorage, Span,
};
use strata_platform::{Inline, SystemMemory};
use strata_weights::Gguf;

/// Recurrent states, where a model has some.
const STATES: usize = 3;

/// A model whose layers from each of `starts` on are on a GPU of their own; those before the first are the processors'.
pub(crate) fn split(
    model: &Arc<Model>,
    starts: &[usize],
    kv: KvType,
    gpu: &mut dyn FnMut() -> Lent,
) -> Result<GpuExecutor, DeviceError> {
    let config = model.config();
    let ends = starts[1..].iter().copied().chain([config.layers.len()]);
    let parts = starts.iter().zip(ends).map(|(&start, end)| GpuPart {
        backend: Box::new(gpu()),
        layers: start..end,
    });
    let parts = parts.collect();
    let options = GpuOptions {
        kv,
        pages: PAGES,
        most_pages: PAGES,
        limits: LIMITS,
        pool: Arc::new(Inline),
        processors: &mut |pages| {
            let layout = PageLayout::of_layers(config, kv, 0..starts[0]);
            let storage = PageStorage::new(layout, pages * PAGE, STATES, &SystemMemory).ok()?;
            let computes = (Kernels::detect(), Arc::new(Inline) as _);
            let model = Arc::clone(model);
            let stretch = CpuStretch::of_first(model, starts[0], computes, storage, LIMITS);
            Some(stretch)
        },
        progress: &mut |_, _| true,
    };
    GpuExecutor::on(parts, Arc::clone(model), options)
}

/// The processors alone.
pub(crate) fn whole(model: &Arc<Model>, kv: KvType) -> Box<dyn Executor> {
    let layout = PageLayout::new(model.config(), kv);
    let storage = PageStorage::new(layout, PAGES * PAGE, STATES, &SystemMemory).unwrap();
    let (model, kernels) = (Arc::clone(model), Kernels::detect());
    Box::new(CpuExecutor::new(
        model,
        kernels,
        Arc::new(Inline),
        storage,
        LIMITS,
    ))
}

fn golden_path(name: &str) -> PathBuf {
    root().join(format!("crates/model/tests/golden/{name}.gguf"))
}

pub(crate) fn golden(name: &str) -> Arc<Model> {
    load(&golden_path(name))
}

/// Compares batches, pages that are copied, and pages that are read and written. False where the GPU's layers have
/// something that no GPU computes.
pub(crate) fn same_bits(
    name: &str,
    starts: &[usize],
    kv: KvType,
    gpu: &mut dyn FnMut() -> Lent,
) -> bool {
    let model = golden(name);
    let divided = match split(&model, starts, kv, gpu) {
        Err(DeviceError::Unsupported(_)) => return false,
        divided => divided.unwrap(),
    };
    let mut sides = [
        Side::new(Box::new(divided), 3),
        Side::new(whole(&model, kv), 3),
    ];
    compare(&format!("{name} {starts:?}"), &model, &mut sides, &STEPS);
    true
}

/// The golden models that can be cut before their second layer.
pub(crate) fn golden_models() -> Vec<String> {
    let folder = root().join("crates/model/tests/golden");
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let models = paths.filter(|path| path.extension().is_some_and(|e| e == "gguf"));
    let names = models.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.retain(|name| {
        let model = golden(name);
        let config = model.config();
        let decodes = config.spec.role == Role::Decoder && config.source.is_none();
        decodes && config.layers.len() > 1 && config.can_cut(1)
    });
    names
}

/// An adapter of this rank for every matrix of a golden model that adapters can change.
fn adapter(name: &str, model: &Model, rank: u64, seed: u64) -> Adapter {
    let bytes = std::fs::read(golden_path(name)).unwrap();
    let file = Gguf::parse(&bytes).unwrap();
    let mut random = Random(seed);
    let mut tensors = Vec::new();
    for tensor in file.tensors() {
        let [columns, rows] = tensor.dims[..] else {
            continue;
        };
        if tensor.name == "token_embd.weight" {
            continue;
        }
        for (half, dims) in [("a", [columns, rank]), ("b", [rank, rows])] {
            let mut float = || random.below(2001) as f32 / 4000.0 - 0.25;
            let data = (0..dims[0] * dims[1]).flat_map(|_| float().to_le_bytes());
            let data: Vec<u8> = data.collect();
            tensors.push((format!("{}.lora_{half}", tensor.name), dims, data));
        }
    }
    let tensors: Vec<AdapterTensor<'_>> = tensors
        .iter()
        .map(|(name, dims, data)| AdapterTensor {
            name,
            ty: GgmlType::F32,
            dims,
            data,
        })
        .collect();
    Adapter::new(rank as f32, &tensors, model).unwrap()
}

/// Batches whose sequences have an adapter each, two of them, or none.
pub(crate) fn same_bits_with_adapters(name: &str, starts: &[usize], gpu: &mut dyn FnMut() -> Lent) {
    let (model, kv) = (golden(name), KvType::F16);
    let ranks = [(3, 1), (20, 2)];
    let adapters = ranks.map(|(rank, seed)| adapter(name, &model, rank, seed));
    let divided = split(&model, starts, kv, gpu).unwrap();
    let mut sides = [
        Side::new(Box::new(divided), 3),
        Side::new(whole(&model, kv), 3),
    ];
    // One, the other and none; then others, more than one span of one, and logits of some.
    let batches = [
        ([5, 2, 9], [Some(0), Some(1), None], Output::AllLogits),
        ([1, 1, 1], [Some(1), Some(1), Some(0)], Output::LastLogits),
        ([1, 3, 1], [None, None, None], Output::LastLogits),
        ([2, 1, 4], [None, Some(0), Some(1)], Output::LastLogits),
    ];
    let mut random = Random(7);
    for (lens, chosen, output) in batches {
        let vocabulary = model.config().vocabulary;
        let tokens = lens.map(|len| {
            let token = |_| random.below(vocabulary) as u32;
            (0..len).map(token).collect::<Vec<u32>>()
        });
        let logits = sides.each_mut().map(|side| {
            for (sequence, tokens) in side.sequences.iter_mut().zip(&tokens) {
                side.table.reserve(sequence, tokens.len()).unwrap();
            }
            let spans = side.sequences.iter_mut().zip(&tokens).zip(chosen);
            let spans = spans.map(|((sequence, tokens), chosen)| Span {
                sequence,
                tokens,
                output,
                adapter: chosen.map(|index: usize| Adapted {
                    adapter: &adapters[index],
                    scale: 0.75,
                }),
                embedded: &[],
            });
            let mut batch: Vec<Span<'_>> = spans.collect();
            let outputs = side.executor.forward(&side.table, &mut batch).unwrap();
            outputs.logits.to_vec()
        });
        assert_same(name, "with adapters", &logits[0], &logits[1]);
    }
}
