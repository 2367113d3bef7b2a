//! The book's samplers against llama.cpp's answers, which the engine is tested with too.

use std::collections::HashMap;

use strata_learn::sampling::{
    Candidate, candidates, draw, likeliest, min_p, top_k, top_p, uniform,
};

use crate::repository;

/// Logits, a sampler's name and value, and the tokens that it left with their probabilities.
pub(crate) struct Case {
    pub(crate) logits: Vec<f32>,
    pub(crate) sampler: String,
    pub(crate) value: f64,
    pub(crate) kept: Vec<(u32, f64)>,
}

/// The vectors with a single sampler over finite logits.
pub(crate) fn cases() -> Vec<Case> {
    let path = repository().join("crates/engine/tests/vectors/samplers.txt");
    let text = std::fs::read_to_string(path).expect("the vectors are there");
    let mut logits = HashMap::new();
    let mut cases = Vec::new();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["logits", name, ..] => {
                let numbers = words[2..].iter().map(|x| x.parse().expect("a logit"));
                logits.insert(name, numbers.collect::<Vec<f32>>());
            }
            ["case", name, setting] if logits[name].iter().all(|x| x.is_finite()) => {
                let (sampler, value) = setting.split_once('=').expect("a setting");
                let Ok(value) = value.parse() else { continue };
                let kept = lines.next().and_then(|line| line.strip_prefix("kept "));
                let kept = kept.expect("what was kept").split_whitespace();
                let pair = |pair: &str| {
                    let (token, probability) = pair.split_once(':')?;
                    Some((token.parse().ok()?, probability.parse().ok()?))
                };
                cases.push(Case {
                    logits: logits[name].clone(),
                    sampler: sampler.into(),
                    value,
                    kept: kept.map(|text| pair(text).expect("a pair")).collect(),
                });
            }
            _ => {}
        }
    }
    cases
}

pub(crate) fn assert_kept(list: &[Candidate], case: &Case) {
    let name = format!("{}={}", case.sampler, case.value);
    assert_eq!(list.len(), case.kept.len(), "{name}");
    for (token, probability) in &case.kept {
        let ours = list.iter().find(|c| c.token == *token);
        let ours = ours.unwrap_or_else(|| panic!("{name}: {token} is lost"));
        assert!((ours.probability - probability).abs() < 1e-5, "{name}");
    }
}

#[test]
fn samplers_keep_what_llama_cpp_keeps() {
    let mut checked = 0;
    for case in cases() {
        let mut list = candidates(&case.logits);
        match case.sampler.as_str() {
            "top_k" => top_k(&mut list, case.value as usize),
            "top_p" => top_p(&mut list, case.value),
            "min_p" => min_p(&mut list, case.value as f32),
            _ => continue,
        }
        assert_kept(&list, &case);
        checked += 1;
    }
    assert!(checked >= 20, "{checked} vectors");
}

#[test]
fn draws_follow_the_probabilities() {
    let list = candidates(&[0.0, 2f32.ln(), f32::NEG_INFINITY]);
    assert_eq!(likeliest(&[0.0, 2f32.ln(), f32::NEG_INFINITY]), 1);
    let mut counts = [0u32; 3];
    for position in 0..30_000 {
        let token = draw(&list, uniform(7, position)).expect("a token");
        counts[token as usize] += 1;
    }
    assert!(counts[1].abs_diff(20_000) < 300, "{counts:?}");
    assert_eq!(counts[2], 0);
    assert_eq!(draw(&[], 0.5), None);
    assert_eq!(draw(&list, 1.0), Some(2));
}
