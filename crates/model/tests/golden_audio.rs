//! Audio towers, projectors and whole models that hear, against Hugging Face `transformers`: tiny random models, f32 weights.
//!
//! `tests/golden_audio/README.md` says how the files were made.

use crate::running::{Runner, base64, check_page, page_row, read};
use std::path::{Path, PathBuf};
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::{
    AudioTower, AudioTowerConfig, AudioTowerError, AudioTowerSpec, Compute, EmbeddedRun, KvType,
    LoadError, LoadOptions, Model, Output, Tower,
};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// The bar: f32 against f32, summed in another order.
const TOLERANCE: f32 = 1e-3;

/// Samples of a frame.
const HOP: usize = 160;

struct Case {
    name: String,
    tower: AudioTower,
    model: Model,
    samples: usize,
    /// (windows, frames, bands).
    features: Vec<f32>,
    start: usize,
    tokens: Vec<u32>,
    /// Samples, and positions that the family's processor makes of them.
    lengths: Vec<(usize, usize)>,
    embedded: Vec<f32>,
    logits: Vec<f32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_audio")
}

fn tower(file: &[u8]) -> Result<AudioTower, LoadError> {
    let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
    AudioTower::load(&set, &SystemMemory, &Inline)
}

/// Frames with sound in each window, where a sound has so many samples.
fn windows(config: &AudioTowerConfig, samples: usize) -> Vec<usize> {
    let (frames, window) = (samples.div_ceil(HOP), config.frames());
    let starts = (0..frames).step_by(window);
    starts.map(|start| window.min(frames - start)).collect()
}

impl Case {
    fn read(name: &str) -> Self {
        let file = |ending: &str| read(&folder().join(format!("{name}.{ending}")));
        let json: serde_json::Value = serde_json::from_slice(&file("json")).unwrap();
        let number = |value: &serde_json::Value| value.as_u64().unwrap() as usize;
        let floats = |name: &str| -> Vec<f32> {
            let bytes = base64(json[name].as_str().unwrap());
            let floats = bytes.chunks_exact(4);
            floats
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect()
        };
        let text = file("gguf");
        let set = GgufSet::new(vec![Gguf::parse(&text).unwrap()]).unwrap();
        let options = LoadOptions::default();
        let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {});
        let list = |name: &str| json[name].as_array().unwrap().iter();
        Self {
            tower: tower(&file("mmproj.gguf")).unwrap_or_else(|error| panic!("{name}: {error}")),
            model: model.unwrap_or_else(|error| panic!("{name}: {error}")),
            samples: number(&json["samples"]),
            features: floats("features_f32_le_base64"),
            start: number(&json["start"]),
            tokens: list("tokens").map(|token| number(token) as u32).collect(),
            lengths: list("lengths")
                .map(|pair| (number(&pair[0]), number(&pair[1])))
                .collect(),
            embedded: floats("embedded_f32_le_base64"),
            logits: floats("logits_f32_le_base64"),
            name: name.into(),
        }
    }

    fn all() -> Vec<Self> {
        ["qwen2audio", "ultravox", "voxtral"].map(Self::read).into()
    }

    fn embed(&self, kernels: &'static Kernels, pool: &dyn Pool) -> Vec<f32> {
        let config = self.tower.config();
        let one = config.frames() * config.bands;
        let compute = Compute { kernels, pool };
        let sounds = windows(config, self.samples);
        assert_eq!(self.features.len(), sounds.len() * one, "{}", self.name);
        let windows = self.features.chunks_exact(one).zip(sounds);
        windows
            .flat_map(|(window, sound)| self.tower.hear(&compute, window, sound).unwrap())
            .collect()
    }

    fn logits(&self, kernels: &'static Kernels, pool: &dyn Pool, rows: &[f32]) -> Vec<f32> {
        let runs = [EmbeddedRun {
            start: self.start,
            len: rows.len() / self.tower.config().text_width,
            rows: rows.into(),
            digest: [1; 32],
            mutual: false,
            grid: None,
        }];
        let mut runner = Runner::new(&self.model, kernels, pool, KvType::F32, 96);
        runner.feed_embedded(&self.tokens, &runs, Output::AllLogits)
    }
}

