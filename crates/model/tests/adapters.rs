//! LoRA adapters: what merging would give, chosen for each span of a batch, and files that are wrong.

use crate::running::read;
use std::path::Path;
use strata_host::ThreadPool;
use strata_kernels::Kernels;
use strata_model::{
    Adapted, Adapter, BatchError, BatchLimits, Compute, KvPages, KvType, LoadOptions, Model,
    Output, Sequence, Span, Workspace,
};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_quant::GgmlType;
use strata_weights::gguf::Builder;
use strata_weights::{Gguf, GgufSet};

fn golden(name: &str) -> Vec<u8> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.gguf")))
}

fn load(file: &[u8]) -> Model {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    let options = LoadOptions::default();
    Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap()
}

/// A tensor of a file to write.
struct Entry {
    name: String,
    ty: GgmlType,
    dims: Vec<u64>,
    data: Vec<u8>,
}

impl Entry {
    fn floats(name: &str, dims: &[u64], values: &[f32]) -> Self {
        Self {
            name: name.into(),
            ty: GgmlType::F32,
            dims: dims.to_vec(),
            data: values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        }
    }
}

fn write(mut builder: Builder, entries: &[Entry]) -> Vec<u8> {
    for entry in entries {
        builder.tensor(&entry.name, entry.ty, &entry.dims).unwrap();
    }
    let layout = builder.finish().unwrap();
    let mut file = layout.header;
    let start = file.len();
    file.resize(layout.total_len as usize, 0);
    for (extent, entry) in layout.tensors.iter().zip(entries) {
        file[start + extent.offset as usize..][..entry.data.len()].copy_from_slice(&entry.data);
    }
    file
}

/// Numbers around zero.
fn noise(seed: u32, len: usize, size: f32) -> Vec<f32> {
    let number = |i: u32| {
        let hash = (i + 1)
            .wrapping_mul(2_654_435_761)
            .wrapping_add(seed.wrapping_mul(40_503));
        ((hash ^ hash >> 15).wrapping_mul(2_246_822_519) >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len as u32).map(|i| size * number(i)).collect()
}

const RANK: u64 = 3;
const ALPHA: f32 = 6.0;

/// Both halves for every matrix that an adapter can change.
fn entries(base: &[u8], seed: u32) -> Vec<Entry> {
    let gguf = Gguf::parse(base).unwrap();
    let matrices = gguf.tensors().iter().filter(|tensor| {
        tensor.dims.len() == 2
            && tensor.name.ends_with(".weight")
            && tensor.name != "token_embd.weight"
            && !tensor.name.ends_with("shortconv.conv.weight")
            && !tensor.name.ends_with("ssm_conv1d.weight")
    });
    let mut all = Vec::new();
    for (i, tensor) in matrices.enumerate() {
        let (columns, rows) = (tensor.dims[0], tensor.dims[1]);
        for (half, dims) in [("a", [columns, RANK]), ("b", [RANK, rows])] {
            let name = format!("{}.lora_{half}", tensor.name);
            let seed = seed * 1000 + 2 * i as u32 + u32::from(half == "b");
            let values = noise(seed, (dims[0] * dims[1]) as usize, 0.1);
            all.push(Entry::floats(&name, &dims, &values));
        }
    }
    all
}

fn header(arch: &str) -> Builder {
    let mut builder = Builder::new();
    builder.set("general.architecture", arch).unwrap();
    builder.set("general.type", "adapter").unwrap();
    builder.set("adapter.type", "lora").unwrap();
    builder.set("adapter.lora.alpha", ALPHA).unwrap();
    builder
}

fn adapter(file: &[u8], model: &Model) -> Result<Adapter, String> {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    Adapter::load(&set, model).map_err(|error| error.to_string())
}

/// The model with W + scale · B·A for every W.
fn merged(base: &[u8], entries: &[Entry], scale: f32) -> Vec<u8> {
    let gguf = Gguf::parse(base).unwrap();
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        builder.set_value(key, value).unwrap();
    }
    let floats = |entry: &Entry| -> Vec<f32> {
        let words = entry.data.chunks_exact(4);
        words
            .map(|w| f32::from_le_bytes(w.try_into().unwrap()))
            .collect()
    };
    let tensors: Vec<Entry> = gguf
        .tensors()
        .iter()
        .map(|tensor| {
            let half = |half| {
                let name = format!("{}.lora_{half}", tensor.name);
                entries.iter().find(|entry| entry.name == name).map(floats)
            };
            let (Some(a), Some(b)) = (half("a"), half("b")) else {
                return Entry {
                    name: tensor.name.into(),
                    ty: tensor.ty,
                    dims: tensor.dims.to_vec(),
                    data: tensor.data.to_vec(),
                };
            };
            let (columns, rank) = (tensor.dims[0] as usize, RANK as usize);
            let mut values = vec![0.0; (tensor.dims[0] * tensor.dims[1]) as usize];
            strata_quant::dequantize(tensor.ty, tensor.data, &mut values).unwrap();
            for (i, value) in values.iter_mut().enumerate() {
                let (row, column) = (i / columns, i % columns);
                let product: f32 = (0..rank)
                    .map(|k| b[row * rank + k] * a[k * columns + column])
                    .sum();
                *value += scale * product;
            }
            Entry::floats(tensor.name, &tensor.dims, &values)
        })
        .collect();
    write(builder, &tensors)
}

