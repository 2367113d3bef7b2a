//! What HTTP, JSON and server-sent events cost: the same streams through the server and through the engine alone, in
//! turns, with one copy of the weights.
//!
//! `cargo run --release -p strata-server --example overhead -- [MODEL.gguf] [--streams N] [--tokens N] [--rounds N]`.
//! `cargo xtask bench overhead` runs it on the built-in model.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata::{Listeners, LoadReport, Parts};
use strata_chat::{Fault, FaultKind, KeepAlive, ModelFacts, ModelProfile, RequestContext, prepare};
use strata_engine::{Engine, EngineOptions, EventKind};
use strata_host::{HugePages, MonotonicClock, ThreadPool};
use strata_kernels::Kernels;
use strata_model::{CpuExecutor, Executor, KvType, LoadOptions, Model, PageLayout, PageStorage};
use strata_platform::OutOfMemory;
use strata_server::{Bound, Listening, Models, Settings};
use strata_tokenizer::Tokenizer;
use strata_weights::{Gguf, GgufSet};
use strata_wire::Stamp;
use strata_wire::call::Call;
use strata_wire::dialect::{HttpRequest, open};

const CONTEXT: usize = 1024;
/// Overhead that is too much, in percent.
const TARGET: f64 = 3.0;

/// Time between two looks at the streams: about as often as the server writes to them.
const LOOK: Duration = Duration::from_millis(16);

type Failure = Box<dyn Error + Send + Sync>;

struct Load {
    streams: usize,
    tokens: usize,
    rounds: usize,
}

impl Load {
    /// Tokens of the answers that those of the long ones are compared with.
    fn short(&self) -> usize {
        self.tokens / 4
    }
}

/// One model for the server and for the engine alone.
struct Shared {
    model: Arc<Model>,
    profile: Arc<ModelProfile>,
    pool: Arc<ThreadPool>,
    clock: Arc<MonotonicClock>,
    options: EngineOptions,
}

impl Shared {
    /// The weights are one; pages and buffers are each executor's own.
    fn executor(&self) -> Result<Box<dyn Executor>, OutOfMemory> {
        let positions = CONTEXT * self.options.requests;
        let layout = PageLayout::new(self.model.config(), KvType::F16);
        let states = self.options.states();
        Ok(Box::new(CpuExecutor::new(
            Arc::clone(&self.model),
            Kernels::detect(),
            self.pool.clone(),
            PageStorage::new(layout, positions, states, &HugePages::Transparent)?,
            self.options.limits(),
        )))
    }
}

struct One(Arc<Shared>);

impl Models for One {
    fn list(&self) -> Vec<ModelFacts> {
        self.find(None).into_iter().collect()
    }

    fn find(&self, _: Option<&str>) -> Result<ModelFacts, Fault> {
        Ok(ModelFacts {
            name: "model".into(),
            ..ModelFacts::default()
        })
    }

    fn memory(&self, _: &str, _: Option<usize>) -> Result<u64, Fault> {
        Ok(0)
    }

    fn limit(&self) -> u64 {
        u64::MAX
    }

    fn open(
        &self,
        _: &str,
        _: Option<usize>,
        listening: Listening,
    ) -> Result<strata::Model, Fault> {
        let shared = Arc::clone(&self.0);
        let executor = shared.executor();
        let executor = executor.map_err(|error| Fault::new(FaultKind::Internal, error))?;
        let tokenizer = Arc::clone(&shared.profile.tokenizer);
        let parts = Parts {
            engine: Engine::new(executor, tokenizer, shared.options)
                .with_clock(shared.clock.clone()),
            profile: Arc::clone(&shared.profile),
            facts: self.find(None)?,
            adapters: Vec::new(),
            turns: Arc::default(),
            settle: Box::new(move || {
                let _ = shared.pool.pin_caller();
            }),
            load: LoadReport::default(),
        };
        let listeners = Listeners {
            monitor: Some(listening.monitor),
            ended: Some(listening.ended),
            progress: None,
        };
        Ok(strata::Model::from_parts(parts, listeners)?)
    }
}

fn main() -> Result<(), Failure> {
    let mut load = Load {
        streams: 8,
        tokens: 768,
        rounds: 7,
    };
    let mut path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../models/tale/tale-q4_k_m.gguf"
    )
    .into();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--streams" => &mut load.streams,
            "--tokens" => &mut load.tokens,
            "--rounds" => &mut load.rounds,
            _ => {
                path = argument;
                continue;
            }
        };
        *place = arguments.next().unwrap_or_default().parse()?;
    }
    let shared = Arc::new(read(&path, load.streams)?);
    let settings = Settings::default();
    let models = Arc::new(One(Arc::clone(&shared)));
    let here: SocketAddr = "127.0.0.1:0".parse()?;
    let bound = Bound::new(here, settings, models, KeepAlive::Forever, None)?;
    let address = bound.address().ok_or("it listens at no address")?;
    std::thread::spawn(move || bound.run(std::future::pending()));
    let tokenizer = Arc::clone(&shared.profile.tokenizer);
    let mut engine =
        Engine::new(shared.executor()?, tokenizer, shared.options).with_clock(shared.clock.clone());

    // Both engines' threads stay where the program's would.
    shared.pool.pin_caller()?;
    let mut pairs = Vec::new();
    for round in 0..=load.rounds {
        // What a long answer takes more than a short one is the time of its tokens alone, without the beginning, when
        // requests come one after the other, and the end.
        let [short, long] = [load.short(), load.tokens].map(|tokens| {
            let streams = 0..load.streams;
            streams.map(|stream| body(round, stream, tokens)).collect()
        });
        let mut alone = |bodies: &Vec<String>| in_process(&mut engine, &shared.profile, bodies);
        let alone = (alone(&short)?, alone(&long)?);
        let served = (over_http(address, &short)?, over_http(address, &long)?);
        // The first round warms both up.
        if round > 0 {
            let more = |(short, long): (Duration, Duration)| long.saturating_sub(short);
            pairs.push((more(alone), more(served)));
        }
    }
    report(&load, &pairs)
}

