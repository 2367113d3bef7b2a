//! Encoders, and a decoder's states, against Hugging Face `transformers`: tiny random models, f32 weights.
//!
//! `tests/golden_states/README.md` says how the files were made.

use crate::running::{Runner, base64, check_page, page_row, read};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::slice::from_ref;
use std::sync::Arc;
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::spec::Role;
use strata_model::{
    BatchError, BatchLimits, Blueprint, Compute, EncoderInput, KvType, LoadOptions, Model, Output,
    Placement, Workspace,
};
use strata_platform::{Inline, Pool, Resident, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// The bar: f32 against f32, summed in another order.
const TOLERANCE: f32 = 2e-4;

struct Case {
    name: String,
    /// What the states come from.
    reference: String,
    file: &'static [u8],
    /// Tokens, and where the second text begins.
    inputs: Vec<(Vec<u32>, usize)>,
    states: Vec<f32>,
    scores: Option<Vec<f32>>,
}

impl Case {
    fn read(path: PathBuf) -> Self {
        let json: serde_json::Value =
            serde_json::from_slice(&read(&path.with_extension("json"))).unwrap();
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let inputs = json["texts"].as_array().unwrap().iter().map(|text| {
            let tokens = text["tokens"].as_array().unwrap().iter();
            let tokens = tokens.map(|t| number(t) as u32).collect();
            (tokens, number(&text["second"]) as usize)
        });
        let states = base64(json["states_f32_le_base64"].as_str().unwrap());
        Self {
            name: path.file_stem().unwrap().to_string_lossy().into(),
            reference: json["reference"].as_str().unwrap_or("transformers").into(),
            // A model may leave weights in its file, so the file stays.
            file: read(&path).leak(),
            inputs: inputs.collect(),
            states: states
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                .collect(),
            scores: json["scores"].as_array().map(|rows| {
                let scores = rows.iter().flat_map(|row| row.as_array().unwrap());
                scores.map(|score| score.as_f64().unwrap() as f32).collect()
            }),
        }
    }

    fn all() -> Vec<Self> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden_states");
        let paths = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<PathBuf> = paths
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
            .collect();
        paths.sort();
        assert!(paths.len() >= 15, "only {} cases", paths.len());
        paths.into_iter().map(Self::read).collect()
    }

    fn encoders() -> Vec<(Self, Model)> {
        let models = Self::all().into_iter().map(|case| {
            let model = case.model(Placement::Packed);
            (case, model)
        });
        models
            .filter(|(_, model)| model.config().spec.role == Role::Encoder)
            .collect()
    }

    fn model(&self, placement: Placement) -> Model {
        let set = GgufSet::new(vec![Gguf::parse(self.file).unwrap()]).unwrap();
        Blueprint::new(&set, LoadOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
            .build(
                placement,
                &SystemMemory,
                Arc::new(Resident(self.file)),
                &Inline,
                &mut |_, _| {},
            )
            .unwrap()
    }

    fn inputs(&self) -> Vec<EncoderInput<'_>> {
        let inputs = self.inputs.iter();
        inputs
            .map(|(tokens, second)| EncoderInput {
                tokens,
                second: *second,
            })
            .collect()
    }
}

fn workspace(model: &Model, tokens: usize, workers: usize) -> Workspace {
    let limits = BatchLimits { tokens, logits: 0 };
    Workspace::new(model, limits, workers)
}

