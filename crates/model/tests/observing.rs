//! Whoever looks on sees what is computed, and changes no bit of it.

use crate::running::{Runner, read};
use std::path::Path;
use std::sync::Mutex;
use strata_kernels::Kernels;
use strata_learn::decoder::Decoder;
use strata_model::{
    AttentionShares, GgmlType, KvType, LoadOptions, Model, Observer, Output, RowFormat, Span,
};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// Remembers what one head of one layer attends to.
struct Head {
    layer: usize,
    head: usize,
    seen: Mutex<Vec<(usize, usize, Vec<f32>)>>,
}

impl Head {
    fn new(layer: usize, head: usize) -> Self {
        Self {
            layer,
            head,
            seen: Mutex::default(),
        }
    }
}

impl Observer for Head {
    fn watched_head(&self, layer: usize) -> Option<usize> {
        (layer == self.layer).then_some(self.head)
    }

    fn attention(&self, shares: &AttentionShares<'_>) {
        assert_eq!(shares.layer, self.layer);
        let row = (shares.position, shares.first, shares.shares.to_vec());
        self.seen.lock().unwrap().push(row);
    }
}

fn load(bytes: &[u8]) -> Model {
    let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
    let options = LoadOptions::default();
    Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap()
}

fn tale() -> Vec<u8> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf"))
}

/// Feeds tokens in one batch while somebody looks on.
fn feed_observed(runner: &mut Runner<'_>, tokens: &[u32], observer: &dyn Observer) -> Vec<f32> {
    let kv = &mut runner.kv;
    kv.reserve(&mut runner.sequence, tokens.len()).unwrap();
    let span = Span {
        sequence: &mut runner.sequence,
        tokens,
        output: Output::AllLogits,
        adapter: None,
        embedded: &[],
    };
    let (compute, work) = (&runner.compute, &mut runner.work);
    let outputs = runner
        .model
        .forward_observed(compute, kv, work, &mut [span], observer);
    outputs.unwrap().logits.to_vec()
}

#[test]
fn what_a_head_attends_to_is_what_the_plain_decoder_says() {
    let bytes = tale();
    let model = load(&bytes);
    let gguf = Gguf::parse(&bytes).unwrap();
    let tokens: Vec<u32> = (0..40).map(|i| [2050, 693, 261, 550][i % 4]).collect();
    let mut oracle = Decoder::from_gguf(&gguf).unwrap();
    let mut expected = Vec::new();
    for (position, &token) in tokens.iter().enumerate() {
        oracle.forward(token, position);
        expected.push(oracle.last_attention());
    }
    let layers = model.config().layers.len();
    let plain = Runner::new(&model, Kernels::detect(), &Inline, KvType::F32, 64)
        .feed(&tokens, Output::AllLogits);
    for head in [0, 5] {
        let watched = Head::new(layers - 1, head);
        let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F32, 64);
        let logits = feed_observed(&mut runner, &tokens, &watched);
        assert!(
            logits
                .iter()
                .zip(&plain)
                .all(|(a, b)| a.to_bits() == b.to_bits()),
            "the observer changed the logits"
        );
        let seen = watched.seen.into_inner().unwrap();
        assert_eq!(seen.len(), tokens.len());
        for (position, first, shares) in &seen {
            assert_eq!((*first, shares.len()), (0, position + 1));
            let sum: f32 = shares.iter().sum();
            assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            for (ours, theirs) in shares.iter().zip(&expected[*position][head]) {
                // Eight-bit activations are the difference.
                assert!((ours - theirs).abs() < 0.02, "{ours} {theirs}");
            }
        }
    }
}

/// Windows, sinks, ALiBi and soft caps: whatever a family has, what it attends to adds up.
#[test]
fn heads_of_every_kind_add_up() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (case, leaves) in [
        ("gemma2", false),
        ("bloom", false),
        ("gpt-oss", true),
        ("deepseek2", false),
    ] {
        let path = golden.join(format!("{case}.gguf"));
        let model = load(&read(&path));
        let tokens: Vec<u32> = (1..24).collect();
        let watched = Head::new(0, 1);
        let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F16, 32);
        feed_observed(&mut runner, &tokens, &watched);
        let seen = watched.seen.into_inner().unwrap();
        assert_eq!(seen.len(), tokens.len(), "{case}");
        for (position, first, shares) in &seen {
            assert_eq!(first + shares.len(), position + 1, "{case}");
            let sum: f32 = shares.iter().sum();
            // A sink takes its part, which is large where there is little else to look at.
            let least = if leaves { 0.0 } else { 1.0 - 1e-4 };
            let most = if leaves && *position == 0 {
                0.999
            } else {
                1.0 + 1e-4
            };
            let fine = sum > least && sum < most;
            assert!(fine, "{case}: {sum} at {position}");
        }
    }
}

#[test]
fn rows_are_those_of_the_file() {
    let bytes = tale();
    let model = load(&bytes);
    let gguf = Gguf::parse(&bytes).unwrap();
    let tensors = [
        "blk.0.ffn_down.weight",
        "blk.3.attn_v.weight",
        "token_embd.weight",
    ];
    for name in tensors {
        let tensor = model.matrix_tensors().find(|tensor| tensor.name == name);
        let tensor = tensor.unwrap();
        let stored = gguf.tensor(name).unwrap();
        let row = tensor.rows - 3;
        let (ty, read) = model.matrix_row(tensor.first, row).unwrap();
        let bytes = stored.data.len() / tensor.rows;
        assert_eq!(ty, tensor.ty);
        assert_eq!(read, stored.data[row * bytes..][..bytes], "{name}");
        assert_eq!(model.matrix_row(tensor.first, tensor.rows), None);
        // More bits are never worse, by much; and a format loses nothing of what it has said itself.
        let (_, values) = model.row_values(tensor.first, row).unwrap();
        let error = |ty| RowFormat::of(&values, ty).unwrap().error(&values);
        assert!(error(GgmlType::Q8_0) < error(GgmlType::Q4_0));
        assert!(error(GgmlType::Q4_K) < error(GgmlType::Q2_K));
    }
    assert_eq!(model.matrix_row(usize::MAX, 0), None);
}
