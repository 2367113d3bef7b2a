//! Our samplers leave the candidates that llama.cpp's leave, with the same probabilities (tools/sampler_vectors.py).

use std::collections::HashMap;
use std::str::FromStr;

use strata_engine::sampling::{Lookback, Mirostat, Sampler, SamplerSettings, Workspace};

const VECTORS: &str = include_str!("vectors/samplers.txt");
const TOLERANCE: f32 = 1e-5;

fn value<T: FromStr>(text: &str) -> T {
    text.parse()
        .ok()
        .unwrap_or_else(|| panic!("bad value {text}"))
}

fn list<T: FromStr>(text: &str, separator: char) -> Vec<T> {
    text.split(separator).map(value).collect()
}

fn pairs(entries: impl Iterator<Item = impl AsRef<str>>) -> Vec<(u32, f32)> {
    entries
        .map(|entry| {
            let (token, number) = entry.as_ref().split_once(':').expect("a pair");
            (value(token), value(number))
        })
        .collect()
}

#[derive(Default)]
struct Case {
    settings: SamplerSettings,
    history: Vec<u32>,
    first: Option<u32>,
}

impl Case {
    fn set(&mut self, key: &str, text: &str) {
        let s = &mut self.settings;
        match key {
            "bias" => s.logit_bias = pairs(text.split(',')),
            "repeat" => s.penalties.repeat = value(text),
            "frequency" => s.penalties.frequency = value(text),
            "presence" => s.penalties.presence = value(text),
            "penalty_last" => s.penalties.lookback = Lookback::Last(value(text)),
            "dry_multiplier" => s.dry.multiplier = value(text),
            "dry_base" => s.dry.base = value(text),
            "dry_allowed" => s.dry.allowed_length = value(text),
            "dry_last" => s.dry.lookback = Lookback::Last(value(text)),
            "breakers" => s.dry.breakers = text.split(',').map(|b| list(b, '.')).collect(),
            "top_n_sigma" => s.top_n_sigma = value(text),
            "top_k" => s.top_k = value(text),
            "typical_p" => s.typical_p = value(text),
            "top_p" => s.top_p = value(text),
            "min_p" => s.min_p = value(text),
            "min_keep" => s.min_keep = value(text),
            "xtc_threshold" => {
                s.xtc.threshold = value(text);
                s.xtc.probability = 1.0;
            }
            "temperature" => s.temperature = value(text),
            "dynamic_range" => s.dynamic_temperature.range = value(text),
            "dynamic_exponent" => s.dynamic_temperature.exponent = value(text),
            "tau" => {
                s.mirostat = Mirostat::V2 {
                    tau: value(text),
                    eta: 0.0,
                }
            }
            "eta" => {
                if let Mirostat::V2 { eta, .. } = &mut s.mirostat {
                    *eta = value(text);
                }
            }
            "history" => self.history = list(text, ','),
            "first" => self.first = Some(value(text)),
            _ => panic!("unknown key {key}"),
        }
    }

    /// The candidates, the likeliest first.
    fn kept(self, logits: &[f32]) -> Vec<(u32, f32)> {
        let mut sampler = Sampler::new(self.settings, logits.len()).expect("good settings");
        let mut workspace = Workspace::new();
        if let Some(first) = self.first {
            let mut sure = vec![f32::NEG_INFINITY; logits.len()];
            sure[first as usize] = 1.0;
            let choice = sampler.sample(&sure, &mut workspace).expect("a choice");
            assert_eq!(choice.token, first);
            sampler.accept(first);
        }
        sampler.prime(&self.history);
        let choice = sampler.sample(logits, &mut workspace).expect("a choice");
        let candidates = workspace.candidates();
        assert!(candidates.iter().any(|c| c.token == choice.token));
        let mut kept: Vec<(u32, f32)> = candidates
            .iter()
            .map(|c| (c.token, c.probability))
            .collect();
        kept.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        kept
    }
}

#[test]
fn candidates_and_probabilities_are_those_of_llama_cpp() {
    let mut inputs: HashMap<&str, Vec<f32>> = HashMap::new();
    let mut result = Vec::new();
    let (mut name, mut cases, mut worst) = ("", 0, 0f32);
    for line in VECTORS.lines() {
        let (kind, rest) = line.split_once(' ').expect("a kind and its data");
        let mut words = rest.split(' ');
        match kind {
            "#" => {}
            "logits" => {
                let name = words.next().expect("a name");
                inputs.insert(name, words.map(value).collect());
            }
            "case" => {
                let logits = &inputs[words.next().expect("a name")];
                let mut case = Case::default();
                for word in words {
                    let (key, text) = word.split_once('=').expect("a setting");
                    case.set(key, text);
                }
                name = rest;
                result = case.kept(logits);
            }
            "kept" => {
                let mut expected: HashMap<u32, f32> = pairs(words).into_iter().collect();
                for (token, probability) in &result {
                    let other = expected.remove(token);
                    let other = other.unwrap_or_else(|| panic!("{name}: {token} should be out"));
                    let error = (probability - other).abs();
                    assert!(error <= TOLERANCE, "{name}: {token} {probability} {other}");
                    worst = worst.max(error);
                }
                assert!(expected.is_empty(), "{name}: {expected:?} should be in");
                cases += 1;
            }
            _ => panic!("unknown line {kind}"),
        }
    }
    assert!(cases > 200, "only {cases} cases");
    println!("{cases} cases, largest difference {worst:e}");
}