fn bits(floats: &[f32]) -> Vec<u32> {
    assert!(floats.iter().all(|x| x.is_finite()));
    floats.iter().map(|x| x.to_bits()).collect()
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn embeddings_and_logits_are_those_of_transformers() {
    let cases = Case::all();
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for name in AudioTowerSpec::names() {
        let of_family = |case: &&Case| case.tower.config().family == name;
        let case = cases.iter().find(of_family).expect(name);
        let embedded = case.embed(Kernels::detect(), &Inline);
        let logits = case.logits(Kernels::detect(), &Inline, &case.embedded);
        let mut largest = 0.0f32;
        for (what, found, expected) in [
            ("embeddings", &embedded, &case.embedded),
            ("logits", &logits, &case.logits),
        ] {
            let worst = worst(found, expected);
            if worst.is_nan() || worst > TOLERANCE {
                wrong.push(format!("{name}: {what} differ by {worst}"));
            }
            largest = largest.max(worst);
        }
        let reference = match name {
            "ultravox" => "transformers; projector in PyTorch",
            _ => "transformers",
        };
        rows.push(page_row(name, &[reference.into()], largest));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    check_page("audio towers", &rows);
}

#[test]
fn sounds_take_as_many_positions_as_the_processors_say() {
    for case in Case::all() {
        let config = case.tower.config();
        for &(samples, expected) in &case.lengths {
            let windows = windows(config, samples);
            let found = windows.iter().map(|&sound| config.text_positions(sound));
            let found: usize = found.sum();
            assert_eq!(found, expected, "{}: {samples} samples", case.name);
        }
    }
}

#[test]
fn threads_and_instruction_sets_give_the_same_bits() {
    let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
    let pool = ThreadPool::new(Some(3)).unwrap();
    for case in Case::all() {
        let expected = case.embed(scalar, &Inline);
        assert!(bits(&case.embed(Kernels::detect(), &pool)) == bits(&expected));
        let logits = bits(&case.logits(scalar, &Inline, &expected));
        assert!(bits(&case.logits(Kernels::detect(), &pool, &expected)) == logits);
    }
}

#[test]
fn silence_behind_a_sound_is_not_heard_where_it_is_not_heeded() {
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    };
    for case in Case::all() {
        let config = case.tower.config();
        let one = config.frames() * config.bands;
        let (window, sound) = (&case.features[..one], 12);
        let mut louder = window.to_vec();
        // Behind the frames that the convolutions of the last one see.
        for x in &mut louder[(sound + 3) * config.bands..] {
            *x += 1.0;
        }
        let hear = |window: &[f32]| bits(&case.tower.hear(&compute, window, sound).unwrap());
        let same = hear(window) == hear(&louder);
        assert_eq!(same, case.name == "qwen2audio", "{}", case.name);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = Case::read("qwen2audio");
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    };
    let frames = case.tower.config().frames();
    let short = case.tower.hear(&compute, &case.features[1..], 1);
    assert!(matches!(short, Err(AudioTowerError::Window { .. })));
    let long = case.tower.hear(&compute, &case.features, frames + 1);
    assert!(matches!(long, Err(AudioTowerError::Sound { .. })));
    // Too short for a position.
    assert_eq!(case.tower.hear(&compute, &case.features, 2), Ok(Vec::new()));
    let refused = |file: &[u8]| tower(file).map(|_| ()).unwrap_err().to_string();
    let text = refused(&read(&folder().join("voxtral.gguf")));
    assert!(text.contains("\"llama\""), "{text}");
    let file = read(&folder().join("voxtral.mmproj.gguf"));
    let at = file.windows(7).position(|w| w == b"voxtral").unwrap();
    let mut other = file.clone();
    other[at..at + 7].copy_from_slice(b"voxtraX");
    let other = refused(&other);
    assert!(
        ["voxtraX", "qwen2a", "ultravox"]
            .iter()
            .all(|name| other.contains(name)),
        "{other}"
    );
    let key = b"stack_factor";
    let at = file.windows(key.len()).position(|w| w == key).unwrap() + key.len() + 4;
    for factor in [0u8, 21] {
        let mut file = file.clone();
        file[at] = factor;
        let said = refused(&file);
        assert!(said.contains("stack_factor"), "{said}");
    }
    // A vision tower's reader names the families that it knows.
    let set = GgufSet::new(vec![Gguf::parse(&file).unwrap()]).unwrap();
    let said = Tower::load(&set, &SystemMemory, &Inline).map(|_| ());
    let said = said.unwrap_err().to_string();
    assert!(
        said.contains("voxtral") && said.contains("gemma3"),
        "{said}"
    );
}
