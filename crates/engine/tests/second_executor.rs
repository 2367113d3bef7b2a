//! The seam to devices: the book's f32 decoder, behind the same trait as the processors and under the same scheduler.

use crate::tale;

use crate::oracle::Oracle;
use crate::shelf::Shelf;
use crate::tale::{Answer, ExecutorSetup, Tale, adapter, run, run_one};
use std::path::Path;
use std::sync::Arc;
use strata_engine::random::{Random, Stream};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{
    Choices, Engine, EngineOptions, ModelDigest, Request, Session, Speculation, SubmitError, Task,
};
use strata_learn::decoder::Decoder;
use strata_model::{
    BatchError, Executor, KvType, Model, Output, PAGE, PageTable, Pooling, Sequence, Span,
};
use strata_weights::Gguf;

/// A tiny llama with random f32 weights.
struct Llama {
    file: Vec<u8>,
    model: Arc<Model>,
    tale: Tale,
}

const PAGES: usize = 64;

impl Llama {
    fn load() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
        let file = std::fs::read(folder.join("llama.gguf")).unwrap();
        Self {
            model: tale::load(&file),
            tale: Tale::load(),
            file,
        }
    }

    fn oracle(&self, pages: usize, options: &EngineOptions) -> Box<Oracle> {
        let (config, limits) = (self.model.config(), options.limits());
        Box::new(Oracle::new(&self.file, config, pages, limits))
    }

    fn engine(&self, pages: usize, options: EngineOptions) -> Engine {
        let executor = self.oracle(pages, &options);
        Engine::new(executor, Arc::clone(&self.tale.tokenizer), options)
    }

    fn prompt(&self, seed: u64, len: usize) -> Vec<u32> {
        let mut random = Random::new(seed, Stream::Token);
        let vocabulary = self.model.config().vocabulary as u64;
        let token = |_| (random.next_u64() % vocabulary) as u32;
        (0..len).map(token).collect()
    }

    /// A prompt to be continued greedily.
    fn request(&self, prompt: Vec<u32>, more: usize) -> Request {
        Request {
            prompt,
            sampling: SamplerSettings::greedy(),
            max_tokens: Some(more),
            ignore_end: true,
            ..Request::default()
        }
    }

    /// What the decoder says by itself, one sequence from its first token to its last.
    fn plain(&self, request: &Request) -> Vec<u32> {
        let gguf = Gguf::parse(&self.file).unwrap();
        let mut decoder = Decoder::from_gguf(&gguf).unwrap();
        let mut tokens = request.prompt.clone();
        let len = tokens.len() + request.max_tokens.unwrap();
        for at in 0..len - 1 {
            let logits = decoder.forward(tokens[at], at);
            if at + 1 == tokens.len() {
                let best = (0..logits.len()).rev();
                let best = best.max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
                tokens.push(best.unwrap() as u32);
            }
        }
        tokens.split_off(request.prompt.len())
    }
}

fn options(batch: usize, requests: usize) -> EngineOptions {
    EngineOptions {
        context: 256,
        batch,
        requests,
        max_draft: 4,
        ..EngineOptions::default()
    }
}

fn assert_no_leak(engine: &mut Engine, pages: usize) {
    engine.clear_cache();
    assert_eq!(engine.free_pages(), pages, "no page is lost");
}

#[test]
fn the_scheduler_drives_it_through_batches_chunks_preemption_and_shared_pages() {
    let llama = Llama::load();
    let common = llama.prompt(99, 70);
    let requests: Vec<Request> = (0..9)
        .map(|seed| {
            let mut prompt = common[..[0, 70, 40][seed as usize % 3]].to_vec();
            prompt.extend(llama.prompt(seed, 1 + 7 * seed as usize));
            llama.request(prompt, 60 + seed as usize)
        })
        .collect();
    let plain: Vec<Vec<u32>> = requests.iter().map(|r| llama.plain(r)).collect();
    let (mut preempted, mut shared, mut drafted) = (0, 0, 0);
    for (batch, slots, pages) in [(1, 1, PAGES), (5, 3, PAGES), (64, 9, PAGES), (32, 5, 7)] {
        for speculation in [Speculation::Off, Speculation::PromptLookup { max_draft: 4 }] {
            let mut engine = llama.engine(pages, options(batch, slots));
            for request in &requests {
                let request = Request {
                    speculation,
                    ..request.clone()
                };
                engine.submit(request).unwrap();
            }
            let answers = run(&mut engine);
            for (i, (answer, plain)) in answers.values().zip(&plain).enumerate() {
                assert_eq!(answer.failure, None);
                assert_eq!(answer.tokens, *plain, "request {i}, batches of {batch}");
            }
            preempted += engine.counters().preemptions;
            shared += engine.counters().cached_tokens;
            drafted += engine.counters().drafted_tokens;
            assert_no_leak(&mut engine, pages);
        }
    }
    assert!(
        preempted > 0 && shared > 0 && drafted > 0,
        "{preempted} {shared} {drafted}"
    );
}

