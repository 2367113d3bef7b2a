//! Wav2Vec2 and HuBERT with CTC against Hugging Face `transformers`: tiny random models, f32 weights.
//!
//! `tools/golden_ctc.py` made the files.

use crate::running::{base64, read};
use std::path::{Path, PathBuf};
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::{Compute, Ctc, LoadError};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// The bar: f32 against f32, summed in another order.
const TOLERANCE: f32 = 1e-3;
const NAMES: [&str; 3] = ["wav2vec2", "wav2vec2-layer", "hubert"];

fn golden(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_speech");
    folder.join(name)
}

fn load(file: &[u8]) -> Result<Ctc, LoadError> {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    Ctc::load(&set, &SystemMemory, &Inline)
}

/// What `sound` of the script makes.
fn sound(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed;
    let samples = (0..count).map(|n| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let loud = (n / 4000 % 8 + 1) as i32;
        let sample = (((state >> 16) as i32 - 32_768) * loud).div_euclid(8);
        sample as f32 / 32_768.0
    });
    samples.collect()
}

#[test]
fn logits_are_those_of_transformers() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &pool,
    };
    for name in NAMES {
        let model = load(&read(&golden(&format!("{name}.gguf")))).unwrap();
        let json = read(&golden(&format!("{name}.json")));
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let bytes = base64(json["logits_f32_le_base64"].as_str().unwrap());
        let expected = bytes.chunks_exact(4);
        let expected = expected.map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        let expected: Vec<f32> = expected.collect();
        let samples = sound(1, 8000);
        let config = model.config();
        assert_eq!(config.step(), 320);
        assert_eq!(config.least(), 400);
        let found = model.read(&compute, &samples).unwrap();
        assert_eq!(found.len(), config.rows(8000) * config.vocabulary);
        assert_eq!(found.len(), expected.len());
        let pairs = found.iter().zip(&expected);
        let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= TOLERANCE, "{name}: {worst}");
        println!("{name}: {worst}");
        let short = model.read(&compute, &samples[..399]).unwrap_err();
        assert_eq!((short.found, short.least), (399, 400));
        let one = model.read(&compute, &samples[..400]).unwrap();
        assert_eq!(one.len(), config.vocabulary);
    }
}

#[test]
fn bits_are_the_same_whatever_computes() {
    // More rows than are made together.
    let samples = sound(5, 90_000);
    for name in NAMES {
        let model = load(&read(&golden(&format!("{name}.gguf")))).unwrap();
        let with = |kernels, pool: &dyn Pool| {
            let compute = Compute { kernels, pool };
            model.read(&compute, &samples).unwrap()
        };
        let expected = with(Kernels::detect(), &Inline);
        for threads in [2, 3] {
            let pool = ThreadPool::new(Some(threads)).unwrap();
            assert!(with(Kernels::detect(), &pool) == expected, "{name}");
        }
        for isa in Isa::ALL {
            if let Some(kernels) = Kernels::for_isa(*isa) {
                assert!(with(kernels, &Inline) == expected, "{name}: {isa:?}");
            }
        }
    }
}

#[test]
fn damaged_sizes_are_refused_by_name() {
    let whole = read(&golden("wav2vec2.gguf"));
    let changed = |key: &str, value: u32| {
        let mut bytes = whole.clone();
        let key = format!("wav2vec2.{key}");
        let found = bytes.windows(key.len()).position(|w| w == key.as_bytes());
        // The type of the value is between the two.
        let at = found.unwrap() + key.len() + 4;
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        load(&bytes).err().expect("it is damaged").to_string()
    };
    assert!(changed("attention.head_count", 7).contains("head_count"));
    assert!(changed("position.groups", 5).contains("position.groups"));
    assert!(changed("position.kernel", 1 << 16).contains("position.kernel"));
    assert!(changed("block_count", 3).contains("blk.2"));
    assert!(changed("block_count", 0).contains("block_count"));
    assert!(changed("embedding_length", 48).contains("shape"));
    let other = read(&golden("whisper.gguf"));
    let error = load(&other).err().unwrap();
    assert!(matches!(error, LoadError::NotSpeech { .. }), "{error}");
}
