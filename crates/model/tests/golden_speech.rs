//! Whisper against Hugging Face `transformers`: a tiny random model, f32 weights.
//!
//! `tools/golden_speech.py` made the files.

use crate::running::{base64, read};
use std::path::{Path, PathBuf};
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::{Alignment, Compute, LoadError, Whisper, WhisperError};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// The bar: f32 against f32, summed in another order.
const TOLERANCE: f32 = 1e-3;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_speech")
}

fn floats(json: &serde_json::Value, name: &str) -> Vec<f32> {
    let bytes = base64(json[name].as_str().unwrap());
    let floats = bytes.chunks_exact(4);
    floats
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

fn load(file: &[u8]) -> Result<Whisper, LoadError> {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    Whisper::load(&set, &SystemMemory, &Inline)
}

struct Case {
    model: Whisper,
    window: Vec<f32>,
    tokens: Vec<u32>,
    states: Vec<f32>,
    logits: Vec<f32>,
}

fn case() -> Case {
    let json: serde_json::Value =
        serde_json::from_slice(&read(&folder().join("whisper.json"))).unwrap();
    let tokens = json["tokens"].as_array().unwrap().iter();
    Case {
        model: load(&read(&folder().join("whisper.gguf"))).unwrap(),
        window: floats(&json, "window_f32_le_base64"),
        tokens: tokens.map(|t| t.as_u64().unwrap() as u32).collect(),
        states: floats(&json, "states_f32_le_base64"),
        logits: floats(&json, "logits_f32_le_base64"),
    }
}

fn compute<'a>(kernels: &'static Kernels, pool: &'a dyn Pool) -> Compute<'a> {
    Compute { kernels, pool }
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn states_and_logits_are_those_of_transformers() {
    let case = case();
    let compute = compute(Kernels::detect(), &Inline);
    let heard = case.model.hear(&compute, &case.window).unwrap();
    let off = worst(heard.states(), &case.states);
    assert!(off <= TOLERANCE, "states: {off}");
    let mut state = case.model.state();
    let rows = case.tokens.len();
    let logits = case
        .model
        .write(&compute, (&heard, &mut state), &case.tokens, rows, None)
        .unwrap();
    let off = worst(&logits, &case.logits);
    assert!(off <= TOLERANCE, "logits: {off}");
}

#[test]
fn bits_are_the_same_however_tokens_come_and_whatever_computes() {
    let case = case();
    let all = |compute: &Compute<'_>, pieces: &[usize]| {
        let heard = case.model.hear(compute, &case.window).unwrap();
        let mut state = case.model.state();
        let mut alignment = Alignment::of(vec![(0, 1), (1, 0)]);
        let (mut logits, mut rest) = (Vec::new(), &case.tokens[..]);
        for &piece in pieces {
            let (now, after) = rest.split_at(piece.min(rest.len()));
            rest = after;
            let out = case.model.write(
                compute,
                (&heard, &mut state),
                now,
                now.len(),
                Some(&mut alignment),
            );
            logits.extend(out.unwrap());
        }
        (logits, alignment)
    };
    let one = compute(Kernels::detect(), &Inline);
    let expected = all(&one, &[12]);
    for shares in &expected.1.shares {
        assert_eq!(shares.len(), 12 * 50);
        for row in shares.chunks_exact(50) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-4);
        }
    }
    assert!(all(&one, &[1; 12]) == expected);
    assert!(all(&one, &[3, 1, 8]) == expected);
    for threads in [2, 3] {
        let pool = ThreadPool::new(Some(threads)).unwrap();
        assert!(all(&compute(Kernels::detect(), &pool), &[5, 7]) == expected);
    }
    for isa in Isa::ALL {
        if let Some(kernels) = Kernels::for_isa(*isa) {
            assert!(
                all(&compute(kernels, &Inline), &[12]) == expected,
                "{isa:?}"
            );
        }
    }
}

#[test]
fn a_text_can_be_cut_back() {
    let case = case();
    let compute = compute(Kernels::detect(), &Inline);
    let heard = case.model.hear(&compute, &case.window).unwrap();
    let mut state = case.model.state();
    let write = |state: &mut _, tokens: &[u32]| {
        let out = case.model.write(&compute, (&heard, state), tokens, 1, None);
        out.unwrap()
    };
    write(&mut state, &case.tokens[..5]);
    let expected = write(&mut state, &case.tokens[5..7]);
    state.truncate(4);
    assert_eq!(state.len(), 4);
    write(&mut state, &[1, 2]);
    state.truncate(4);
    let found = write(&mut state, &case.tokens[4..7]);
    assert_eq!(found, expected);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let case = case();
    let compute = compute(Kernels::detect(), &Inline);
    let error = case.model.hear(&compute, &case.window[1..]).unwrap_err();
    assert!(matches!(error, WhisperError::Window { expected: 800, .. }));
    let heard = case.model.hear(&compute, &case.window).unwrap();
    let mut state = case.model.state();
    let mut write = |tokens: &[u32]| {
        let out = case
            .model
            .write(&compute, (&heard, &mut state), tokens, 1, None);
        out.unwrap_err()
    };
    assert!(matches!(
        write(&[9999]),
        WhisperError::Token { token: 9999, .. }
    ));
    assert!(matches!(
        write(&[0; 33]),
        WhisperError::Position { positions: 32, .. }
    ));
}

#[test]
fn files_that_are_no_whisper_are_refused() {
    let file = read(&folder().join("whisper.gguf"));
    let replaced = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = file.windows(from.len()).position(|w| w == from.as_bytes());
        let mut file = file.clone();
        file[at.unwrap()..][..from.len()].copy_from_slice(to.as_bytes());
        load(&file).err().unwrap()
    };
    let error = replaced("enc.conv2.weight", "enc.conv3.weight");
    assert!(matches!(error, LoadError::MissingTensor { .. }), "{error}");
    let error = replaced("whisper.encoder.mel_bands", "whisper.encoder.mel_bandz");
    assert!(matches!(error, LoadError::MissingKey { .. }), "{error}");
    let other = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama.gguf"));
    let error = load(&other).err().unwrap();
    assert!(matches!(error, LoadError::NotSpeech { .. }), "{error}");
}
