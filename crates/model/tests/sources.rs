//! Encoder-decoders: how a source is read and an answer computed never shows in it.

use crate::running::{Runner, read};
use std::path::Path;
use std::sync::Arc;
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::{
    BatchError, BatchLimits, Blueprint, Compute, KvPages, KvType, LoadOptions, Model, Output,
    Placement, Sequence, Span, Workspace,
};
use strata_platform::{Inline, Resident, SystemMemory};
use strata_weights::{Gguf, GgufSet};

const START: u32 = 0;

fn build(name: &str, placement: Placement) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    // A model may leave weights in its file, so the file stays.
    let bytes = read(&folder.join(format!("{name}.gguf"))).leak();
    let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
    Blueprint::new(&set, LoadOptions::default())
        .unwrap()
        .build(
            placement,
            &SystemMemory,
            Arc::new(Resident(bytes)),
            &Inline,
            &mut |_, _| {},
        )
        .unwrap()
}

/// Tokens without the one that begins an answer.
fn text(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|i| (i + 1 + seed * 977).wrapping_mul(2_654_435_761) % 61 + 3)
        .collect()
}

/// A source and what is written after it.
fn prompt(seed: u32, source: usize, answer: usize) -> Vec<u32> {
    [text(seed, source), vec![START], text(seed + 1, answer)].concat()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    assert!(logits.iter().all(|logit| logit.is_finite()));
    logits.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn answers_are_the_same_in_chunks_on_any_machine_and_from_the_file() {
    for name in ["t5", "t5-gated"] {
        let (packed, streamed) = (
            build(name, Placement::Packed),
            build(name, Placement::Within(0)),
        );
        assert!(streamed.streamed_bytes() > 0);
        let pool = ThreadPool::new(Some(3)).unwrap();
        for source in [1, 31, 32, 70] {
            let tokens = prompt(3, source, 40);
            let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
            let mut runner = Runner::new(&packed, scalar, &Inline, KvType::F16, 128);
            let whole = bits(&runner.feed(&tokens, Output::AllLogits));
            assert_eq!(whole.len(), 41 * 64);
            for kernels in Isa::ALL.iter().filter_map(|isa| Kernels::for_isa(*isa)) {
                for (model, first, chunk) in [
                    (&packed, source, 1),
                    (&packed, source + 1, 7),
                    (&streamed, source + 5, 40),
                ] {
                    let mut runner = Runner::new(model, kernels, &pool, KvType::F16, 128);
                    let (now, later) = tokens.split_at(first);
                    // A source alone has no logits.
                    let mut all = runner.feed(now, Output::AllLogits);
                    for tokens in later.chunks(chunk) {
                        all.extend(runner.feed(tokens, Output::AllLogits));
                    }
                    let isa = kernels.isa().name();
                    assert!(bits(&all) == whole, "{name}: {source}, {chunk}, {isa}");
                }
            }
        }
    }
}

#[test]
fn sequences_in_a_batch_get_what_they_get_alone() {
    let model = build("t5", Placement::Packed);
    let pool = ThreadPool::new(Some(2)).unwrap();
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &pool,
    };
    let prompts: Vec<Vec<u32>> = (0..6).map(|i| prompt(i, 1 + 13 * i as usize, 3)).collect();
    let alone: Vec<Vec<u32>> = prompts
        .iter()
        .map(|tokens| {
            let mut runner = Runner::new(&model, compute.kernels, &Inline, KvType::F16, 128);
            runner.feed(tokens, Output::None);
            bits(&runner.feed(&[9], Output::LastLogits))
        })
        .collect();
    let mut kv = KvPages::new(model.config(), KvType::F16, 6 * 128, &SystemMemory).unwrap();
    let limits = BatchLimits {
        tokens: 512,
        logits: 8,
    };
    let mut work = Workspace::new(&model, limits, 2);
    let mut sequences: Vec<Sequence> = (0..6).map(|_| Sequence::default()).collect();
    // Half of the sequences write their next token while the others read.
    for step in 0..3 {
        let mut batch = Vec::new();
        for (i, sequence) in sequences.iter_mut().enumerate() {
            let (tokens, output): (&[u32], _) = match step - i as i32 % 2 {
                0 => (&prompts[i], Output::None),
                1 => (&[9], Output::LastLogits),
                _ => continue,
            };
            kv.reserve(sequence, tokens.len()).unwrap();
            sequence.set_source(1 + 13 * i);
            batch.push(Span {
                sequence,
                tokens,
                output,
                adapter: None,
                embedded: &[],
            });
        }
        let written: Vec<usize> = (0..6).filter(|i| step - *i as i32 % 2 == 1).collect();
        let outputs = model.forward(&compute, &mut kv, &mut work, &mut batch);
        let logits = outputs.unwrap().logits;
        assert_eq!(logits.len(), written.len() * 64);
        for (row, i) in logits.chunks_exact(64).zip(written) {
            assert!(bits(row) == alone[i], "sequence {i}");
        }
    }
}

#[test]
fn an_answer_depends_on_all_of_its_source() {
    let model = build("t5", Placement::Packed);
    let run = |tokens: &[u32]| {
        let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F32, 96);
        bits(&runner.feed(tokens, Output::LastLogits))
    };
    let tokens = prompt(1, 40, 2);
    let mut other = tokens.clone();
    other[39] = 3 + (other[39] - 2) % 61;
    assert!(run(&tokens) != run(&other));
    let shorter = [&tokens[..39], &tokens[40..]].concat();
    assert!(run(&tokens) != run(&shorter));
}

#[test]
fn a_source_is_read_at_once_or_refused() {
    let model = build("t5", Placement::Packed);
    let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F32, 96);
    let tokens = prompt(1, 40, 2);
    let mut feed = |source: usize, tokens: &[u32]| {
        let Runner {
            kv,
            work,
            sequence,
            compute,
            ..
        } = &mut runner;
        kv.reserve(sequence, tokens.len()).unwrap();
        sequence.set_source(source);
        let span = Span {
            sequence,
            tokens,
            output: Output::LastLogits,
            adapter: None,
            embedded: &[],
        };
        model.forward(compute, kv, work, &mut [span]).err()
    };
    assert_eq!(feed(0, &tokens), Some(BatchError::Source));
    let part = BatchError::PartOfSource {
        tokens: 30,
        source_tokens: 40,
    };
    assert_eq!(feed(40, &tokens[..30]), Some(part));
    assert_eq!(feed(40, &tokens[..40]), None);
    assert_eq!(feed(40, &tokens[40..]), None);
}
