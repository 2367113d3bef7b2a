//! Every architecture against Hugging Face `transformers`, or llama.cpp where that has no class: tiny random models, all
//! logits, f32 weights.
//!
//! `tests/golden/README.md` says how the files were made.

use crate::running::{Runner, base64, check_page, page_row, read};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use strata_kernels::{Isa, Kernels};
use strata_model::{
    BatchLimits, CpuExecutor, Executor, KvType, LoadOptions, Model, NextnUse, Output, PageLayout,
    PageStorage, Sequence, Span, arch,
};
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
    /// Those of the layer that predicts the token after the next.
    nextn: Option<Vec<f32>>,
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
            let floats = |key: &str| -> Option<Vec<f32>> {
                let bytes = base64(expected[key].as_str()?);
                let floats = bytes.chunks_exact(4);
                Some(
                    floats
                        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                        .collect(),
                )
            };
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
                logits: floats("logits_f32_le_base64").unwrap(),
                nextn: floats("nextn_logits_f32_le_base64"),
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

/// What the layer after the last predicts at each position from the second on, and after the last from its own best guess;
/// the tokens come in chunks of this size.
fn predictions(
    model: &Arc<Model>,
    kernels: &'static Kernels,
    tokens: &[u32],
    chunk: usize,
) -> Vec<f32> {
    let limits = BatchLimits {
        tokens: 64,
        logits: 64,
    };
    let layout = PageLayout::new(model.config(), KvType::F32);
    let storage = PageStorage::new(layout, 64, 2, &SystemMemory).unwrap();
    let pool = Arc::new(Inline);
    let mut executor = CpuExecutor::new(Arc::clone(model), kernels, pool, storage, limits);
    let mut table = executor.page_table();
    let mut sequence = Sequence::default();
    table.reserve(&mut sequence, tokens.len() + 1).unwrap();
    fn span<'s>(sequence: &'s mut Sequence, tokens: &'s [u32], output: Output) -> Span<'s> {
        Span {
            sequence,
            tokens,
            output,
            adapter: None,
            embedded: &[],
        }
    }
    for chunk in tokens.chunks(chunk) {
        let batch = &mut [span(&mut sequence, chunk, Output::None)];
        executor.forward(&table, batch).unwrap();
    }
    let mut rows = Vec::new();
    // A prediction leaves its own state at its position: nothing before that sees it.
    for at in (1..tokens.len()).rev() {
        sequence.restored(at);
        let mut predict = |token: u32| {
            let tokens = [token];
            let batch = &mut [span(&mut sequence, &tokens, Output::LastLogits)];
            let outputs = executor.predict(&table, batch).unwrap();
            outputs.logits.to_vec()
        };
        let row = predict(tokens[at]);
        if at + 1 == tokens.len() {
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            rows.push(predict(best.unwrap() as u32));
        }
        rows.push(row);
    }
    rows.reverse();
    rows.concat()
}

#[test]
fn tokens_after_the_next_are_those_of_the_reference() {
    let cases = cases();
    let cases = cases
        .iter()
        .filter_map(|case| Some((case, case.nextn.as_ref()?)));
    let mut checked = 0;
    for (case, expected) in cases {
        let set = GgufSet::new(vec![Gguf::parse(&case.file).unwrap()]).unwrap();
        let options = LoadOptions {
            nextn: NextnUse::Require,
            ..LoadOptions::default()
        };
        let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {});
        let model = Arc::new(model.unwrap());
        let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
        let found = predictions(&model, scalar, &case.tokens, 28);
        assert_eq!(found.len(), expected.len(), "{}", case.name);
        let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        let worst = differences.fold(0.0, f32::max);
        assert!(worst <= TOLERANCE, "{}: {worst}", case.name);
        for chunk in [1, 5] {
            let other = predictions(&model, Kernels::detect(), &case.tokens, chunk);
            let mut pairs = found.iter().zip(&other);
            assert!(
                pairs.all(|(a, b)| a.to_bits() == b.to_bits()),
                "{}",
                case.name
            );
        }
        checked += 1;
    }
    assert_eq!(checked, 2);
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
