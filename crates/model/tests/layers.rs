//! Layers that differ: windows, heads and feed-forward networks by layer.

use crate::running::{Runner, read};
use std::path::Path;
use strata_kernels::Kernels;
use strata_model::{Blueprint, KvType, LoadOptions, Model, Output};
use strata_platform::{Inline, SystemMemory};
use strata_weights::gguf::Builder;
use strata_weights::{Gguf, GgufSet};

fn golden(name: &str) -> Vec<u8> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.gguf")))
}

/// A tensor's shape and data in a copy.
type Edit<'a> = &'a dyn Fn(&str, Vec<u64>, Vec<f32>) -> (Vec<u64>, Vec<f32>);

/// A copy of a file of f32 tensors without some keys, with those that `keys` sets, and with changed tensors.
fn edited(
    source: &[u8],
    without: &[&str],
    keys: impl Fn(&mut Builder),
    tensors: Edit<'_>,
) -> Vec<u8> {
    let gguf = Gguf::parse(source).unwrap();
    let mut builder = Builder::new();
    for (key, value) in gguf.metadata().iter() {
        if !without.contains(&key) {
            builder.set_value(key, value).unwrap();
        }
    }
    keys(&mut builder);
    let changed: Vec<_> = gguf
        .tensors()
        .iter()
        .map(|tensor| {
            let floats = tensor.data.chunks_exact(4);
            let floats = floats.map(|b| f32::from_le_bytes(b.try_into().unwrap()));
            let (dims, floats) = tensors(tensor.name, tensor.dims.to_vec(), floats.collect());
            builder.tensor(tensor.name, tensor.ty, &dims).unwrap();
            floats
        })
        .collect();
    let layout = builder.finish().unwrap();
    let mut file = layout.header;
    for (extent, floats) in layout.tensors.iter().zip(changed) {
        let end = file.len() + extent.padded_len as usize;
        file.extend(floats.iter().flat_map(|x| x.to_le_bytes()));
        file.resize(end, 0);
    }
    file
}

fn same(_: &str, dims: Vec<u64>, data: Vec<f32>) -> (Vec<u64>, Vec<f32>) {
    (dims, data)
}

const PATTERN: &str = "olmo2.attention.sliding_window_pattern";

/// The windows of a copy of OLMo 3 with another pattern.
fn windows(keys: impl Fn(&mut Builder)) -> Result<Vec<Option<usize>>, String> {
    let file = edited(&golden("olmo3"), &[PATTERN], keys, &same);
    let set = GgufSet::new(vec![Gguf::parse(&file).unwrap()]).unwrap();
    let blueprint = Blueprint::new(&set, LoadOptions::default()).map_err(|e| e.to_string())?;
    let layers = blueprint.config().attention();
    Ok(layers.map(|attention| attention.window).collect())
}

#[test]
fn windows_follow_the_pattern_of_the_file() {
    const W: Option<usize> = Some(8);
    let cases = [
        (windows(|_| ()), [W, W, W, None, W]),
        (
            windows(|b| {
                b.set_array(PATTERN, [true, false, true, true, false])
                    .unwrap();
            }),
            [W, None, W, W, None],
        ),
        (
            windows(|b| {
                b.set_array(PATTERN, [1_i32, 0, 0, 1, 1]).unwrap();
            }),
            [W, None, None, W, W],
        ),
        (
            windows(|b| {
                b.set(PATTERN, 2_u32).unwrap();
            }),
            [W, None, W, None, W],
        ),
        (
            windows(|b| {
                b.set(PATTERN, 1_u32).unwrap();
            }),
            [None; 5],
        ),
        (
            windows(|b| {
                b.set(PATTERN, 0_u32).unwrap();
            }),
            [W; 5],
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found.unwrap(), expected);
    }
    let short = windows(|b| {
        b.set_array(PATTERN, [true, false]).unwrap();
    });
    assert_eq!(
        short.unwrap_err(),
        "olmo2.attention.sliding_window_pattern has 2 elements; the model has 5 layers"
    );
    let texts = windows(|b| {
        b.set_array(PATTERN, ["yes"; 5]).unwrap();
    });
    let refusal = texts.unwrap_err();
    assert!(refusal.contains(PATTERN), "{refusal}");
}