fn report(load: &Load, pairs: &[(Duration, Duration)]) -> Result<(), Failure> {
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let tokens = (load.streams * (load.tokens - load.short())) as f64;
    let mut alone: Vec<f64> = pairs
        .iter()
        .map(|(a, _)| tokens / a.as_secs_f64())
        .collect();
    let mut served: Vec<f64> = pairs
        .iter()
        .map(|(_, s)| tokens / s.as_secs_f64())
        .collect();
    let mut more: Vec<f64> = pairs
        .iter()
        .map(|(a, s)| (s.as_secs_f64() / a.as_secs_f64() - 1.0) * 100.0)
        .collect();
    let (alone, served, more) = (median(&mut alone), median(&mut served), median(&mut more));
    println!(
        "{} streams, tokens {} to {}, medians of {} rounds in turns",
        load.streams,
        load.short(),
        load.tokens,
        pairs.len()
    );
    println!("  the engine alone       {alone:8.1} tokens/s");
    println!("  through the server     {served:8.1} tokens/s");
    println!("  overhead               {more:8.2} % of the token time (target: under {TARGET} %)");
    if more < TARGET {
        Ok(())
    } else {
        Err("the server takes more than the target".into())
    }
}

fn read(path: &str, streams: usize) -> Result<Shared, Failure> {
    let bytes = std::fs::read(path)?;
    let file = GgufSet::new(vec![Gguf::parse(&bytes)?])?;
    let tokenizer = Arc::new(Tokenizer::from_gguf(file.metadata())?);
    let pool = Arc::new(ThreadPool::new(None)?);
    let options = LoadOptions {
        context: Some(CONTEXT),
        ..LoadOptions::default()
    };
    let memory = HugePages::Transparent;
    let model = Model::load(&file, options, &memory, &*pool, &mut |_, _| {})?;
    Ok(Shared {
        model: Arc::new(model),
        profile: Arc::new(ModelProfile::new(tokenizer, None, CONTEXT)),
        pool,
        clock: Arc::new(MonotonicClock::default()),
        options: EngineOptions {
            context: CONTEXT,
            requests: streams,
            ..EngineOptions::default()
        },
    })
}

/// A request whose prompt no other has, so that nothing is found in a cache.
fn body(round: usize, stream: usize, tokens: usize) -> String {
    let prompt = format!("{round}-{stream}: Once upon a time there was a small dog");
    format!(
        "{{\"prompt\":\"{prompt}\",\"max_tokens\":{tokens},\"temperature\":0,\"ignore_eos\":true,\"stream\":true}}"
    )
}

fn in_process(
    engine: &mut Engine,
    profile: &ModelProfile,
    bodies: &[String],
) -> Result<Duration, Failure> {
    let start = Instant::now();
    for body in bodies {
        let asked = HttpRequest {
            method: "POST",
            target: "/v1/completions",
            body: body.as_bytes(),
            anthropic: false,
        };
        let stamp = Stamp {
            id: "x".into(),
            unix_seconds: 0,
            nanoseconds: 0,
        };
        let Ok(Call::Generate(request, _)) = open(&asked, &stamp, &mut ()) else {
            return Err("the request was not understood".into());
        };
        let context = RequestContext {
            now: None,
            seed: 1,
            id: "x",
        };
        let prepared = prepare(&request, profile, context).map_err(|fault| fault.message)?;
        for request in prepared.requests {
            engine.submit(request)?;
        }
    }
    let (mut finished, mut failed) = (0, false);
    while finished < bodies.len() && !failed {
        engine.step(&mut |event| match event.kind {
            EventKind::Finished { .. } => finished += 1,
            EventKind::Failed(_) => failed = true,
            _ => {}
        });
    }
    if failed {
        Err("a request failed".into())
    } else {
        Ok(start.elapsed())
    }
}

/// One thread reads all streams now and then: clients on other machines would take no time of these processors, and
/// waking one here for every token would.
fn over_http(address: SocketAddr, bodies: &[String]) -> Result<Duration, Failure> {
    let start = Instant::now();
    let mut answers = Vec::new();
    for body in bodies {
        let head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close";
        let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        stream.set_nonblocking(true)?;
        answers.push((stream, Vec::new(), false));
    }
    while answers.iter().any(|(.., ended)| !ended) {
        std::thread::sleep(LOOK);
        for (stream, answer, ended) in answers.iter_mut().filter(|(.., ended)| !ended) {
            match stream.read_to_end(answer) {
                Ok(_) => *ended = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let time = start.elapsed();
    for (_, answer, _) in answers {
        let text = String::from_utf8_lossy(&answer);
        if !(text.starts_with("HTTP/1.1 200") && text.contains("[DONE]")) {
            return Err(format!("the server answered {text}").into());
        }
    }
    Ok(time)
}