/// All logits of several sequences in one batch.
fn run(
    model: &Model,
    pool: &dyn Pool,
    spans: &[(&[u32], Option<Adapted<'_>>)],
) -> Result<Vec<Vec<f32>>, BatchError> {
    let compute = Compute {
        kernels: Kernels::detect(),
        pool,
    };
    let mut kv = KvPages::new(model.config(), KvType::F32, 256, &SystemMemory).unwrap();
    let limits = BatchLimits {
        tokens: 128,
        logits: 128,
    };
    let mut work = Workspace::new(model, limits, pool.workers());
    let mut sequences: Vec<Sequence> = spans.iter().map(|_| Sequence::default()).collect();
    let mut batch = Vec::new();
    for (sequence, (tokens, adapter)) in sequences.iter_mut().zip(spans) {
        kv.reserve(sequence, tokens.len()).unwrap();
        batch.push(Span {
            sequence,
            tokens,
            output: Output::AllLogits,
            adapter: *adapter,
            embedded: &[],
        });
    }
    let outputs = model.forward(&compute, &mut kv, &mut work, &mut batch)?;
    let mut rows = outputs.logits.chunks(model.config().vocabulary);
    Ok(spans
        .iter()
        .map(|(tokens, _)| {
            rows.by_ref()
                .take(tokens.len())
                .flatten()
                .copied()
                .collect()
        })
        .collect())
}

fn prompt(len: u32) -> Vec<u32> {
    (0..len).map(|i| i * 13 % 40).collect()
}

#[test]
fn an_adapter_gives_what_the_merged_model_gives() {
    for name in [
        "llama",
        "gemma3",
        "gptneox-parallel",
        "phi3",
        "lfm2",
        "mamba",
        "minicpm3",
        "qwen35",
        "rwkv7",
    ] {
        let base = golden(name);
        let model = load(&base);
        let entries = entries(&base, 1);
        let adapter = adapter(&write(header(model.config().spec.name), &entries), &model).unwrap();
        assert_eq!(2 * adapter.matrices(), entries.len());
        let tokens = prompt(20);
        let plain = run(&model, &Inline, &[(&tokens, None)]).unwrap();
        for scale in [1.0, 0.5] {
            let merged = load(&merged(&base, &entries, scale * ALPHA / RANK as f32));
            let expected = run(&merged, &Inline, &[(&tokens, None)]).unwrap();
            let adapted = Adapted {
                adapter: &adapter,
                scale,
            };
            let got = run(&model, &Inline, &[(&tokens, Some(adapted))]).unwrap();
            let apart = |a: &[f32], b: &[f32]| {
                let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
                differences.fold(0f32, f32::max)
            };
            let moved = apart(&expected[0], &plain[0]);
            let error = apart(&expected[0], &got[0]);
            assert!(
                moved > 0.05,
                "{name}: the adapter changes something, {moved}"
            );
            assert!(error < moved / 500.0, "{name}: {error} of {moved}");
        }
    }
}

#[test]
fn adapters_in_one_batch_give_what_each_gives_alone() {
    for name in ["llama", "qwen2moe", "lfm2"] {
        let base = golden(name);
        let model = load(&base);
        let file = |seed| {
            let mut entries = entries(&base, seed);
            // The second changes other matrices than the first.
            let half = entries.len() / 4 * 2;
            entries.truncate(if seed == 2 { half } else { usize::MAX });
            write(header(model.config().spec.name), &entries)
        };
        let adapters = [1, 2].map(|seed| adapter(&file(seed), &model).unwrap());
        let adapted = |i: usize, scale| {
            Some(Adapted {
                adapter: &adapters[i],
                scale,
            })
        };
        let tokens = prompt(40);
        let spans = [
            (&tokens[..1], adapted(0, 1.0)),
            (&tokens[..19], None),
            (&tokens[..40], adapted(1, 0.75)),
            (&tokens[..9], adapted(0, -2.0)),
            (&tokens[..3], None),
        ];
        let pool = ThreadPool::new(Some(2)).unwrap();
        let together = run(&model, &pool, &spans).unwrap();
        let bits = |logits: &[f32]| -> Vec<u32> { logits.iter().map(|l| l.to_bits()).collect() };
        for (span, together) in spans.iter().zip(&together) {
            let alone = run(&model, &Inline, &[*span]).unwrap();
            assert!(alone[0].iter().all(|logit| logit.is_finite()));
            assert!(
                bits(&alone[0]) == bits(together),
                "{name}, {} tokens",
                span.0.len()
            );
        }
        let plain = run(&model, &Inline, &[(&tokens[..1], None)]).unwrap();
        assert!(
            bits(&plain[0]) != bits(&together[0]),
            "{name}: an adapter shows"
        );
    }
}

#[test]
fn an_adapter_of_another_model_is_refused() {
    let llama = golden("llama");
    let (model, stranger) = (load(&llama), load(&golden("qwen2")));
    let adapter = adapter(&write(header("llama"), &entries(&llama, 1)), &model).unwrap();
    let tokens = prompt(4);
    let adapted = |scale| {
        Some(Adapted {
            adapter: &adapter,
            scale,
        })
    };
    let refused = run(&stranger, &Inline, &[(&tokens, adapted(1.0))]);
    assert_eq!(refused, Err(BatchError::ForeignAdapter));
    let refused = run(&model, &Inline, &[(&tokens, adapted(f32::NAN))]);
    assert_eq!(refused, Err(BatchError::AdapterScale));
    // The same model, loaded once more, is no stranger.
    assert!(run(&load(&llama), &Inline, &[(&tokens, adapted(1.0))]).is_ok());
}

#[test]
fn bad_files_are_refused_by_name() {
    let base = golden("llama");
    let model = load(&base);
    let refusal = |builder: Builder, entries: &[Entry]| {
        adapter(&write(builder, entries), &model)
            .err()
            .expect("the file is refused")
    };
    let with = |edit: &dyn Fn(&mut Vec<Entry>)| {
        let mut entries = entries(&base, 1);
        edit(&mut entries);
        refusal(header("llama"), &entries)
    };
    let first = entries(&base, 1)[0].name.clone();
    let second = entries(&base, 1)[1].name.clone();

    let cases: [(&str, String); 10] = [
        (
            "neither",
            with(&|all| all[0].name = "blk.0.attn_q.weight".into()),
        ),
        (
            "does not have",
            with(&|all| {
                all[0].name = "blk.99.attn_q.weight.lora_a".into();
                all.remove(1);
            }),
        ),
        (&second, with(&|all| drop(all.remove(1)))),
        (&first, with(&|all| drop(all.remove(0)))),
        (&first, with(&|all| all[0].dims[0] += 1)),
        (&second, with(&|all| all[1].dims.reverse())),
        (&second, with(&|all| all[1].dims[0] = RANK + 1)),
        ("I32", with(&|all| all[0].ty = GgmlType::I32)),
        (
            "not finite",
            with(&|all| all[0].data[..4].copy_from_slice(&f32::NAN.to_le_bytes())),
        ),
        ("changes nothing", with(&|all| all.clear())),
    ];
    for (part, message) in cases {
        assert!(message.contains(part), "{part:?} in {message:?}");
    }
    let embedding = |name: &str, dims| Entry::floats(name, dims, &[]);
    let message = with(&|all| {
        all.push(embedding("token_embd.weight.lora_a", &[64, 2]));
        all.push(embedding("token_embd.weight.lora_b", &[2, 64]));
    });
    assert!(message.contains("the embedding"), "{message}");
    let message = with(&|all| {
        all.push(embedding(&"x".repeat(20), &[64]));
    });
    assert!(message.contains("xxx"), "{message}");

    // Metadata.
    let entries = entries(&base, 1);
    for (key, value) in [
        ("general.type", "model"),
        ("adapter.type", "control_vector"),
        ("general.architecture", "qwen2"),
    ] {
        let mut builder = Builder::new();
        for (other, good) in [
            ("general.type", "adapter"),
            ("adapter.type", "lora"),
            ("general.architecture", "llama"),
        ] {
            builder
                .set(other, if other == key { value } else { good })
                .unwrap();
        }
        builder.set("adapter.lora.alpha", 1f32).unwrap();
        let message = refusal(builder, &entries);
        assert!(
            message.contains(key) && message.contains(value),
            "{message}"
        );
    }
    assert!(refusal(Builder::new(), &entries).contains("general.type"));
}

#[test]
fn experts_cannot_be_adapted() {
    let base = golden("qwen2moe");
    let model = load(&base);
    let mut entries = entries(&base, 1);
    for half in ["a", "b"] {
        let name = format!("blk.0.ffn_gate_exps.weight.lora_{half}");
        entries.push(Entry::floats(&name, &[4, 4], &[0.0; 16]));
    }
    let message = adapter(&write(header("qwen2moe"), &entries), &model)
        .err()
        .unwrap();
    assert!(
        message.contains("ffn_gate_exps") && message.contains("experts"),
        "{message}"
    );
}

#[test]
fn damaged_files_never_panic() {
    let base = golden("llama");
    let model = load(&base);
    let entries = &entries(&base, 1)[..4];
    let file = write(header("llama"), entries);
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..4000u32 {
        let mut mutant = file.clone();
        let hash = |i: u32| (round * 7 + i).wrapping_mul(2_654_435_761) >> 7;
        for i in 0..=round % 3 {
            // Mostly where the structure is; the numbers at the end matter less.
            let place = hash(2 * i) as usize % if round % 4 == 0 { file.len() } else { 900 };
            mutant[place] = match round % 5 {
                0 => 0,
                1 => 255,
                _ => hash(2 * i + 1) as u8,
            };
        }
        if round % 50 == 0 {
            mutant.truncate(hash(9) as usize % file.len());
        }
        let Ok(gguf) = Gguf::parse(&mutant) else {
            refused += 1;
            continue;
        };
        let set = GgufSet::new(vec![gguf]);
        match set.ok().map(|set| Adapter::load(&set, &model)) {
            Some(Ok(adapter)) => {
                assert!(adapter.bytes() <= 2 * file.len());
                loaded += 1;
            }
            _ => refused += 1,
        }
    }
    assert!(
        loaded > 50 && refused > 1000,
        "{loaded} loaded, {refused} refused"
    );
}