#[test]
fn only_full_layers_scale_their_rotations() {
    let file = golden("olmo3");
    let set = GgufSet::new(vec![Gguf::parse(&file).unwrap()]).unwrap();
    let blueprint = Blueprint::new(&set, LoadOptions::default()).unwrap();
    let config = blueprint.config();
    for attention in config.attention() {
        let rope = &config.ropes[attention.rope.unwrap()];
        assert_eq!(rope.base, 500_000.0);
        assert_eq!(rope.magnitude > 1.0, attention.window.is_none());
    }
    assert_eq!(config.ropes.len(), 2);
}

fn logits(file: &[u8]) -> Vec<u32> {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    let options = LoadOptions::default();
    let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap();
    let tokens: Vec<u32> = (0..70).map(|i| (i * 31 + 7) % 48).collect();
    let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F16, 96);
    let mut logits = runner.feed(&tokens, Output::AllLogits);
    logits.extend(runner.feed(&[5], Output::LastLogits));
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Repeats each head's rows.
fn repeated(data: &[f32], head: usize) -> Vec<f32> {
    data.chunks_exact(head)
        .flat_map(|head| head.repeat(2))
        .collect()
}

#[test]
fn layers_of_other_sizes_give_the_logits_of_equal_ones() {
    // Layer 0 has each key and value head twice, and layer 1 a wider network whose further units do nothing.
    let source = golden("llama");
    let (ffn, wide) = (40, 56);
    let file = edited(
        &source,
        &["llama.attention.head_count_kv", "llama.feed_forward_length"],
        |b| {
            let kv_heads = [4_u32, 2];
            b.set_array("llama.attention.head_count_kv", kv_heads)
                .unwrap();
            let widths = [ffn as u32, wide as u32];
            b.set_array("llama.feed_forward_length", widths).unwrap();
        },
        &|name, mut dims, mut data| {
            match name {
                "blk.0.attn_k.weight" | "blk.0.attn_v.weight" => {
                    data = repeated(&data, 16 * dims[0] as usize);
                    dims[1] *= 2;
                }
                "blk.1.ffn_gate.weight" | "blk.1.ffn_up.weight" => {
                    dims[1] = wide;
                    data.resize((dims[0] * wide) as usize, 0.0);
                }
                "blk.1.ffn_down.weight" => {
                    dims[0] = wide;
                    let rows = data.chunks_exact(ffn);
                    let padding = [0.0; 16];
                    data = rows
                        .flat_map(|row| row.iter().chain(&padding))
                        .copied()
                        .collect();
                }
                _ => {}
            }
            (dims, data)
        },
    );
    assert!(logits(&file) == logits(&source));
}

#[test]
fn arrays_are_checked_by_layer() {
    let refusal = |key: &str, values: &[u32]| {
        let file = edited(
            &golden("llama"),
            &[key],
            |b| {
                b.set_array(key, values).unwrap();
            },
            &same,
        );
        let set = GgufSet::new(vec![Gguf::parse(&file).unwrap()]).unwrap();
        let error = Blueprint::new(&set, LoadOptions::default()).err();
        error.expect("the file is refused").to_string()
    };
    let kv = "llama.attention.head_count_kv";
    assert_eq!(
        refusal(kv, &[2, 2, 2]),
        "llama.attention.head_count_kv has 3 elements; the model has 2 layers"
    );
    assert_eq!(
        refusal(kv, &[2, 3]),
        "4 query heads cannot share 3 key heads evenly"
    );
    assert_eq!(
        refusal(kv, &[2, 0]),
        "llama.attention.head_count_kv is 0; it must be above 0 and within reason"
    );
    assert!(
        refusal("llama.feed_forward_length", &[40, 41])
            .starts_with("the tensor blk.1.ffn_gate.weight has the shape [32, 40]")
    );
}