fn encode(
    model: &Model,
    kernels: &'static Kernels,
    pool: &dyn Pool,
    inputs: &[EncoderInput<'_>],
) -> Vec<f32> {
    let compute = Compute { kernels, pool };
    let tokens = inputs.iter().map(|text| text.tokens.len()).sum();
    let mut work = workspace(model, tokens, pool.workers());
    model.encode(&compute, &mut work, inputs).unwrap().to_vec()
}

fn bits(states: &[f32]) -> Vec<u32> {
    assert!(states.iter().all(|x| x.is_finite()));
    states.iter().map(|x| x.to_bits()).collect()
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn states_are_those_of_transformers() {
    let mut failures = Vec::new();
    let mut seen: BTreeMap<&str, (String, f32)> = BTreeMap::new();
    for case in Case::all() {
        let model = case.model(Placement::Packed);
        let spec = model.config().spec;
        let states = match spec.role {
            Role::Encoder => encode(&model, Kernels::detect(), &Inline, &case.inputs()),
            Role::Decoder => {
                let states = case.inputs.iter().flat_map(|(tokens, _)| {
                    Runner::new(&model, Kernels::detect(), &Inline, KvType::F32, 96)
                        .feed(tokens, Output::States)
                });
                states.collect()
            }
        };
        let worst = worst(&states, &case.states);
        if spec.role == Role::Encoder {
            let known = seen
                .entry(spec.name)
                .or_insert((case.reference.clone(), 0.0));
            known.1 = known.1.max(worst);
        }
        if worst.is_nan() || worst > TOLERANCE {
            failures.push(format!("{}: largest difference {worst}", case.name));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    let rows: Vec<String> = seen
        .iter()
        .map(|(name, (reference, worst))| page_row(name, from_ref(reference), *worst))
        .collect();
    check_page("encoders", &rows);
}

#[test]
fn scores_are_those_of_transformers() {
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    };
    let mut ranked = 0;
    for (case, model) in Case::encoders() {
        let mut work = workspace(&model, 200, 1);
        let result = model.rank(&compute, &mut work, &case.inputs());
        let Some(expected) = &case.scores else {
            assert_eq!(result, Err(BatchError::NoRankHead), "{}", case.name);
            continue;
        };
        let scores = result.unwrap().to_vec();
        assert_eq!(model.labels(), expected.len() / case.inputs.len());
        assert!(worst(&scores, expected) < TOLERANCE, "{}", case.name);
        let alone = case
            .inputs()
            .iter()
            .flat_map(|text| {
                let scores = model.rank(&compute, &mut work, &[*text]).unwrap();
                scores.to_vec()
            })
            .collect::<Vec<_>>();
        assert_eq!(bits(&alone), bits(&scores), "{}", case.name);
        ranked += 1;
    }
    assert_eq!(ranked, 2);
}

#[test]
fn a_decoders_classifier_scores_last_states_as_transformers_does() {
    let mut ranked = 0;
    for case in Case::all() {
        let model = case.model(Placement::Packed);
        let Some(expected) = case.scores.as_ref() else {
            continue;
        };
        if model.config().spec.role == Role::Encoder {
            continue;
        }
        let labels = expected.len() / case.inputs.len();
        assert_eq!(model.labels(), labels, "{}", case.name);
        let width = model.config().width;
        let mut bits_of = None;
        for kernels in [Kernels::for_isa(Isa::Scalar).unwrap(), Kernels::detect()] {
            let mut last = Vec::new();
            let mut runner = Runner::new(&model, kernels, &Inline, KvType::F32, 96);
            for (tokens, _) in &case.inputs {
                runner = Runner::new(&model, kernels, &Inline, KvType::F32, 96);
                let states = runner.feed(tokens, Output::States);
                last.extend_from_slice(&states[states.len() - width..]);
            }
            let together = model.classify(&runner.compute, &mut runner.work, &last);
            let together = together.unwrap().to_vec();
            assert!(worst(&together, expected) < TOLERANCE, "{}", case.name);
            for (state, scores) in last.chunks(width).zip(together.chunks(labels)) {
                let alone = model.classify(&runner.compute, &mut runner.work, state);
                assert_eq!(bits(alone.unwrap()), bits(scores));
            }
            let same = bits_of.get_or_insert_with(|| bits(&together));
            assert_eq!(*same, bits(&together), "{}", case.name);
        }
        ranked += 1;
    }
    assert_eq!(ranked, 3);
}

#[test]
fn texts_in_a_batch_get_what_they_get_alone() {
    for (case, model) in Case::encoders() {
        let kernels = Kernels::detect();
        let whole = bits(&encode(&model, kernels, &Inline, &case.inputs()));
        let alone = case
            .inputs()
            .iter()
            .flat_map(|text| bits(&encode(&model, kernels, &Inline, &[*text])))
            .collect::<Vec<_>>();
        assert!(alone == whole, "{}", case.name);

        let mut turned = case.inputs();
        turned.rotate_left(1);
        let first = case.inputs[0].0.len() * model.config().width;
        let mut expected = whole.clone();
        expected.rotate_left(first);
        assert!(bits(&encode(&model, kernels, &Inline, &turned)) == expected);
    }
}

#[test]
fn threads_instruction_sets_and_streaming_give_the_same_states() {
    for (case, model) in Case::encoders() {
        let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
        let inputs = case.inputs();
        let expected = bits(&encode(&model, scalar, &Inline, &inputs));
        let streamed = case.model(Placement::Within(0));
        assert!(streamed.streamed_bytes() > 0);
        let pool = ThreadPool::new(Some(3)).unwrap();
        for kernels in Isa::ALL.iter().filter_map(|isa| Kernels::for_isa(*isa)) {
            for model in [&model, &streamed] {
                let states = encode(model, kernels, &pool, &inputs);
                assert!(
                    bits(&states) == expected,
                    "{} {}",
                    case.name,
                    kernels.isa().name()
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    };
    for case in Case::all() {
        let model = case.model(Placement::Packed);
        let mut work = workspace(&model, 100, 1);
        let mut refusal = |tokens: &[u32]| {
            let inputs = [EncoderInput::single(&[5, 6]), EncoderInput::single(tokens)];
            model.encode(&compute, &mut work, &inputs).err()
        };
        if model.config().spec.role == Role::Decoder {
            assert_eq!(refusal(&[7]), Some(BatchError::Decoder));
            continue;
        }
        let token = BatchError::Token {
            token: 64,
            vocabulary: 64,
        };
        assert_eq!(refusal(&[7, 64]), Some(token));
        assert_eq!(refusal(&[]), Some(BatchError::EmptyInput { input: 1 }));
        let long = match model.config().spec.name {
            "bert" => Some(BatchError::Position {
                position: 80,
                positions: 80,
            }),
            _ => None,
        };
        assert_eq!(refusal(&[9; 81]), long, "{}", case.name);
        let many = BatchError::TooManyTokens {
            tokens: 101,
            room: 100,
        };
        assert_eq!(refusal(&[9; 99]), Some(many));
        assert_eq!(refusal(&[7]), None);
        assert!(model.encode(&compute, &mut work, &[]).unwrap().is_empty());
        let mut runner = Runner::new(&model, compute.kernels, &Inline, KvType::F32, 32);
        let span = strata_model::Span {
            sequence: &mut runner.sequence,
            tokens: &[],
            output: Output::LastLogits,
            adapter: None,
            embedded: &[],
        };
        let refused = model.forward(&compute, &mut runner.kv, &mut runner.work, &mut [span]);
        assert_eq!(refused.err(), Some(BatchError::Encoder));
    }
}
