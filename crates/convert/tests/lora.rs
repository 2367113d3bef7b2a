//! Adapters that PEFT saved, against PEFT's own logits with them, and against models that they were merged into.
//! `tools/lora_vectors.py` made them.

use std::fs;
use std::path::{Path, PathBuf};

use strata_convert::{Folder, Lora, LoraBase, LoraError, LoraFolderError, Mix, Options, Plan};
use strata_kernels::Kernels;
use strata_model::{
    Adapted, Adapter, AdapterTensor, BatchLimits, Compute, KvPages, KvType, LoadOptions, Model,
    Output, Sequence, Span, Workspace,
};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{GgmlType, Gguf, GgufSet, safetensors};

/// The bar: f32 against f32, summed in another order.
const TOLERANCE: f32 = 2e-3;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

struct Case {
    name: String,
    folder: PathBuf,
    /// The model as a GGUF of 32-bit floats.
    file: Vec<u8>,
    tokens: Vec<u32>,
    plain: Vec<f32>,
    adapted: Vec<f32>,
}

impl Case {
    fn read(name: &str) -> Self {
        let folder = tests().join("adapters").join(name);
        let json = fs::read(folder.join("logits.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let base = tests().join("folders").join(json["base"].as_str().unwrap());
        let tokens = json["tokens"].as_array().unwrap().iter();
        let floats = |key: &str| floats(&base64(json[key].as_str().unwrap()));
        Self {
            name: name.into(),
            file: converted(&base),
            tokens: tokens.map(|t| t.as_u64().unwrap() as u32).collect(),
            plain: floats("plain_f32_le_base64"),
            adapted: floats("logits_f32_le_base64"),
            folder,
        }
    }

    fn all() -> Vec<Self> {
        let entries = fs::read_dir(tests().join("adapters")).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert!(names.len() >= 7, "only {names:?}");
        names.iter().map(|name| Self::read(name)).collect()
    }
}

fn converted(path: &Path) -> Vec<u8> {
    let folder = Folder::open(path).unwrap();
    let (config, tensors) = (folder.config().unwrap(), folder.tensors().unwrap());
    let options = Options {
        mix: Some(Mix::F32),
        name: None,
    };
    let plan = Plan::new(&config, &tensors, None, &options).unwrap();
    let mut out = Vec::new();
    folder
        .convert(&plan, &mut out, &Inline, &mut |_, _| {})
        .unwrap();
    out
}

fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|&c| c != b'=').map(value).collect();
    let groups = digits.chunks(4).flat_map(|group| {
        let bits = group.iter().fold(0u32, |bits, &d| bits << 6 | u32::from(d));
        let bits = bits << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    });
    groups.collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let numbers = bytes.chunks_exact(4);
    numbers
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn load(file: &[u8]) -> Model {
    let set = GgufSet::new(vec![Gguf::parse(file.to_vec().leak()).unwrap()]).unwrap();
    let options = LoadOptions::default();
    Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap()
}

fn base_of(model: &Model) -> LoraBase<'static> {
    let config = model.config();
    let attention = config.attention().next();
    LoraBase {
        arch: config.spec.name,
        heads: attention.map_or(0, |a| a.heads),
        kv_heads: attention.map_or(0, |a| a.kv_heads),
    }
}

fn adapter(lora: &Lora, model: &Model) -> Adapter {
    let tensors: Vec<AdapterTensor<'_>> = lora
        .tensors
        .iter()
        .map(|tensor| AdapterTensor {
            name: &tensor.name,
            ty: GgmlType::F32,
            dims: &tensor.dims,
            data: &tensor.data,
        })
        .collect();
    Adapter::new(lora.alpha, &tensors, model).unwrap()
}

