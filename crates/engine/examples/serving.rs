//! What many users of one engine get: tokens a second and latencies, by number of streams, with a shared prefix and
//! without; what a cached prefix saves; and how little a long prompt disturbs the others. Prints one JSON object.
//!
//! `cargo run --release -p strata-engine --example serving -- MODEL.gguf [--threads N] [--streams N,N…] [--prompt N]
//! [--tokens N] [--prefix N] [--long N]`. `cargo xtask bench serving` prints it as a table beside llama.cpp.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_engine::random::{Random, Stream};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{Engine, EngineOptions, EventKind, ModelDigest, Request, RequestId};
use strata_host::{HugePages, MappedFile, MonotonicClock, PageFiles, ThreadPool};
use strata_kernels::Kernels;
use strata_model::{CpuExecutor, KvType, LoadOptions, Model, PAGE, PageLayout, PageStorage};
use strata_platform::Pool;
use strata_tokenizer::Tokenizer;
use strata_weights::{Gguf, GgufSet};

/// Tokens of a prompt that are its own, where the rest is shared.
const OWN: usize = 32;
/// Streams that go on while a long prompt is computed, and the tokens that each has before.
const RUNNING: usize = 4;
const BEFORE: usize = 8;
/// Bytes that the pages on disk may take.
const STORE: u64 = 4 << 30;

struct Options {
    model: PathBuf,
    threads: Option<usize>,
    streams: Vec<usize>,
    prompt: usize,
    tokens: usize,
    prefix: usize,
    long: usize,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        model: PathBuf::new(),
        threads: None,
        streams: vec![1, 4, 8, 16, 32],
        prompt: 256,
        tokens: 32,
        prefix: 2000,
        long: 8192,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            options.model = argument.into();
            continue;
        }
        let value = arguments.next().unwrap_or_default();
        let numbers: Option<Vec<usize>> = value
            .split(',')
            .map(|number| number.parse().ok().filter(|&n| n > 0))
            .collect();
        let numbers = numbers.ok_or(format!("{argument} takes a number, not {value:?}"))?;
        match argument.as_str() {
            "--streams" => options.streams = numbers,
            "--threads" => options.threads = Some(numbers[0]),
            "--prompt" => options.prompt = numbers[0].max(OWN + 1),
            "--tokens" => options.tokens = numbers[0].max(2),
            "--prefix" => options.prefix = numbers[0],
            "--long" => options.long = numbers[0],
            _ => return Err(format!("there is no option {argument}")),
        }
    }
    if options.model.as_os_str().is_empty() {
        Err("which model?".into())
    } else {
        Ok(options)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let file = MappedFile::open(&options.model)?;
    let set = GgufSet::new(vec![Gguf::parse(file.bytes())?])?;
    let pool = Arc::new(ThreadPool::new(options.threads)?);
    let memory = HugePages::default();
    let context = options.long.max(options.prefix + OWN) + options.tokens + PAGE;
    let load = LoadOptions {
        context: Some(context),
        ..LoadOptions::default()
    };
    let model = Model::load(&set, load, &memory, &*pool, &mut |_, _| {})?;
    let bench = Bench {
        model: Arc::new(model),
        tokenizer: Arc::new(Tokenizer::from_gguf(set.metadata())?),
        pool,
        clock: Arc::new(MonotonicClock::default()),
        options: &options,
    };
    let mut rows = Vec::new();
    for &streams in &options.streams {
        for sharing in [Sharing::Prefix, Sharing::None] {
            rows.push(bench.burst(streams, sharing)?);
        }
    }
    let report = json!({
        "isa": Kernels::detect().isa().name(),
        "threads": bench.pool.workers(),
        "prompt": options.prompt,
        "tokens": options.tokens,
        "rows": rows,
        "prefix": bench.cached_prefix()?,
        "long_prompt": bench.long_prompt()?,
    });
    println!("{report}");
    Ok(())
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Sharing {
    /// All but a few tokens of each prompt have been computed before.
    Prefix,
    None,
}

/// When the tokens of a request came.
struct Arrivals {
    submitted: Instant,
    tokens: Vec<Instant>,
}

struct Bench<'a> {
    model: Arc<Model>,
    tokenizer: Arc<Tokenizer>,
    pool: Arc<ThreadPool>,
    clock: Arc<MonotonicClock>,
    options: &'a Options,
}

