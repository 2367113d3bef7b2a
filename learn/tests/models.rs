//! Part 5: the tokenizer against the product's, experts, the recurrent layer and patches against their kernels.

use strata_kernels::Kernels;
use strata_learn::bpe::{Bpe, split, train};
use strata_learn::demos::numbers;
use strata_learn::experts::{mixture, route};
use strata_learn::gguf::ModelFile;
use strata_learn::patches::{Picture, embed, look_around, merge, patches, project, ring, splice};
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
    let rows: Vec<&[f32]> = taps.iter().map(Vec::as_slice).collect();
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
        Kernels::detect().short_conv(&rows, &columns, Some(&gate), &mut theirs);
        let ours = layer.step(&x, &gate);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.to_bits(), theirs.to_bits(), "position {position}");
        }
    }
}

/// A matrix of random numbers.
fn matrix(rows: usize, columns: usize, seed: u64) -> Vec<Vec<f32>> {
    let rows = (0..rows).map(|row| numbers(columns, seed + row as u64));
    rows.collect()
}

#[test]
fn patches_have_the_kernels_bits_and_are_a_convolution() {
    let picture = Picture::from_bytes(16, &ring(16), [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]);
    assert_eq!((picture.width, picture.height), (16, 16));
    let (size, width) = (4, 24);
    let cut = patches(&picture, size);
    assert_eq!((cut.len(), cut[0].len()), (16, 48));
    let (filters, places) = (matrix(width, 48, 1), matrix(16, width, 100));
    let embedded = embed(&cut, &filters, &places);
    for (at, row) in embedded.iter().enumerate() {
        for (filter, value) in row.iter().enumerate() {
            let dot = Kernels::detect().dot(&filters[filter], &cut[at]);
            assert_eq!(value.to_bits(), (dot + places[at][filter]).to_bits());
            // A convolution whose steps are as long as its filter, written out.
            let (top, left) = (at / 4 * size, at % 4 * size);
            let mut sum = f64::from(places[at][filter]);
            for channel in 0..3 {
                for y in 0..size {
                    for x in 0..size {
                        let pixel = picture.planes[channel][(top + y) * 16 + left + x];
                        let weight = filters[filter][(channel * size + y) * size + x];
                        sum += f64::from(pixel) * f64::from(weight);
                    }
                }
            }
            assert!((sum - f64::from(*value)).abs() < 1e-4, "{sum} {value}");
        }
    }
}

#[test]
fn the_tower_does_not_know_where_a_patch_is_unless_it_is_told() {
    let rows = matrix(6, 16, 7);
    let seen = look_around(&rows, &rows, &rows);
    let mut turned = rows.clone();
    turned.rotate_left(2);
    let mut again = look_around(&turned, &turned, &turned);
    again.rotate_right(2);
    for (a, b) in seen.concat().iter().zip(&again.concat()) {
        assert!((a - b).abs() < 1e-5);
    }
    // One that looks at copies of one thing sees that thing.
    let same = vec![rows[0].clone(); 4];
    for (a, b) in look_around(&rows, &same, &same)[3].iter().zip(&rows[0]) {
        assert!((a - b).abs() < 1e-5);
    }
}

#[test]
fn a_picture_stands_among_the_words_as_rows() {
    let cut: Vec<Vec<f32>> = (0..20).map(|n| vec![n as f32; 2]).collect();
    let merged = merge(&cut, 5);
    // Five in a row and four rows: the fifth is dropped.
    assert_eq!(merged.len(), 4);
    assert_eq!(merged[0], [0.0, 0.0, 1.0, 1.0, 5.0, 5.0, 6.0, 6.0]);
    assert_eq!(merged[3][0], 12.0);
    let picture = project(&merged, &matrix(3, 8, 9));
    let row = |word: u32| vec![word as f32; 3];
    let rows = splice(&[5, 9, 6], 9, row, &picture);
    assert_eq!(rows.len(), 6);
    assert_eq!((&rows[0], &rows[5]), (&row(5), &row(6)));
    assert_eq!(rows[1..5], picture[..]);
}