fn logits(model: &Model, tokens: &[u32], adapter: Option<&Adapter>) -> Vec<f32> {
    let limits = BatchLimits {
        tokens: tokens.len(),
        logits: tokens.len(),
    };
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    };
    let mut work = Workspace::new(model, limits, 1);
    let mut kv = KvPages::new(model.config(), KvType::F32, tokens.len(), &SystemMemory).unwrap();
    let mut sequence = Sequence::default();
    kv.reserve(&mut sequence, tokens.len()).unwrap();
    let span = Span {
        sequence: &mut sequence,
        tokens,
        output: Output::AllLogits,
        adapter: adapter.map(|adapter| Adapted {
            adapter,
            scale: 1.0,
        }),
        embedded: &[],
    };
    let outputs = model.forward(&compute, &mut kv, &mut work, &mut [span]);
    outputs.unwrap().logits.to_vec()
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let pairs = found.iter().zip(expected);
    let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < TOLERANCE, "{what}: largest difference {worst}");
}

/// The file with an adapter's part added to its matrices.
fn merged(file: &[u8], lora: &Lora) -> Vec<u8> {
    let mut out = file.to_vec();
    let gguf = Gguf::parse(file).unwrap();
    for a in &lora.tensors {
        let Some(name) = a.name.strip_suffix(".lora_a") else {
            continue;
        };
        let b = format!("{name}.lora_b");
        let b = lora.tensors.iter().find(|tensor| tensor.name == b).unwrap();
        let (columns, rank) = (a.dims[0] as usize, a.dims[1] as usize);
        let scale = lora.alpha / rank as f32;
        let (a, b) = (floats(&a.data), floats(&b.data));
        let data = gguf.tensor(name).unwrap().data;
        let start = data.as_ptr() as usize - file.as_ptr() as usize;
        let mut weights = floats(data);
        for (row, b) in weights.chunks_exact_mut(columns).zip(b.chunks_exact(rank)) {
            for (column, weight) in row.iter_mut().enumerate() {
                let products = b
                    .iter()
                    .enumerate()
                    .map(|(k, b)| b * a[k * columns + column]);
                *weight += scale * products.sum::<f32>();
            }
        }
        let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
        out[start..start + bytes.len()].copy_from_slice(&bytes);
    }
    out
}

#[test]
fn logits_are_those_of_peft_and_of_the_merged_model() {
    for case in Case::all() {
        let model = load(&case.file);
        let plain = logits(&model, &case.tokens, None);
        assert_close(&plain, &case.plain, &format!("{} without", case.name));
        let lora = match Lora::read_folder(&case.folder, base_of(&model)) {
            Ok(lora) => lora,
            Err(error) => panic!("{}: {error}", case.name),
        };
        let adapter = adapter(&lora, &model);
        assert_eq!(adapter.matrices() * 2, lora.tensors.len());
        let adapted = logits(&model, &case.tokens, Some(&adapter));
        assert_close(&adapted, &case.adapted, &format!("{} with PEFT", case.name));
        let together = load(&merged(&case.file, &lora));
        let together = logits(&together, &case.tokens, None);
        assert_close(&adapted, &together, &format!("{} merged", case.name));
        let after = logits(&model, &case.tokens, None);
        assert_eq!(plain, after, "{}: the model is as it was", case.name);
    }
}