impl Bench<'_> {
    /// An engine for so many texts of so many positions.
    fn engine(&self, requests: usize, context: usize) -> Result<Engine, Box<dyn Error>> {
        let positions = requests * (context.next_multiple_of(PAGE) + PAGE);
        let options = EngineOptions {
            context,
            requests,
            queue: requests,
            ..EngineOptions::default()
        };
        let layout = PageLayout::new(self.model.config(), KvType::F16);
        let memory = HugePages::default();
        let executor = CpuExecutor::new(
            Arc::clone(&self.model),
            Kernels::detect(),
            self.pool.clone(),
            PageStorage::new(layout, positions, options.states(), &memory)?,
            options.limits(),
        );
        let engine = Engine::new(Box::new(executor), Arc::clone(&self.tokenizer), options);
        Ok(engine.with_clock(self.clock.clone()))
    }

    fn random(&self, seed: usize, tokens: usize) -> Vec<u32> {
        let mut random = Random::new(seed as u64, Stream::Token);
        let vocabulary = self.model.config().vocabulary as u64;
        (0..tokens)
            .map(|_| (random.next_u64() % vocabulary) as u32)
            .collect()
    }

    /// Many requests at once.
    fn burst(&self, streams: usize, sharing: Sharing) -> Result<Value, Box<dyn Error>> {
        let Options { prompt, tokens, .. } = *self.options;
        let mut engine = self.engine(streams + 1, prompt + tokens)?;
        let prefix = self.random(0, prompt - OWN);
        // The engine learns how long steps take, and the prefix.
        run(&mut engine, vec![request(prefix.clone(), 2)])?;
        let requests = (0..streams).map(|stream| {
            let prompt = match sharing {
                Sharing::Prefix => [&prefix[..], &self.random(stream + 1, OWN)].concat(),
                Sharing::None => self.random(stream + 1, prompt),
            };
            request(prompt, tokens)
        });
        let start = Instant::now();
        let found = run(&mut engine, requests.collect())?;
        let seconds = start.elapsed().as_secs_f64();
        let first = found.iter().map(Arrivals::first).collect();
        let gaps = found.iter().flat_map(Arrivals::gaps).collect();
        Ok(json!({
            "streams": streams,
            "shared": sharing == Sharing::Prefix,
            "tok_s": (streams * tokens) as f64 / seconds,
            "first_token_s": percentiles(first),
            "token_s": percentiles(gaps),
        }))
    }

    /// The time to a first token: of a prompt that is new, of one that shares its beginning, and of another in a process
    /// that finds the beginning on disk.
    fn cached_prefix(&self) -> Result<Value, Box<dyn Error>> {
        let folder = std::env::temp_dir().join(format!("strata-serving-{}", std::process::id()));
        let found = self.cached_prefix_in(&folder);
        std::fs::remove_dir_all(&folder)?;
        found
    }

    fn cached_prefix_in(&self, folder: &Path) -> Result<Value, Box<dyn Error>> {
        let tokens = self.options.prefix;
        let prefix = self.random(0, tokens);
        let mut seconds = Vec::new();
        let mut ask = |engine: &mut Engine, seed: usize| -> Result<(), Box<dyn Error>> {
            let prompt = [&prefix[..], &self.random(seed, OWN)].concat();
            let found = run(engine, vec![request(prompt, 2)])?;
            seconds.push(found[0].first());
            Ok(())
        };
        for process in 0..2 {
            let store = Box::new(PageFiles::open(folder, STORE)?);
            let engine = self.engine(2, tokens + OWN + 2)?;
            let mut engine = engine.with_store(store, ModelDigest([1; 32]));
            if process == 0 {
                // The first touch of the weights is nobody's.
                run(&mut engine, vec![request(self.random(9, OWN), 2)])?;
                ask(&mut engine, 1)?;
                ask(&mut engine, 2)?;
                engine.persist();
            } else {
                ask(&mut engine, 3)?;
            }
        }
        Ok(json!({
            "tokens": tokens,
            "first_s": seconds[0],
            "second_s": seconds[1],
            "restarted_s": seconds[2],
        }))
    }

    /// What streams see while a long prompt is computed.
    fn long_prompt(&self) -> Result<Value, Box<dyn Error>> {
        let long = self.options.long;
        let mut engine = self.engine(RUNNING + 1, long + PAGE)?;
        let mut found = BTreeMap::new();
        for stream in 0..RUNNING {
            submit(
                &mut engine,
                request(self.random(stream + 1, OWN), long),
                &mut found,
            )?;
        }
        while found.values().any(|stream| stream.tokens.len() < BEFORE) {
            step(&mut engine, &mut found)?;
        }
        let id = submit(&mut engine, request(self.random(99, long), 1), &mut found)?;
        let start = Instant::now();
        while found[&id].tokens.is_empty() {
            step(&mut engine, &mut found)?;
        }
        let end = found[&id].tokens[0];
        found.remove(&id);
        let gaps: Vec<f64> = found.values().flat_map(|s| s.gaps_since(start)).collect();
        Ok(json!({
            "tokens": long,
            "streams": RUNNING,
            "target_s": EngineOptions::default().latency.as_secs_f64(),
            "prompt_s": (end - start).as_secs_f64(),
            "token_s": percentiles(gaps),
        }))
    }
}

