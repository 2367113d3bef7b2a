//! Files that are not what they say: one clear sentence, and nothing large allocated.

use crate::running::{Runner, read};
use std::path::Path;
use strata_kernels::Kernels;
use strata_model::{Blueprint, KvType, LoadError, LoadOptions, Model, NextnUse, Output, arch};
use strata_platform::{Inline, Memory, OutOfMemory, Region, SystemMemory};
use strata_quant::GgmlType;
use strata_weights::gguf::Builder;
use strata_weights::{Gguf, GgufSet, Value};

fn golden(name: &str) -> Vec<u8> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.gguf")))
}

/// A tensor's shape in a copy: `None` leaves the tensor out.
type Edit<'a> = &'a dyn Fn(&str, &[u64]) -> Option<Vec<u64>>;

/// A copy with other tensors, and extra ones. Weights are zeros.
fn edited(source: &[u8], tensors: Edit<'_>, extra: &[(&str, &[u64])]) -> Vec<u8> {
    let gguf = Gguf::parse(source).unwrap();
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        builder.set_value(key, value).unwrap();
    }
    for tensor in gguf.tensors() {
        if let Some(dims) = tensors(tensor.name, &tensor.dims) {
            builder.tensor(tensor.name, tensor.ty, &dims).unwrap();
        }
    }
    for (name, dims) in extra {
        builder.tensor(name, GgmlType::F32, dims).unwrap();
    }
    filled(&builder)
}

/// A copy with another value under a key; `None` leaves the key out.
fn replaced(source: &[u8], replaced: &str, by: Option<Value<'_>>) -> Vec<u8> {
    let gguf = Gguf::parse(source).unwrap();
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        if let Some(value) = if key == replaced { by } else { Some(value) } {
            builder.set_value(key, value).unwrap();
        }
    }
    for tensor in gguf.tensors() {
        builder
            .tensor(tensor.name, tensor.ty, &tensor.dims)
            .unwrap();
    }
    filled(&builder)
}

fn filled(builder: &Builder) -> Vec<u8> {
    let layout = builder.finish().unwrap();
    let mut file = layout.header;
    file.resize(layout.total_len as usize, 0);
    file
}

/// Memory that refuses: a load that fails before it asks never meets it.
struct Nothing;

impl Memory for Nothing {
    fn region(&self, bytes: usize) -> Result<Box<dyn Region>, OutOfMemory> {
        Err(OutOfMemory { bytes })
    }
}

fn load(file: &[u8]) -> Result<Model, LoadError> {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    Model::load(
        &set,
        LoadOptions::default(),
        &Nothing,
        &Inline,
        &mut |_, _| {},
    )
}

fn refusal(file: &[u8]) -> String {
    load(file).err().expect("the file is refused").to_string()
}

fn same(_: &str, dims: &[u64]) -> Option<Vec<u64>> {
    Some(dims.to_vec())
}

#[test]
fn a_missing_tensor_is_named() {
    for source in [golden("llama"), golden("lfm2")] {
        let gguf = Gguf::parse(&source).unwrap();
        for missing in gguf.tensors().iter().map(|tensor| tensor.name) {
            // Without its own output matrix a model is tied; that is not an error.
            if missing == "output.weight" {
                continue;
            }
            let without = |name: &str, dims: &[u64]| (name != missing).then(|| dims.to_vec());
            let sentence = refusal(&edited(&source, &without, &[]));
            assert_eq!(sentence, format!("the tensor {missing} is missing"));
        }
    }
}

#[test]
fn a_surplus_tensor_is_named() {
    let file = edited(
        &golden("llama"),
        &same,
        &[("blk.0.attn_q_norm.weight", &[16])],
    );
    assert_eq!(
        refusal(&file),
        "the tensor blk.0.attn_q_norm.weight does not belong to the architecture llama"
    );
    let file = edited(
        &golden("qwen3"),
        &same,
        &[("blk.7.attn_q.weight", &[16, 16])],
    );
    assert_eq!(
        refusal(&file),
        "the tensor blk.7.attn_q.weight does not belong to the architecture qwen3"
    );
}