#[test]
fn what_a_config_asks_for_and_cannot_be_had_is_named() {
    let folder = tests().join("adapters/llama");
    let weights = fs::read(folder.join("adapter_model.safetensors")).unwrap();
    let tensors = safetensors::parse(&weights).unwrap();
    let config = fs::read(folder.join("adapter_config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    let base = LoraBase {
        arch: "llama",
        heads: 4,
        kv_heads: 2,
    };
    let read =
        |config: &serde_json::Value| Lora::read(config.to_string().as_bytes(), &tensors, base);
    let cases = [
        ("use_dora", serde_json::json!(true)),
        ("modules_to_save", serde_json::json!(["lm_head"])),
        ("bias", serde_json::json!("all")),
        ("lora_bias", serde_json::json!(true)),
        ("alpha_pattern", serde_json::json!({"q_proj": 3})),
        ("init_lora_weights", serde_json::json!("pissa_niter_16")),
        ("layer_replication", serde_json::json!([[0, 1]])),
        ("peft_type", serde_json::json!("IA3")),
    ];
    for (name, value) in cases {
        let mut config = config.clone();
        config[name] = value;
        match read(&config) {
            Err(LoraError::Unsupported { key, .. }) => assert_eq!(key, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let numbers = [
        serde_json::json!(0),
        serde_json::json!(-1),
        serde_json::json!("8"),
        serde_json::json!(1e60),
    ];
    for value in numbers {
        for name in ["r", "lora_alpha"] {
            let mut config = config.clone();
            config[name] = value.clone();
            let refused = read(&config);
            assert!(matches!(refused, Err(LoraError::Value { key, .. }) if key == name));
        }
    }
    for text in ["", "[]", "{\"peft_type\": \"LORA\"", "{}"] {
        assert!(
            Lora::read(text.as_bytes(), &tensors, base).is_err(),
            "{text}"
        );
    }
    let mut stable = config.clone();
    stable["use_rslora"] = true.into();
    stable["rank_pattern"] = serde_json::json!({"q_proj": 3});
    assert!(matches!(read(&stable), Err(LoraError::Unsupported { .. })));
}

#[test]
fn tensors_that_fit_no_model_are_named() {
    let folder = tests().join("adapters/llama");
    let weights = fs::read(folder.join("adapter_model.safetensors")).unwrap();
    let config = fs::read(folder.join("adapter_config.json")).unwrap();
    let tensors = safetensors::parse(&weights).unwrap();
    let read = |base| Lora::read(&config, &tensors, base);
    let base = |arch, heads| LoraBase {
        arch,
        heads,
        kv_heads: 2,
    };
    let refused = read(base("no-such", 4));
    assert!(
        matches!(refused, Err(LoraError::Arch { .. })),
        "{refused:?}"
    );
    let refused = read(base("bert", 4));
    assert!(
        matches!(refused, Err(LoraError::Arch { .. })),
        "{refused:?}"
    );
    let refused = read(base("gpt2", 4));
    assert!(
        matches!(refused, Err(LoraError::UnknownTensor { .. })),
        "{refused:?}"
    );
    for heads in [0, 3, 1 << 60] {
        let refused = read(base("llama", heads));
        assert!(
            matches!(refused, Err(LoraError::Shape { .. })),
            "{refused:?}"
        );
    }
    let names = [
        (
            "base_model.model.model.layers.0.self_attn.q_proj.weight",
            "half",
        ),
        (
            "base_model.model.model.embed_tokens.lora_embedding_A",
            "half",
        ),
        (
            "base_model.model.model.layers.0.block_sparse_moe.experts.3.w1.lora_A.weight",
            "expert",
        ),
        (
            "base_model.model.model.layers.0.nothing.lora_A.weight",
            "unknown",
        ),
    ];
    for (name, what) in names {
        let mut tensors = tensors.clone();
        tensors[0].name = name.into();
        let found = match Lora::read(&config, &tensors, base("llama", 4)) {
            Err(LoraError::Half { .. }) => "half",
            Err(LoraError::Expert { .. }) => "expert",
            Err(LoraError::UnknownTensor { .. }) => "unknown",
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(found, what, "{name}");
    }
}

#[test]
fn folders_that_are_not_whole_are_errors() {
    let source = tests().join("adapters/llama");
    let base = LoraBase {
        arch: "llama",
        heads: 4,
        kv_heads: 2,
    };
    let folder = tempfile::tempdir().unwrap();
    assert!(!Lora::is_folder(folder.path()));
    let refused = Lora::read_folder(folder.path(), base);
    assert!(matches!(refused, Err(LoraFolderError::Io { .. })));
    for name in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(source.join(name), folder.path().join(name)).unwrap();
    }
    assert!(Lora::is_folder(folder.path()));
    assert!(Lora::read_folder(folder.path(), base).is_ok());
    let weights = folder.path().join("adapter_model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    for len in [0, 7, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&weights, &bytes[..len]).unwrap();
        let refused = Lora::read_folder(folder.path(), base);
        assert!(
            matches!(
                refused,
                Err(LoraFolderError::Safetensors { .. } | LoraFolderError::Io { .. })
            ),
            "{len} bytes"
        );
    }
}
