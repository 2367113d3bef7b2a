//! A GPU proves that it gives the processors' bits before a model runs on it: a tiny llama with the model's types is
//! computed on both.

use crate::backend::Backend;
use crate::error::DeviceError;
use crate::executor::{GpuExecutor, GpuOptions, GpuPart};
use std::sync::Arc;
use strata_kernels::Kernels;
use strata_model::{
    BatchLimits, CpuExecutor, Executor, GgmlType, KvType, LoadOptions, Model, Output, PAGE,
    PageLayout, PageStorage, Sequence, Span,
};
use strata_platform::{Inline, SystemMemory};
use strata_weights::gguf::{Builder, WriteError};
use strata_weights::{Gguf, GgufSet};

const WIDTH: u64 = 256;
const VOCABULARY: u64 = 160;
const LIMITS: BatchLimits = BatchLimits {
    tokens: 300,
    logits: 300,
};
const PAGES: usize = 16;

/// Tokens of two sequences in each batch: a prompt past one chunk of attention, single tokens, batches of several sizes.
const STEPS: [[usize; 2]; 5] = [[290, 1], [1, 0], [3, 40], [1, 1], [1, 70]];

/// Gives the backend back, unless it computes other bits.
pub fn prove(
    backend: Box<dyn Backend>,
    types: &[GgmlType],
    kv: KvType,
) -> Result<Box<dyn Backend>, DeviceError> {
    let doing = "proving its bits";
    let Some(model) = tiny(types) else {
        let reason = "no model could be made to prove them with".into();
        return Err(DeviceError::Driver { doing, reason });
    };
    let layout = PageLayout::new(model.config(), kv);
    let failed = |_| DeviceError::OutOfMemory { doing };
    let storage = PageStorage::new(layout, PAGES * PAGE, 0, &SystemMemory).map_err(failed)?;
    let kernels = Kernels::detect();
    let mut processors = CpuExecutor::new(
        Arc::clone(&model),
        kernels,
        Arc::new(Inline),
        storage,
        LIMITS,
    );
    let options = GpuOptions {
        kv,
        pages: PAGES,
        most_pages: PAGES,
        limits: LIMITS,
        pool: Arc::new(Inline),
        processors: &mut |_| None,
        progress: &mut |_, _| true,
    };
    let part = GpuPart::whole(backend, &model);
    let mut gpu = GpuExecutor::on(vec![part], model, options)?;
    let expected = logits(&mut processors);
    let found = logits(&mut gpu);
    let name = gpu.devices().map(|(facts, _)| facts.name.clone()).collect();
    if let (Ok(expected), Ok(found)) = (&expected, &found) {
        let pairs = expected.iter().zip(found);
        let wrong = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        let (all, same) = (expected.len(), expected.len() == found.len());
        let backend = gpu.into_backend().filter(|_| wrong == 0 && same);
        return backend.ok_or(DeviceError::OtherBits { name, wrong, all });
    }
    let reason = match found {
        Err(error) => error.to_string(),
        Ok(_) => "the processors refused the batch".into(),
    };
    Err(DeviceError::Driver { doing, reason })
}

/// All logits of some batches.
fn logits(executor: &mut dyn Executor) -> Result<Vec<f32>, strata_model::BatchError> {
    let mut table = executor.page_table();
    let mut sequences: [Sequence; 2] = Default::default();
    let (mut all, mut random) = (Vec::new(), 1u64);
    for lens in STEPS {
        let tokens = lens.map(|len| {
            let token = |_| (next(&mut random) % VOCABULARY) as u32;
            (0..len).map(token).collect::<Vec<u32>>()
        });
        for (sequence, tokens) in sequences.iter_mut().zip(&tokens) {
            let room = table.reserve(sequence, tokens.len());
            room.expect("there are pages for all tokens");
        }
        let spans = sequences.iter_mut().zip(&tokens);
        let mut batch: Vec<Span<'_>> = spans
            .filter(|(_, tokens)| !tokens.is_empty())
            .map(|(sequence, tokens)| Span {
                sequence,
                tokens,
                output: Output::AllLogits,
                adapter: None,
                embedded: &[],
            })
            .collect();
        let outputs = executor.forward(&table, &mut batch)?;
        all.extend_from_slice(outputs.logits);
    }
    Ok(all)
}

fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *state >> 33
}

/// A llama of random weights whose matrices have these types in turn.
fn tiny(types: &[GgmlType]) -> Option<Arc<Model>> {
    let file = file(types).ok()??;
    let set = GgufSet::new(vec![Gguf::parse(&file).ok()?]).ok()?;
    let options = LoadOptions::default();
    let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).ok()?;
    Some(Arc::new(model))
}

/// Its file; none if a type cannot be quantized.
fn file(types: &[GgmlType]) -> Result<Option<Vec<u8>>, WriteError> {
    let mut builder = Builder::new();
    builder.set("general.architecture", "llama")?;
    let layers = types.len().div_ceil(7).max(1);
    for (name, value) in [
        ("context_length", 512),
        ("embedding_length", WIDTH as u32),
        ("block_count", layers as u32),
        ("feed_forward_length", 2 * WIDTH as u32),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        builder.set(&format!("llama.{name}"), value)?;
    }
    builder.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32)?;
    let mut types = types.iter().copied().cycle();
    let mut next_type = || types.next().unwrap_or(GgmlType::F32);
    let mut tensors = vec![
        (
            "token_embd.weight".to_owned(),
            GgmlType::F32,
            vec![WIDTH, VOCABULARY],
        ),
        ("output_norm.weight".into(), GgmlType::F32, vec![WIDTH]),
        ("output.weight".into(), next_type(), vec![WIDTH, VOCABULARY]),
    ];
    for layer in 0..layers {
        for (name, columns, rows) in [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", WIDTH, WIDTH / 2),
            ("attn_v", WIDTH, WIDTH / 2),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", WIDTH, 2 * WIDTH),
            ("ffn_up", WIDTH, 2 * WIDTH),
            ("ffn_down", 2 * WIDTH, WIDTH),
        ] {
            let dims = vec![columns, rows];
            tensors.push((format!("blk.{layer}.{name}.weight"), next_type(), dims));
        }
        for name in ["attn_norm", "ffn_norm"] {
            tensors.push((
                format!("blk.{layer}.{name}.weight"),
                GgmlType::F32,
                vec![WIDTH],
            ));
        }
    }
    for (name, ty, dims) in &tensors {
        builder.tensor(name, *ty, dims)?;
    }
    let layout = builder.finish()?;
    let (mut bytes, mut random) = (layout.header.clone(), 7);
    for ((_, ty, _), extent) in tensors.iter().zip(&layout.tensors) {
        let start = bytes.len();
        let count = extent.len as usize / ty.block_bytes() * ty.block_len();
        let floats: Vec<f32> = (0..count)
            .map(|_| (next(&mut random) as f32 / (1u64 << 30) as f32 - 1.0) * 0.2 + 0.01)
            .collect();
        bytes.resize(start + extent.padded_len as usize, 0);
        let out = &mut bytes[start..][..extent.len as usize];
        if strata_quant::quantize(*ty, &floats, None, out).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(bytes))
}
