//! Every architecture against Hugging Face `transformers`, or llama.cpp where that has no class: tiny random models, all
//! logits, f32 weights.
//!
//! `tests/golden/README.md` says how the files were made.

use crate::running::{Runner, base64, check_page, page_row, read};
use std::collections::BTreeMap;
use std::path::PathBuf;
use strata_kernels::{Isa, Kernels};
use strata_model::{KvType, LoadOptions, Model, Output, arch};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// The bar: f32 against f32, summed in another order.
const TOLERANCE: f32 = 1e-3;

struct Case {
    name: String,
    reference: String,
    file: Vec<u8>,
    tokens: Vec<u32>,
    logits: Vec<f32>,
    /// Models whose weights are quantized, and so their activations, are given more.
    tolerance: f32,
}

fn cases() -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let expected: serde_json::Value =
                serde_json::from_slice(&read(&path.with_extension("json"))).unwrap();
            let bytes = base64(expected["logits_f32_le_base64"].as_str().unwrap());
            Case {
                name: path.file_stem().unwrap().to_string_lossy().into(),
                reference: expected["reference"]
                    .as_str()
                    .unwrap_or("transformers")
                    .into(),
                file: read(path),
                tolerance: expected["tolerance"]
                    .as_f64()
                    .map_or(TOLERANCE, |tolerance| tolerance as f32),
                tokens: expected["tokens"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|t| t.as_u64().unwrap() as u32)
                    .collect(),
                logits: bytes
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                    .collect(),
            }
        })
        .collect()
}

#[test]
fn logits_are_those_of_the_reference() {
    let cases = cases();
    assert!(cases.len() >= 95, "only {} cases", cases.len());
    let mut failures = Vec::new();
    let mut seen: BTreeMap<&str, (Vec<String>, f32)> = BTreeMap::new();
    for case in &cases {
        let set = GgufSet::new(vec![Gguf::parse(&case.file).unwrap()]).unwrap();
        let options = LoadOptions {
            context: Some(case.tokens.len()),
            ..LoadOptions::default()
        };
        let model = match Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}) {
            Ok(model) => model,
            Err(error) => {
                failures.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        let mut bits: Option<Vec<f32>> = None;
        for kernels in [Kernels::for_isa(Isa::Scalar).unwrap(), Kernels::detect()] {
            let mut runner = Runner::new(&model, kernels, &Inline, KvType::F32, 64);
            let logits = runner.feed(&case.tokens, Output::AllLogits);
            let worst = logits
                .iter()
                .zip(&case.logits)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f32::max);
            let finite = logits.iter().all(|logit| logit.is_finite());
            let (references, largest) = seen.entry(model.config().spec.name).or_default();
            if case.tolerance == TOLERANCE {
                *largest = largest.max(worst);
            }
            if !references.contains(&case.reference) {
                references.push(case.reference.clone());
            }
            if worst > case.tolerance || !finite || logits.len() != case.logits.len() {
                failures.push(format!("{}: largest difference {worst}", case.name));
            }
            let same = bits.get_or_insert_with(|| logits.clone());
            assert!(
                same.iter()
                    .zip(&logits)
                    .all(|(a, b)| a.to_bits() == b.to_bits()),
                "{}: {} gives other bits than scalar",
                case.name,
                kernels.isa().name()
            );
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    let rows: Vec<String> = seen
        .iter()
        .map(|(name, (references, worst))| page_row(name, references, *worst))
        .collect();
    check_page("decoders", &rows);
}

#[test]
fn the_page_says_what_is_untested() {
    let rows: Vec<String> = arch::UNTESTED
        .iter()
        .inspect(|(spec, _)| assert!(arch::find(spec.name).is_none(), "{} runs", spec.name))
        .map(|(spec, how)| format!("| `{}` | {how} |", spec.name))
        .collect();
    check_page("untested", &rows);
}

#[test]
fn the_page_says_what_is_missing() {
    let rows: Vec<String> = arch::UNSUPPORTED
        .iter()
        .inspect(|(name, _)| assert!(arch::find(name).is_none(), "{name} runs"))
        .map(|(name, missing)| format!("| `{name}` | {missing} |"))
        .collect();
    check_page("unsupported", &rows);
}
