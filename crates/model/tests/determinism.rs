//! The same bits every time: however a prompt is cut, whatever else is in the batch, on any workers and ISA.

use crate::running::{Runner, read};
use std::path::Path;
use std::sync::Arc;
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::{
    BatchLimits, Blueprint, Compute, KvPages, KvType, LoadOptions, Model, Output, Placement,
    Sequence, Span, Workspace,
};
use strata_platform::{Inline, Pool, Resident, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// A prompt longer than two pages, of tokens that tale knows.
fn prompt(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32)
        .map(|i| (i + 1 + seed * 977).wrapping_mul(2_654_435_761) % 8000 + 100)
        .collect()
}

fn load(path: &str) -> Model {
    build(path, Placement::Packed)
}

fn build(path: &str, placement: Placement) -> Model {
    let bytes = read(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(path),
    );
    // A model may leave weights in its file, so the file stays.
    let bytes = bytes.leak();
    let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
    let backing = Arc::new(Resident(bytes));
    let pool = ThreadPool::new(Some(2)).unwrap();
    Blueprint::new(&set, LoadOptions::default())
        .unwrap()
        .build(placement, &SystemMemory, backing, &pool, &mut |_, _| {})
        .unwrap()
}

const TALE: &str = "models/tale/tale-q4_k_m.gguf";
const MIXTURE: &str = "crates/model/tests/golden/qwen2moe.gguf";
const CONV: &str = "crates/model/tests/golden/lfm2.gguf";

/// One file for each thing that attention, networks and experts do in some families alone.
const MECHANISMS: [&str; 15] = [
    "afmoe",     // gated attention, windows
    "apertus",   // xIELU
    "arctic",    // experts beside a dense network
    "bitnet",    // norms before the last matrices
    "bloom",     // ALiBi
    "deepseek2", // a compressed cache
    "deepseek2-expanded",
    "falcon-h1", // Mamba beside attention
    "glm4moe",   // groups of experts
    "gpt-oss",   // sinks, biased experts
    "grok",      // caps
    "llama4",    // chunks, weights on inputs
    "mistral3",  // temperature
    "qwen3next", // the delta rule, gates among queries
    "rwkv7",
];

/// The files of [`MECHANISMS`], with a prompt over several pages.
fn mechanisms() -> impl Iterator<Item = (String, Vec<u32>)> {
    let path = |name| format!("crates/model/tests/golden/{name}.gguf");
    let tokens: Vec<u32> = prompt(5, 70).iter().map(|t| t % 48).collect();
    MECHANISMS
        .into_iter()
        .map(move |name| (path(name), tokens.clone()))
}

fn bits(logits: &[f32]) -> Vec<u32> {
    assert!(logits.iter().all(|logit| logit.is_finite()));
    logits.iter().map(|logit| logit.to_bits()).collect()
}

#[test]
fn a_prompt_fed_in_chunks_gives_the_same_logits() {
    let (tale, mixture, conv) = (load(TALE), load(MIXTURE), load(CONV));
    for (model, tokens) in [
        (&tale, prompt(1, 70)),
        (&conv, prompt(1, 70).iter().map(|t| t % 48).collect()),
        (&mixture, prompt(1, 70).iter().map(|t| t % 48).collect()),
    ] {
        for kind in [KvType::F16, KvType::F32, KvType::Q8_0] {
            if !model.config().stores_kv(kind) {
                continue;
            }
            let run = |chunk: usize| {
                let mut runner = Runner::new(model, Kernels::detect(), &Inline, kind, 96);
                let all = tokens
                    .chunks(chunk)
                    .flat_map(|c| runner.feed(c, Output::AllLogits));
                bits(&all.collect::<Vec<_>>())
            };
            let whole = run(tokens.len());
            for chunk in [1, 7, 32] {
                assert!(run(chunk) == whole, "chunks of {chunk}, {kind:?}");
            }
        }
    }
}

#[test]
fn every_mechanism_gives_the_same_logits_however_it_is_run() {
    for (path, tokens) in mechanisms() {
        let model = load(&path);
        let run = |model: &Model, kernels, pool: &dyn Pool, chunk: usize| {
            let mut runner = Runner::new(model, kernels, pool, KvType::F16, 96);
            let all = tokens
                .chunks(chunk)
                .flat_map(|c| runner.feed(c, Output::AllLogits));
            bits(&all.collect::<Vec<_>>())
        };
        let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
        let whole = run(&model, scalar, &Inline, tokens.len());
        let pool = ThreadPool::new(Some(3)).unwrap();
        for chunk in [1, 7, 70] {
            let threads = run(&model, Kernels::detect(), &pool, chunk);
            assert!(threads == whole, "{path}: chunks of {chunk}");
        }
        let streamed = build(&path, Placement::Within(0));
        let streamed = run(&streamed, Kernels::detect(), &pool, 70);
        assert!(streamed == whole, "{path}: weights left in the file");
    }
}

