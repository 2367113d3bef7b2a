//! Random load for as long as you like, with three of ten requests canceled: nothing may be lost.
//!
//! `cargo run -p strata-engine --example soak --release -- --minutes 10`

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use strata_engine::random::{Random, Stream};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{
    Choices, ClientId, Engine, EngineOptions, EventKind, Priority, Request, RequestId, Speculation,
};
use strata_host::{MonotonicClock, PoolOptions, ThreadPool, Usage};
use strata_kernels::Kernels;
use strata_model::{Compute, KvPages, KvType, LoadOptions, Model, PAGE};
use strata_platform::{Inline, SystemMemory};
use strata_token::tokenizer::Tokenizer;
use strata_weights::{Gguf, GgufSet};

const PAGES: usize = 96;

/// A request that may be anything.
fn request(random: &mut Random, common: &[u32]) -> Request {
    let mut pick = |n: u64| random.next_u64() % n;
    let mut prompt = common[..pick(common.len() as u64) as usize].to_vec();
    let own = 1 + pick(150);
    prompt.extend((0..own).map(|_| 100 + pick(8000) as u32));
    Request {
        prompt,
        sampling: SamplerSettings {
            seed: pick(u64::MAX),
            ..SamplerSettings::llama_cpp()
        },
        max_tokens: Some(1 + pick(120) as usize),
        choices: match pick(8) {
            0 => Choices::Sample { n: 2, best_of: 3 },
            1 => Choices::Sample { n: 3, best_of: 3 },
            _ => Choices::default(),
        },
        speculation: match pick(3) {
            0 => Speculation::PromptLookup { max_draft: 4 },
            _ => Speculation::Off,
        },
        client: ClientId(pick(5)),
        priority: [Priority::Low, Priority::Normal, Priority::High][pick(3) as usize],
        cache: pick(6) > 0,
        ..Request::default()
    }
}

fn main() {
    let mut minutes = 1.0;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (
            argument.as_str(),
            arguments.next().and_then(|value| value.parse().ok()),
        ) {
            ("--minutes", Some(value)) => minutes = value,
            _ => {
                eprintln!("usage: soak [--minutes N]");
                std::process::exit(2);
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf");
    let bytes = std::fs::read(path).expect("the built-in model");
    let set = GgufSet::new(vec![Gguf::parse(&bytes).expect("a model")]).expect("a model");
    let options = LoadOptions::default();
    let model =
        Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).expect("a model");
    let tokenizer = Tokenizer::from_gguf(set.metadata()).expect("a tokenizer");
    let pool = ThreadPool::new(PoolOptions::default()).expect("threads");
    let clock = MonotonicClock::default();
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: &pool,
    };
    let kv =
        KvPages::new(model.config(), KvType::F16, PAGES * PAGE, &SystemMemory).expect("memory");
    let options = EngineOptions {
        context: 512,
        batch: 256,
        requests: 32,
        queue: 32,
        ..EngineOptions::default()
    };
    let mut engine = Engine::new(&model, &tokenizer, compute, kv, options)
        .with_clock(&clock)
        .with_speculation(4);
    let mut random = Random::new(1, Stream::Token);
    let common: Vec<u32> = (0..200)
        .map(|_| 100 + (random.next_u64() % 8000) as u32)
        .collect();
    let mut open: BTreeMap<RequestId, (usize, Option<Instant>)> = BTreeMap::new();
    let (start, mut report) = (Instant::now(), Instant::now());
    let end = Duration::from_secs_f64(minutes * 60.0);
    let mut settled = None;
    while start.elapsed() < end || !engine.is_idle() {
        let closing = start.elapsed() >= end;
        if !closing && random.next_f64() < 0.3 {
            let request = request(&mut random, &common);
            let answers = request.choices.wanted();
            let cancel = (random.next_f64() < 0.3)
                .then(|| Instant::now() + Duration::from_millis(random.next_u64() % 2000));
            if let Ok(id) = engine.submit(request) {
                open.insert(id, (answers, cancel));
            }
        }
        let now = Instant::now();
        open.retain(|&id, (_, cancel)| {
            let due = cancel.is_some_and(|at| at <= now);
            if due {
                assert!(engine.cancel(id), "{id:?} was open");
            }
            !due
        });
        engine.step(&mut |event| match event.kind {
            EventKind::Finished { .. } => {
                let (left, _) = open.get_mut(&event.request).expect("it is open");
                *left -= 1;
                if *left == 0 {
                    open.remove(&event.request);
                }
            }
            EventKind::Failed(error) => panic!("{error}"),
            _ => {}
        });
        if report.elapsed() > Duration::from_secs(10) {
            report = Instant::now();
            let memory = Usage::now().map_or(0, |usage| usage.peak_bytes);
            settled.get_or_insert(memory);
            let c = engine.counters();
            println!(
                "{:>5.0} s: {} finished, {} canceled, {} preempted, {} running, {} waiting, {} of {PAGES} pages free, {} kept, peak memory {:.1} MB, token p99 ≤ {} s",
                start.elapsed().as_secs_f64(),
                c.finished,
                c.canceled,
                c.preemptions,
                c.running,
                c.waiting,
                c.free_pages,
                c.kept_pages,
                memory as f64 / 1e6,
                c.token_time.quantile(0.99),
            );
        }
    }
    engine.clear_cache();
    let c = engine.counters();
    assert_eq!(c.free_pages, PAGES, "pages are lost");
    assert_eq!(c.submitted, c.finished + c.canceled, "requests are lost");
    assert!(open.is_empty());
    let grown = Usage::now()
        .map_or(0, |usage| usage.peak_bytes)
        .saturating_sub(settled.unwrap_or(0));
    println!(
        "{} requests, {} canceled: no page is lost; {:.1} MB more memory at the end than after 10 s",
        c.submitted,
        c.canceled,
        grown as f64 / 1e6
    );
}