#[test]
fn its_pages_are_copied_saved_and_stored() {
    let llama = Llama::load();
    let digest = ModelDigest([5; 32]);
    let settings = llama.request(llama.prompt(1, 3 * PAGE + 9), 10);
    let plain = llama.plain(&settings);

    // Two greedy answers are the same, and so is a search that keeps one text. The second copies the page that it begins
    // to write in.
    let mut engine = llama.engine(PAGES, options(64, 3)).with_digest(digest);
    for choices in [
        Choices::Sample { n: 2, best_of: 2 },
        Choices::Beams {
            n: 1,
            width: 1,
            length_penalty: 1.0,
        },
    ] {
        let request = Request {
            choices,
            ..settings.clone()
        };
        engine.submit(request).unwrap();
        let mut answers = [Answer::default(), Answer::default()];
        while !engine.is_idle() {
            engine.step(&mut |event| answers[event.choice].take(event.kind));
        }
        for answer in &answers[..choices.wanted()] {
            assert_eq!(answer.tokens, plain);
        }
    }

    // A session goes on elsewhere, and a store serves after a restart.
    let mut session = Session::open(settings.clone());
    let first = session.run(&mut engine, &mut |_| {}).unwrap();
    assert_eq!(first.tokens, plain);
    let saved = session.save(&mut engine);
    let expected = llama.plain(&session.request());
    let mut elsewhere = llama.engine(PAGES, options(64, 1)).with_digest(digest);
    let mut restored = Session::restore(&mut elsewhere, settings.clone(), &saved).unwrap();
    let next = restored.run(&mut elsewhere, &mut |_| {}).unwrap();
    assert_eq!(next.tokens, expected);
    assert_eq!(next.usage.cached_tokens, 3 * PAGE);

    let shelf = Shelf::default();
    for cached in [0, 3 * PAGE] {
        let engine = llama.engine(PAGES, options(64, 1));
        let mut engine = engine.with_store(Box::new(shelf.clone()), digest);
        let answer = run_one(&mut engine, settings.clone());
        assert_eq!(answer.tokens, plain);
        assert_eq!(answer.usage().cached_tokens, cached);
        engine.persist();
    }
}

#[test]
fn its_logits_are_those_of_the_processors() {
    let llama = Llama::load();
    let options = options(64, 4);
    let setup = ExecutorSetup {
        kind: KvType::F32,
        pages: PAGES,
        ..ExecutorSetup::default()
    };
    let oracle: Box<dyn Executor> = llama.oracle(PAGES, &options);
    let mut executors = [oracle, setup.executor(&llama.model, &options)];
    let [ours, theirs] = executors.each_mut().map(|executor| {
        let mut table = executor.page_table();
        let mut sequences: [Sequence; 3] = Default::default();
        let mut logits = Vec::new();
        // Chunks of three sequences side by side, then one token each.
        for (step, lens) in [[20, 3, 1], [1, 17, 30], [1, 1, 1]].into_iter().enumerate() {
            let tokens: Vec<Vec<u32>> = (0..3)
                .map(|i| llama.prompt((step * 3 + i) as u64, lens[i]))
                .collect();
            let output = Output::LastLogits;
            logits.extend(forward(
                &mut **executor,
                &mut table,
                &mut sequences,
                &tokens,
                output,
            ));
        }
        logits
    });
    assert_eq!(ours.len(), 9 * llama.model.config().vocabulary);
    let pairs = ours.iter().zip(&theirs);
    let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "the largest difference is {worst}");
}

fn forward(
    executor: &mut dyn Executor,
    table: &mut PageTable,
    sequences: &mut [Sequence],
    tokens: &[Vec<u32>],
    output: Output,
) -> Vec<f32> {
    for (sequence, tokens) in sequences.iter_mut().zip(tokens) {
        table.reserve(sequence, tokens.len()).unwrap();
    }
    let spans = sequences.iter_mut().zip(tokens);
    let mut batch: Vec<Span<'_>> = spans
        .map(|(sequence, tokens)| Span {
            sequence,
            tokens,
            output,
            adapter: None,
            embedded: &[],
        })
        .collect();
    executor.forward(table, &mut batch).unwrap().logits.to_vec()
}

#[test]
fn what_it_cannot_do_is_refused_and_fails_alone() {
    let llama = Llama::load();
    let mut engine = llama.engine(PAGES, options(64, 2));
    assert!(engine.add_adapter(adapter(&llama.tale, 0.3), 1.0).is_err());
    let request = llama.request(llama.prompt(1, 10), 4);
    let score = Request {
        task: Task::Score { second: 3 },
        ..request.clone()
    };
    assert!(matches!(
        engine.submit(score),
        Err(SubmitError::Unsupported { .. })
    ));
    let embed = Request {
        task: Task::Embed(Pooling::Mean),
        ..request.clone()
    };
    let failed = run_one(&mut engine, embed).failure;
    assert_eq!(failed, Some(BatchError::Decoder.into()));
    let answer = run_one(&mut engine, request.clone());
    assert_eq!(answer.tokens, llama.plain(&request));
    assert_no_leak(&mut engine, PAGES);
}