#[test]
fn weights_left_in_the_file_give_the_same_logits() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    let kernels = Kernels::detect();
    for (path, tokens) in [
        (TALE, prompt(4, 40)),
        (CONV, prompt(4, 40).iter().map(|t| t % 48).collect()),
        (MIXTURE, prompt(4, 40).iter().map(|t| t % 48).collect()),
    ] {
        let run = |model: &Model| {
            bits(
                &Runner::new(model, kernels, &pool, KvType::F16, 64)
                    .feed(&tokens, Output::AllLogits),
            )
        };
        let packed = load(path);
        let all = packed.packed_bytes();
        let expected = run(&packed);
        assert_eq!(packed.streamed_bytes(), 0);
        for share in [0, all / 2] {
            let model = build(path, Placement::Within(share));
            assert!(model.packed_bytes() <= share);
            assert!(model.streamed_bytes() >= all / 3, "{path}");
            assert!(run(&model) == expected, "{path} within {share} bytes");
        }
    }
}

#[test]
fn threads_and_instruction_sets_give_the_same_logits() {
    let model = load(TALE);
    let tokens = prompt(2, 40);
    let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
    let whole = bits(
        &Runner::new(&model, scalar, &Inline, KvType::F16, 64).feed(&tokens, Output::AllLogits),
    );
    for isa in Isa::ALL {
        let Some(kernels) = Kernels::for_isa(*isa) else {
            continue;
        };
        for threads in [1, 2, 3] {
            let pool = ThreadPool::new(Some(threads)).unwrap();
            let mut runner = Runner::new(&model, kernels, &pool, KvType::F16, 64);
            let logits = bits(&runner.feed(&tokens, Output::AllLogits));
            assert!(logits == whole, "{} on {threads} threads", isa.name());
        }
    }
    // Many more workers than processors, and than a matrix has stretches.
    for threads in [8, 64] {
        let pool = ThreadPool::new(Some(threads)).unwrap();
        let mut runner = Runner::new(&model, Kernels::detect(), &pool, KvType::F16, 64);
        let logits = bits(&runner.feed(&tokens, Output::AllLogits));
        assert!(logits == whole, "{threads} threads");
    }
}

#[test]
fn sequences_in_a_batch_get_what_they_get_alone() {
    let model = load(TALE);
    let pool = ThreadPool::new(Some(2)).unwrap();
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &pool,
    };
    let prompts: Vec<Vec<u32>> = (0..8).map(|i| prompt(i, 5 + 9 * i as usize)).collect();
    let alone: Vec<Vec<u32>> = prompts
        .iter()
        .map(|tokens| {
            let mut runner = Runner::new(&model, compute.kernels, &Inline, KvType::F16, 128);
            runner.feed(tokens, Output::None);
            bits(&runner.feed(&[300], Output::LastLogits))
        })
        .collect();

    let mut kv = KvPages::new(model.config(), KvType::F16, 8 * 128, &SystemMemory).unwrap();
    let limits = BatchLimits {
        tokens: 512,
        logits: 8,
    };
    let mut work = Workspace::new(&model, limits, 2);
    let mut sequences: Vec<Sequence> = (0..8).map(|_| Sequence::default()).collect();
    // Half of the sequences are a token further than the others when the second batch mixes both kinds.
    for step in 0..3 {
        let mut batch = Vec::new();
        for (i, sequence) in sequences.iter_mut().enumerate() {
            let (tokens, output): (&[u32], _) = match step - i as i32 % 2 {
                0 => (&prompts[i], Output::None),
                1 => (&[300], Output::LastLogits),
                _ => continue,
            };
            kv.reserve(sequence, tokens.len()).unwrap();
            batch.push((
                i,
                Span {
                    sequence,
                    tokens,
                    output,
                    adapter: None,
                    embedded: &[],
                },
            ));
        }
        let asked: Vec<usize> = batch
            .iter()
            .filter(|(_, span)| span.output == Output::LastLogits)
            .map(|(i, _)| *i)
            .collect();
        let mut spans: Vec<Span<'_>> = batch.into_iter().map(|(_, span)| span).collect();
        let logits = model
            .forward(&compute, &mut kv, &mut work, &mut spans)
            .unwrap()
            .logits;
        for (i, row) in asked.iter().zip(logits.chunks(model.config().vocabulary)) {
            assert!(bits(row) == alone[*i], "sequence {i} in step {step}");
        }
    }
}

