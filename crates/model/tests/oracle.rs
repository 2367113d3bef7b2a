//! The engine's quantized arithmetic against the book's plain f32 decoder, on the built-in model.

use crate::running::{Runner, read};
use std::path::Path;
use strata_kernels::Kernels;
use strata_learn::decoder::Decoder;
use strata_model::{KvType, LoadOptions, Model, Output};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

fn softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().fold(f32::MIN, |a, &b| a.max(b));
    let exps: Vec<f64> = logits.iter().map(|&l| f64::from(l - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|e| e / sum).collect()
}

fn argmax(logits: &[f32]) -> usize {
    (0..logits.len())
        .max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
        .unwrap()
}

#[test]
fn tale_predicts_what_the_plain_decoder_predicts() {
    let bytes =
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf"));
    let gguf = Gguf::parse(&bytes).unwrap();
    let mut oracle = Decoder::from_gguf(&gguf).unwrap();
    let set = GgufSet::new(vec![gguf]).unwrap();
    let options = LoadOptions::default();
    let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap();
    let vocabulary = model.config().vocabulary;

    // A story in the model's own words, so that its distributions are those of real use.
    let mut tokens = vec![2050, 693, 261, 550];
    let mut expected = Vec::new();
    for position in 0..64 {
        let logits = oracle.forward(tokens[position], position).to_vec();
        if position + 1 == tokens.len() {
            tokens.push(argmax(&logits) as u32);
        }
        expected.push(logits);
    }
    for (kind, bar) in [
        (KvType::F32, 1e-3),
        (KvType::F16, 1e-3),
        (KvType::Q8_0, 3e-3),
    ] {
        let mut runner = Runner::new(&model, Kernels::detect(), &Inline, kind, 64);
        let logits = runner.feed(&tokens[..64], Output::AllLogits);
        let mut divergence = 0.0;
        let mut same = 0;
        for (ours, theirs) in logits.chunks(vocabulary).zip(&expected) {
            same += usize::from(argmax(ours) == argmax(theirs));
            let (p, q) = (softmax(theirs), softmax(ours));
            divergence += p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum::<f64>();
        }
        let divergence = divergence / 64.0;
        // Eight-bit activations are the difference; a mistake would be a hundred times larger.
        assert!(divergence < bar, "{kind:?}: mean divergence {divergence}");
        assert!(
            same >= 62,
            "{kind:?}: {same} of 64 predictions are the same"
        );
    }
}
