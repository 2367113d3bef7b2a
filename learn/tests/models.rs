//! Part 5: the tokenizer against the product's, experts, and the recurrent layer against its kernel.

use strata_kernels::Kernels;
use strata_learn::bpe::{Bpe, split, train};
use strata_learn::demos::numbers;
use strata_learn::experts::{mixture, route};
use strata_learn::gguf::ModelFile;
use strata_learn::short_conv::ShortConv;
use strata_tokenizer::{EncodeOptions, Tokenizer};
use strata_weights::Gguf;

use crate::tale;

#[test]
fn tokens_are_the_products() {
    let Some(bytes) = tale() else { return };
    let ours = Bpe::from_file(&ModelFile::parse(&bytes).expect("a valid file")).expect("merges");
    let gguf = Gguf::parse(&bytes).expect("a valid file");
    let theirs = Tokenizer::from_gguf(gguf.metadata()).expect("a tokenizer");
    for text in [
        "Once upon a time",
        "I'll  go\n\n  home, they've said: 1234 apples!?",
        "don't   stop \t\n",
        "Größe, naïve, 東京 and Ελλάδα — 42½",
        " \u{1f600} a'b 'tis x=y+z;",
        "",
    ] {
        let expected = theirs.encode(text, EncodeOptions::default());
        assert_eq!(ours.encode(text), expected, "{text:?}");
    }
}

#[test]
fn splitting_keeps_every_byte() {
    let text = "I'll  go\n";
    assert_eq!(split(text), ["I", "'ll", " ", " go", "\n"]);
    assert_eq!(split(text).concat(), text);
}

#[test]
fn merges_are_learned_in_the_order_of_their_frequency() {
    let merges = train(&["hug", "pug", "hug", "pun", "bun", "hugs"], 2);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let merges: Vec<_> = merges.iter().map(|(a, b)| (text(a), text(b))).collect();
    assert_eq!(
        merges,
        [("u".into(), "g".into()), ("h".into(), "ug".into())]
    );
    assert!(train(&["a"], 5).is_empty());
}

#[test]
fn a_mixture_of_all_experts_is_their_weighted_mean() {
    let scores = numbers(8, 1);
    let all = route(&scores, 8);
    let sum: f32 = scores.iter().map(|score| score.exp()).sum();
    for (expert, weight) in &all {
        assert!((weight - scores[*expert].exp() / sum).abs() < 1e-6);
    }
    let few = route(&scores, 2);
    assert!((few.iter().map(|chosen| chosen.1).sum::<f32>() - 1.0).abs() < 1e-6);
    assert_eq!((few[0].0, few[1].0), (all[0].0, all[1].0));
    assert!(route(&[], 2).is_empty());
    // Experts that all say the same are one feed-forward network.
    let x = numbers(4, 2);
    let same = mixture(&x, &scores, 3, |_, x| x.to_vec());
    for (x, y) in x.iter().zip(&same) {
        assert!((x - y).abs() < 1e-6);
    }
}

#[test]
fn the_recurrent_layer_has_the_kernels_bits() {
    let channels = 20;
    let taps: Vec<Vec<f32>> = (0..3).map(|k| numbers(channels, k)).collect();
    let mut layer = ShortConv::new(taps.clone());
    let flat = taps.concat();
    let silence = vec![0.0; channels];
    let mut past = vec![silence.clone(), silence];
    for position in 0..10 {
        let (x, gate) = (
            numbers(channels, 100 + position),
            numbers(channels, 200 + position),
        );
        past.push(x.clone());
        let columns: Vec<&[f32]> = past[past.len() - 3..].iter().map(Vec::as_slice).collect();
        let mut theirs = vec![0.0; channels];
        Kernels::detect().short_conv(&flat, &columns, &gate, &mut theirs);
        let ours = layer.step(&x, &gate);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.to_bits(), theirs.to_bits(), "position {position}");
        }
    }
}