#[test]
fn states_are_the_same_in_chunks_and_beside_logits() {
    let model = load(TALE);
    let width = model.config().width;
    let tokens = prompt(5, 40);
    let fresh = || Runner::new(&model, Kernels::detect(), &Inline, KvType::F16, 64);
    let whole = bits(&fresh().feed(&tokens, Output::States));
    assert_eq!(whole.len(), tokens.len() * width);
    let mut runner = fresh();
    let chunks = tokens
        .chunks(7)
        .flat_map(|c| runner.feed(c, Output::States));
    assert!(bits(&chunks.collect::<Vec<_>>()) == whole);

    let logits = bits(&fresh().feed(&tokens, Output::AllLogits));
    let compute = runner.compute;
    let mut kv = KvPages::new(model.config(), KvType::F16, 256, &SystemMemory).unwrap();
    let limits = BatchLimits {
        tokens: 120,
        logits: 41,
    };
    let mut work = Workspace::new(&model, limits, 1);
    let mut sequences: [Sequence; 3] = Default::default();
    let wanted = [Output::LastLogits, Output::States, Output::AllLogits];
    let mut batch: Vec<Span<'_>> = sequences
        .iter_mut()
        .zip(wanted)
        .map(|(sequence, output)| {
            kv.reserve(sequence, tokens.len()).unwrap();
            Span {
                sequence,
                tokens: &tokens,
                output,
                adapter: None,
                embedded: &[],
            }
        })
        .collect();
    let outputs = model
        .forward(&compute, &mut kv, &mut work, &mut batch)
        .unwrap();
    assert!(bits(outputs.states) == whole);
    let (last, all) = outputs.logits.split_at(model.config().vocabulary);
    assert!(bits(all) == logits);
    assert!(bits(last) == logits[logits.len() - last.len()..]);
}

#[test]
fn a_fork_goes_on_as_the_original_would() {
    let model = load(TALE);
    let tokens = prompt(3, 50);
    let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F16, 256);
    runner.feed(&tokens, Output::None);
    let free = runner.kv.free_pages();
    let mut fork = runner.kv.fork(&runner.sequence, 50).unwrap();
    assert_eq!(runner.kv.free_pages(), free - 1, "whole pages are shared");
    let original = bits(&runner.feed(&[7, 8, 9], Output::AllLogits));

    core::mem::swap(&mut runner.sequence, &mut fork);
    assert!(bits(&runner.feed(&[7, 8, 9], Output::AllLogits)) == original);
    // What was forgotten can be computed again, and comes out the same.
    runner.kv.truncate(&mut runner.sequence, 45);
    runner.feed(&tokens[45..], Output::None);
    assert!(bits(&runner.feed(&[7, 8, 9], Output::AllLogits)) == original);

    runner.kv.truncate(&mut runner.sequence, 0);
    runner.kv.truncate(&mut fork, 0);
    assert_eq!(runner.kv.free_pages(), runner.kv.pages(), "no page is lost");
}

#[test]
fn refused_batches_change_nothing() {
    let model = load(TALE);
    let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F16, 64);
    runner.feed(&[1, 2, 3], Output::None);
    let expected = bits(
        &Runner::new(&model, Kernels::detect(), &Inline, KvType::F16, 64)
            .feed(&[1, 2, 3, 4], Output::LastLogits),
    );
    for tokens in [&[9000u32][..], &[5; 65], &[5; 30]] {
        let span = Span {
            sequence: &mut runner.sequence,
            tokens,
            output: Output::LastLogits,
            adapter: None,
            embedded: &[],
        };
        let result = model.forward(
            &runner.compute,
            &mut runner.kv,
            &mut runner.work,
            &mut [span],
        );
        assert!(result.is_err(), "{} tokens", tokens.len());
    }
    assert!(bits(&runner.feed(&[4], Output::LastLogits)) == expected);
}

#[test]
fn long_contexts_give_the_same_logits_however_they_are_shared_out() {
    let (tale, windowed) = (
        load(TALE),
        load("crates/model/tests/golden/mistral-window.gguf"),
    );
    for (model, tokens) in [
        (&tale, prompt(5, 600)),
        (&windowed, prompt(5, 600).iter().map(|t| t % 48).collect()),
    ] {
        let (last, before) = tokens.split_last().unwrap();
        let run = |pool: &dyn Pool, step: usize| {
            let mut runner = Runner::new(model, Kernels::detect(), pool, KvType::F16, 640);
            for tokens in before.chunks(step) {
                runner.feed(tokens, Output::None);
            }
            bits(&runner.feed(&[*last], Output::LastLogits))
        };
        // The prompt at once, by one worker; then so that a few tokens' chunks are shared out among more and more.
        let expected = run(&Inline, before.len());
        for (workers, step) in [(2, 599), (3, 5), (2, 1)] {
            let pool = ThreadPool::new(Some(workers)).unwrap();
            assert!(
                run(&pool, step) == expected,
                "{step} tokens at once on {workers} workers"
            );
        }
        // The same token as the last of a prompt.
        let mut runner = Runner::new(model, Kernels::detect(), &Inline, KvType::F16, 640);
        let whole = bits(&runner.feed(&tokens, Output::LastLogits));
        assert!(whole == expected, "as a part of the prompt");
    }
}