#[test]
fn a_mixers_tensors_belong_to_its_layers() {
    let source = golden("lfm2");
    for (name, dims) in [
        ("blk.0.attn_q.weight", &[48, 48][..]),
        ("blk.2.shortconv.conv.weight", &[3, 48]),
        ("blk.1.shortconv.conv.bias", &[48]),
        ("output_norm.weight", &[48]),
    ] {
        assert_eq!(
            refusal(&edited(&source, &same, &[(name, dims)])),
            format!("the tensor {name} does not belong to the architecture lfm2")
        );
    }
    let key = "lfm2.shortconv.l_cache";
    let without = refusal(&replaced(&source, key, None));
    assert_eq!(without, "the metadata has no lfm2.shortconv.l_cache");
    for taps in [1, 17] {
        assert_eq!(
            refusal(&replaced(&source, key, Some(Value::U32(taps)))),
            format!("{key} is {taps}; it must be 2 to 16")
        );
    }
    let wide = refusal(&replaced(&source, key, Some(Value::U32(4))));
    assert!(wide.starts_with("the tensor blk.0.shortconv.conv.weight has the shape [3, 32]"));
}

#[test]
fn a_misshapen_tensor_is_named_with_both_shapes() {
    for victim in [
        "blk.1.ffn_down.weight",
        "blk.0.attn_norm.weight",
        "blk.1.attn_k.weight",
    ] {
        let stretch = |name: &str, dims: &[u64]| {
            let mut dims = dims.to_vec();
            if name == victim {
                *dims.last_mut().unwrap() += 1;
            }
            Some(dims)
        };
        let sentence = refusal(&edited(&golden("llama"), &stretch, &[]));
        assert!(
            sentence.starts_with(&format!("the tensor {victim} has the shape [")),
            "{sentence}"
        );
    }
}

#[test]
fn a_known_family_that_does_not_run_says_what_is_missing() {
    assert!(arch::UNSUPPORTED.len() > 20);
    for &(name, missing) in arch::UNSUPPORTED {
        let by = Some(Value::Str(name));
        let sentence = refusal(&replaced(&golden("llama"), "general.architecture", by));
        let expected =
            format!("the architecture {name:?} is not supported yet: it needs {missing}");
        assert_eq!(sentence, expected);
    }
}

#[test]
fn metadata_that_makes_no_sense_is_named() {
    let huge = u32::MAX;
    let cases: &[(&str, Option<Value<'_>>, &str)] = &[
        (
            "general.architecture",
            None,
            "the metadata has no general.architecture",
        ),
        (
            "general.architecture",
            Some(Value::Str("perceiver")),
            "the architecture \"perceiver\" is not supported",
        ),
        (
            "general.architecture",
            Some(Value::Str("deepseek4")),
            "the architecture \"deepseek4\" is not supported yet: it needs sparse attention",
        ),
        (
            "llama.block_count",
            None,
            "the metadata has no llama.block_count",
        ),
        (
            "llama.block_count",
            Some(Value::U32(huge)),
            "llama.block_count is 4294967295",
        ),
        (
            "llama.embedding_length",
            Some(Value::U32(0)),
            "llama.embedding_length is 0",
        ),
        (
            "llama.embedding_length",
            Some(Value::U32(huge)),
            "llama.embedding_length is 4294967295",
        ),
        (
            "llama.attention.head_count",
            Some(Value::U32(0)),
            "llama.attention.head_count is 0",
        ),
        (
            "llama.attention.head_count_kv",
            Some(Value::U32(3)),
            "query heads cannot share 3 key heads",
        ),
        (
            "llama.feed_forward_length",
            Some(Value::U32(huge)),
            "llama.feed_forward_length is 4294967295",
        ),
        (
            "llama.rope.dimension_count",
            Some(Value::U32(7)),
            "llama.rope.dimension_count is 7",
        ),
        (
            "llama.rope.dimension_count",
            Some(Value::U32(1 << 20)),
            "llama.rope.dimension_count is 1048576",
        ),
        (
            "llama.rope.freq_base",
            Some(Value::F32(f32::NAN)),
            "llama.rope.freq_base is NaN",
        ),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Some(Value::F32(-1.0)),
            "llama.attention.layer_norm_rms_epsilon is -1",
        ),
        (
            "llama.attention.layer_norm_rms_epsilon",
            Some(Value::Str("x")),
            "llama.attention.layer_norm_rms_epsilon",
        ),
        (
            "llama.context_length",
            None,
            "the metadata has no llama.context_length",
        ),
    ];
    let source = golden("llama");
    for (key, value, expected) in cases {
        let sentence = refusal(&replaced(&source, key, *value));
        assert!(sentence.contains(expected), "{key}: {sentence}");
    }
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    assert!(matches!(
        load(&golden("llama")),
        Err(LoadError::OutOfMemory(_))
    ));
}

