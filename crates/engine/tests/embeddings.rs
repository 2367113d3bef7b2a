//! Vectors and scores through the scheduler: what a direct pass over the text alone gives, whatever else runs.

use crate::tale::{Answer, ExecutorSetup, Tale, load, run_one};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use strata_engine::random::{Random, Stream};
use strata_engine::{
    ClientId, Engine, EngineOptions, EventKind, FinishReason, Priority, Request, RequestId,
    SubmitError, Task,
};
use strata_host::ThreadPool;
use strata_kernels::Kernels;
use strata_model::{
    BatchLimits, Compute, EncoderInput, KvPages, KvType, Model, Output, Pooled, Pooling, Sequence,
    Span, Workspace,
};
use strata_platform::{Inline, SystemMemory};

fn compute() -> Compute<'static> {
    Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    }
}

fn golden(name: &str) -> Arc<Model> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden_states");
    load(&std::fs::read(folder.join(name)).unwrap())
}

/// Pools what one pass over the whole text gives.
fn directly(model: &Model, tokens: &[u32], kind: Pooling) -> Vec<f32> {
    let limits = BatchLimits {
        tokens: tokens.len(),
        logits: 0,
    };
    let compute = compute();
    let mut work = Workspace::new(model, limits, 1);
    let mut kv = KvPages::new(model.config(), KvType::F16, tokens.len(), &SystemMemory).unwrap();
    let mut sequence = Sequence::default();
    kv.reserve(&mut sequence, tokens.len()).unwrap();
    let span = Span {
        sequence: &mut sequence,
        tokens,
        output: Output::States,
        adapter: None,
        embedded: &[],
    };
    let outputs = model
        .forward(&compute, &mut kv, &mut work, &mut [span])
        .unwrap();
    let mut pooled = Pooled::new(kind, model.config().width);
    pooled.add(outputs.states);
    pooled.finish()
}

fn bits(vector: &[f32]) -> Vec<u32> {
    assert!(!vector.is_empty() && vector.iter().all(|x| x.is_finite()));
    vector.iter().map(|x| x.to_bits()).collect()
}

/// The vectors that requests get, and what else they get.
fn run_all(engine: &mut Engine) -> BTreeMap<RequestId, (Option<Vec<f32>>, Answer)> {
    let mut results = BTreeMap::<_, (Option<Vec<f32>>, Answer)>::new();
    while !engine.is_idle() {
        engine.step(&mut |event| {
            let (vector, answer) = results.entry(event.request).or_default();
            match event.kind {
                EventKind::Embedding(new) => {
                    assert!(vector.replace(new).is_none(), "one vector for each");
                }
                kind => answer.take(kind),
            }
        });
    }
    results
}

#[test]
fn a_decoders_embeddings_run_beside_generation_with_the_bits_of_a_direct_pass() {
    let tale = Tale::load();
    let mut random = Random::new(21, Stream::Token);
    let mut text = |len: usize| -> Vec<u32> {
        (0..len)
            .map(|_| 100 + (random.next_u64() % 8000) as u32)
            .collect()
    };
    let kinds = [Pooling::Mean, Pooling::Last, Pooling::Cls, Pooling::None];
    let texts: Vec<(Vec<u32>, Pooling)> = [1, 31, 32, 33, 70, 100]
        .iter()
        .enumerate()
        .map(|(i, &len)| (text(len), kinds[i % kinds.len()]))
        .collect();
    let expected: Vec<Vec<u32>> = texts
        .iter()
        .map(|(tokens, kind)| bits(&directly(&tale.model, tokens, *kind)))
        .collect();
    let stories = ["Once upon a time", "The king said"];
    let alone: Vec<Answer> = stories
        .iter()
        .map(|story| run_one(&mut tale.engine(64, 1), tale.request(story, Some(4))))
        .collect();
    let pool = Arc::new(ThreadPool::new(Some(2)).unwrap());
    for (batch, places, pages) in [(64, 8, 32), (7, 3, 32), (20, 4, 8)] {
        let setup = ExecutorSetup {
            pages,
            pool: pool.clone(),
            ..ExecutorSetup::default()
        };
        let options = EngineOptions {
            context: 256,
            batch,
            requests: places,
            ..EngineOptions::default()
        };
        let executor = setup.executor(&tale.model, &options);
        let mut engine = Engine::new(executor, Arc::clone(&tale.tokenizer), options);
        let stories: Vec<RequestId> = stories
            .iter()
            .map(|story| engine.submit(tale.request(story, Some(4))).unwrap())
            .collect();
        engine.step(&mut |_| {});
        let ids: Vec<RequestId> = texts
            .iter()
            .enumerate()
            .map(|(i, (tokens, kind))| {
                let request = Request {
                    prompt: tokens.clone(),
                    task: Task::Embed(*kind),
                    client: ClientId(i as u64 % 3),
                    priority: [Priority::Low, Priority::High][i % 2],
                    ..Request::default()
                };
                engine.submit(request).unwrap()
            })
            .collect();
        let results = run_all(&mut engine);
        for (i, id) in ids.iter().enumerate() {
            let (vector, answer) = &results[id];
            let what = format!("text {i} in batches of {batch}");
            assert_eq!(bits(vector.as_ref().unwrap()), expected[i], "{what}");
            assert_eq!(answer.reason(), FinishReason::Complete, "{what}");
            assert_eq!(answer.usage().prompt_tokens, texts[i].0.len(), "{what}");
        }
        for (id, alone) in stories.iter().zip(&alone) {
            // The first token came with the first step.
            assert!(alone.tokens.ends_with(&results[id].1.tokens));
            assert!(results[id].1.tokens.len() + 1 >= alone.tokens.len());
        }
        engine.clear_cache();
        assert_eq!(engine.free_pages(), pages, "no page is lost");
    }
}