impl Arrivals {
    /// Seconds to the first token.
    fn first(&self) -> f64 {
        self.tokens
            .first()
            .map_or(f64::NAN, |&first| seconds(first - self.submitted))
    }

    /// Seconds between tokens.
    fn gaps(&self) -> Vec<f64> {
        self.gaps_since(self.submitted)
    }

    /// Those that end after `start`.
    fn gaps_since(&self, start: Instant) -> Vec<f64> {
        let pairs = self.tokens.windows(2).filter(|pair| pair[1] > start);
        pairs.map(|pair| seconds(pair[1] - pair[0])).collect()
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn request(prompt: Vec<u32>, tokens: usize) -> Request {
    Request {
        prompt,
        sampling: SamplerSettings::greedy(),
        max_tokens: Some(tokens),
        ignore_end: true,
        ..Request::default()
    }
}

fn submit(
    engine: &mut Engine,
    request: Request,
    found: &mut BTreeMap<RequestId, Arrivals>,
) -> Result<RequestId, Box<dyn Error>> {
    let id = engine.submit(request)?;
    let stream = Arrivals {
        submitted: Instant::now(),
        tokens: Vec::new(),
    };
    found.insert(id, stream);
    Ok(id)
}

fn step(
    engine: &mut Engine,
    found: &mut BTreeMap<RequestId, Arrivals>,
) -> Result<(), Box<dyn Error>> {
    let mut failed = None;
    engine.step(&mut |event| match event.kind {
        EventKind::Token { .. } => {
            if let Some(stream) = found.get_mut(&event.request) {
                stream.tokens.push(Instant::now());
            }
        }
        EventKind::Failed(error) => failed = Some(error),
        _ => {}
    });
    failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Runs requests to their ends.
fn run(engine: &mut Engine, requests: Vec<Request>) -> Result<Vec<Arrivals>, Box<dyn Error>> {
    let mut found = BTreeMap::new();
    for request in requests {
        submit(engine, request, &mut found)?;
    }
    while !engine.is_idle() {
        step(engine, &mut found)?;
    }
    Ok(found.into_values().collect())
}

/// The 50th, 90th and 99th.
fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.5, 0.9, 0.99].map(|share| {
        let place = (share * values.len() as f64).ceil() as usize;
        values
            .get(place.saturating_sub(1))
            .copied()
            .unwrap_or(f64::NAN)
    })
}