#[test]
fn a_load_reports_progress_to_the_end() {
    let source = golden("mixtral");
    let set = GgufSet::new(vec![Gguf::parse(&source).unwrap()]).unwrap();
    let mut last = (0, 1);
    let model = Model::load(
        &set,
        LoadOptions::default(),
        &SystemMemory,
        &Inline,
        &mut |done, all| {
            assert!(done >= last.0);
            last = (done, all);
        },
    );
    assert_eq!(last.0, last.1);
    assert!(model.unwrap().packed_bytes() <= source.len() + 16 * 64 * 64);
}

#[test]
fn an_encoder_that_makes_no_sense_is_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_states");
    let file = |name: &str| read(&folder.join(name).with_extension("gguf"));
    let (bert, decoder) = (file("bert-rank"), file("qwen3-last"));
    let message = |file: Vec<u8>| refusal(&file);
    let causal = "bert.attention.causal";
    assert_eq!(
        message(replaced(&bert, causal, Some(Value::Bool(true)))),
        "bert.attention.causal is 1; it must be false (0) in this architecture"
    );
    assert_eq!(
        message(replaced(&bert, "bert.pooling_type", Some(Value::U32(5)))),
        "bert.pooling_type is 5; it must be 0 to 4"
    );
    let gguf = Gguf::parse(&decoder).unwrap();
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        builder.set_value(key, value).unwrap();
    }
    for tensor in gguf.tensors() {
        let declared = builder.tensor(tensor.name, tensor.ty, &tensor.dims);
        declared.unwrap();
    }
    builder
        .set_value("qwen3.attention.causal", Value::Bool(false))
        .unwrap();
    assert_eq!(
        message(filled(&builder)),
        "qwen3.attention.causal is 0; it must be true (1) in this architecture"
    );
    for (name, dims) in [
        ("cls.weight", [48, 47]),
        ("cls.output.weight", [47, 1]),
        ("cls.output.bias", [2, 1]),
        ("token_types.weight", [47, 2]),
        ("position_embd.weight", [48, 79]),
        ("blk.1.layer_output_norm.bias", [47, 1]),
    ] {
        let shaped = |tensor: &str, own: &[u64]| {
            Some(if tensor == name {
                dims.to_vec()
            } else {
                own.to_vec()
            })
        };
        let found = message(edited(&bert, &shaped, &[]));
        let named = format!("the tensor {name} has the shape");
        assert!(found.starts_with(&named), "{found}");
    }
    let without =
        |name: &str, own: &[u64]| (name != "token_embd_norm.weight").then(|| own.to_vec());
    assert_eq!(
        message(edited(&bert, &without, &[])),
        "the tensor token_embd_norm.weight is missing"
    );
    assert_eq!(
        message(edited(&bert, &same, &[("output.weight", &[48, 64])])),
        "the tensor output.weight does not belong to the architecture bert"
    );
}

/// A copy under another architecture's name, with an indexer in its first layer.
fn indexed(source: &[u8], from: &str, to: &str) -> Vec<u8> {
    let gguf = Gguf::parse(source).unwrap();
    let mut builder = Builder::new();
    builder.set("general.architecture", to).unwrap();
    for (key, value) in gguf.metadata().iter() {
        if key != "general.architecture" {
            let key = match key.strip_prefix(from) {
                Some(rest) => format!("{to}{rest}"),
                None => key.to_owned(),
            };
            builder.set_value(&key, value).unwrap();
        }
    }
    builder
        .set(&format!("{to}.attention.indexer.top_k"), 48_u32)
        .unwrap();
    for tensor in gguf.tensors() {
        builder
            .tensor(tensor.name, tensor.ty, &tensor.dims)
            .unwrap();
    }
    builder
        .tensor("blk.0.indexer.proj.weight", GgmlType::F32, &[32, 4])
        .unwrap();
    let mut file = filled(&builder);
    let places: Vec<(usize, &[u8])> = {
        let copy = Gguf::parse(&file).unwrap();
        let place = |tensor: &strata_weights::Tensor<'_>| {
            tensor.data.as_ptr() as usize - file.as_ptr() as usize
        };
        let places = gguf.tensors().iter().map(|tensor| {
            let to = copy.tensor(tensor.name).unwrap();
            (place(to), tensor.data)
        });
        places.collect()
    };
    for (start, data) in places {
        file[start..][..data.len()].copy_from_slice(data);
    }
    file
}