#[test]
fn an_encoder_embeds_and_scores_many_texts_with_the_bits_of_each_alone() {
    // The tokenizer is not asked: the prompts are tokens already.
    let tale = Tale::load();
    for name in ["bert-rank.gguf", "xlm-roberta-rank.gguf", "nomic-bert.gguf"] {
        let model = golden(name);
        let config = model.config();
        let vocabulary = config.vocabulary as u64;
        let mut random = Random::new(8, Stream::Token);
        let most = config.context.min(40);
        let texts: Vec<(Vec<u32>, Task)> = (0..14)
            .map(|i| {
                let len = 2 + (random.next_u64() as usize) % (most - 2);
                let tokens = (0..len)
                    .map(|_| (random.next_u64() % vocabulary) as u32)
                    .collect();
                let task = match i % 3 {
                    0 if model.labels() > 0 => Task::Score { second: len / 2 },
                    1 => Task::Embed(Pooling::Cls),
                    _ => Task::Embed(Pooling::Mean),
                };
                (tokens, task)
            })
            .collect();
        let limits = BatchLimits {
            tokens: 200,
            logits: 0,
        };
        let mut work = Workspace::new(&model, limits, 1);
        let expected: Vec<Vec<u32>> = texts
            .iter()
            .map(|(tokens, task)| match *task {
                Task::Score { second } => {
                    let text = EncoderInput { tokens, second };
                    bits(model.rank(&compute(), &mut work, &[text]).unwrap())
                }
                Task::Embed(kind) => {
                    let text = EncoderInput::single(tokens);
                    let mut pooled = Pooled::new(kind, config.width);
                    pooled.add(model.encode(&compute(), &mut work, &[text]).unwrap());
                    bits(&pooled.finish())
                }
                Task::Generate => unreachable!("an encoder writes nothing"),
            })
            .collect();
        let pool = Arc::new(ThreadPool::new(Some(2)).unwrap());
        for batch in [200, 45] {
            let setup = ExecutorSetup {
                kind: KvType::F32,
                pages: 1,
                pool: pool.clone(),
                ..ExecutorSetup::default()
            };
            let options = EngineOptions {
                context: most,
                batch,
                requests: 4,
                ..EngineOptions::default()
            };
            let executor = setup.executor(&model, &options);
            let mut engine = Engine::new(executor, Arc::clone(&tale.tokenizer), options);
            let ids: Vec<RequestId> = texts
                .iter()
                .map(|(tokens, task)| {
                    let request = Request {
                        prompt: tokens.clone(),
                        task: *task,
                        ..Request::default()
                    };
                    engine.submit(request).unwrap()
                })
                .collect();
            assert!(engine.cancel(ids[5]));
            let results = run_all(&mut engine);
            for (i, id) in ids.iter().enumerate().filter(|(i, _)| *i != 5) {
                let (vector, answer) = &results[id];
                let what = format!("{name}, text {i} in batches of {batch}");
                assert_eq!(bits(vector.as_ref().unwrap()), expected[i], "{what}");
                assert_eq!(answer.reason(), FinishReason::Complete, "{what}");
            }
            assert!(!results.contains_key(&ids[5]));
            let counters = engine.counters();
            assert_eq!((counters.finished, counters.canceled), (13, 1));
            assert!(counters.steps < 14, "several in one pass");
            let refused = engine.submit(Request {
                prompt: vec![1],
                ..Request::default()
            });
            assert!(matches!(refused, Err(SubmitError::Unsupported { .. })));
        }
    }
}

#[test]
fn a_decoders_classifier_scores_texts_of_any_length_beside_others() {
    let tale = Tale::load();
    let model = golden("qwen3-rank.gguf");
    let mut random = Random::new(3, Stream::Token);
    let texts: Vec<Vec<u32>> = [1, 5, 40, 70, 33]
        .iter()
        .map(|len| (0..*len).map(|_| (random.next_u64() % 48) as u32).collect())
        .collect();
    let expected: Vec<Vec<u32>> = texts
        .iter()
        .map(|tokens| {
            let state = directly(&model, tokens, Pooling::Last);
            let limits = BatchLimits {
                tokens: 1,
                logits: 0,
            };
            let mut work = Workspace::new(&model, limits, 1);
            bits(model.classify(&compute(), &mut work, &state).unwrap())
        })
        .collect();
    for batch in [512, 16] {
        let options = EngineOptions {
            context: 96,
            batch,
            requests: 3,
            ..EngineOptions::default()
        };
        let setup = ExecutorSetup {
            pages: 12,
            ..ExecutorSetup::default()
        };
        let executor = setup.executor(&model, &options);
        let mut engine = Engine::new(executor, Arc::clone(&tale.tokenizer), options);
        let submit = |engine: &mut Engine, tokens: &Vec<u32>, task| {
            let request = Request {
                prompt: tokens.clone(),
                task,
                max_tokens: Some(9),
                ..Request::default()
            };
            engine.submit(request).unwrap()
        };
        let writing = submit(&mut engine, &texts[2], Task::Generate);
        let ids: Vec<RequestId> = texts
            .iter()
            .map(|tokens| submit(&mut engine, tokens, Task::Score { second: 0 }))
            .collect();
        let results = run_all(&mut engine);
        for (id, expected) in ids.iter().zip(&expected) {
            let (scores, answer) = &results[id];
            assert_eq!(bits(scores.as_ref().unwrap()), *expected);
            assert_eq!(answer.reason(), FinishReason::Complete);
        }
        assert!(results[&writing].0.is_none());
        assert_eq!(engine.free_pages() + engine.counters().kept_pages, 12);
    }
}