#[test]
fn an_untested_architecture_runs_only_if_it_is_asked_for_by_name() {
    let source = golden("deepseek2");
    for name in ["deepseek32", "glm-dsa"] {
        let file = indexed(&source, "deepseek2", name);
        let sentence = refusal(&file);
        assert!(sentence.contains("is untested"), "{sentence}");
        let load = |file: &[u8], name: &str| {
            let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
            let options = LoadOptions {
                untested: arch::untested(name),
                ..LoadOptions::default()
            };
            Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {})
        };
        let other = if name == "glm-dsa" {
            "deepseek32"
        } else {
            "glm-dsa"
        };
        assert!(load(&file, other).is_err(), "another was asked for");
        let model = load(&file, name).unwrap();
        assert_eq!(model.config().context, 48, "more keys would be chosen from");
        let tokens: Vec<u32> = (1..40).collect();
        let run = |model: &Model| {
            let mut runner = Runner::new(model, Kernels::detect(), &Inline, KvType::F32, 64);
            let logits = runner.feed(&tokens, Output::AllLogits);
            logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let plain = load(&source, "").unwrap();
        assert!(run(&model) == run(&plain), "{name} is not deepseek2");
    }
    assert!(arch::untested("llama").is_none());
}

#[test]
fn a_layer_after_the_last_is_loaded_where_it_can_be_computed() {
    let read = |file: &[u8], nextn| {
        let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
        let options = LoadOptions {
            nextn,
            ..LoadOptions::default()
        };
        let loaded = Blueprint::new(&set, options).map(|blueprint| {
            let layout = blueprint.layout(KvType::F16);
            let config = blueprint.config();
            (
                config.nextn.is_some(),
                blueprint.packed_bytes(),
                layout.page_bytes(),
            )
        });
        loaded.map_err(|error| error.to_string())
    };
    let load = |name: &str, nextn| read(&golden(name), nextn);
    let plain = load("glm4moe-mtp", NextnUse::Omit).unwrap();
    let predicting = load("glm4moe-mtp", NextnUse::IfPresent).unwrap();
    assert!(!plain.0 && predicting.0);
    // Keys and values as wide as those of the other layers, and a state of 32 values in f16.
    assert!(plain.1 < predicting.1);
    assert_eq!(predicting.2, plain.2 / 2 * 3 + 32 * 32 * 2);
    assert_eq!(
        load("llama", NextnUse::IfPresent),
        load("llama", NextnUse::Omit)
    );
    let key = "glm4moe.nextn_predict_layers";
    let several = replaced(&golden("glm4moe-mtp"), key, Some(Value::U32(2)));
    let dense = golden("llama");
    let gguf = Gguf::parse(&dense).unwrap();
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        builder.set_value(key, value).unwrap();
    }
    let key = "llama.nextn_predict_layers";
    builder.set_value(key, Value::U32(1)).unwrap();
    for tensor in gguf.tensors() {
        builder
            .tensor(tensor.name, tensor.ty, &tensor.dims)
            .unwrap();
    }
    for (file, expected) in [
        (
            dense.clone(),
            "the file has no layer that predicts the token after the next (MTP)",
        ),
        (
            several,
            "2 layers predict tokens after the next (MTP), of which one is supported",
        ),
        (
            filled(&builder),
            "layers that predict the token after the next (MTP) are not supported in llama",
        ),
    ] {
        assert_eq!(read(&file, NextnUse::Require).unwrap_err(), expected);
    }
}
