//! A tiny model with recurrent states, engines over it, and what it says when nobody else is there.
#![allow(dead_code, reason = "no test uses all of it")]

use super::tale::{self, Answer, ExecutorSetup, Tale, run_one};
use std::path::Path;
use std::sync::Arc;
use strata_engine::random::{Random, Stream};
use strata_engine::{Engine, EngineOptions, Request};
use strata_host::{Pinning, PoolOptions, ThreadPool};
use strata_kernels::{Isa, Kernels};
use strata_model::{Executor, KvType, Model, Output, PAGE, Sequence, Span};
use strata_platform::{Inline, Pool};
use strata_tokenizer::Tokenizer;

/// A model with random weights whose layers have states: LFM2, with three short convolutions and two layers of attention,
/// unless another is asked for.
pub(crate) struct Stateful {
    pub(crate) model: Arc<Model>,
    pub(crate) tokenizer: Arc<Tokenizer>,
}

/// What an engine computes with.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) isa: Isa,
    pub(crate) workers: usize,
}

impl Machine {
    /// Every instruction set that this processor has, with one worker and with several.
    pub(crate) fn all() -> Vec<Self> {
        let there = Isa::ALL
            .iter()
            .filter(|isa| Kernels::for_isa(**isa).is_some());
        there
            .flat_map(|&isa| [1, 3].map(|workers| Self { isa, workers }))
            .collect()
    }

    pub(crate) fn pool(self) -> Arc<dyn Pool + Send> {
        if self.workers == 1 {
            return Arc::new(Inline);
        }
        let options = PoolOptions {
            workers: Some(self.workers),
            pinning: Pinning::None,
        };
        Arc::new(ThreadPool::new(options).unwrap())
    }
}

/// What an engine has.
#[derive(Copy, Clone)]
pub(crate) struct Shape {
    pub(crate) pages: usize,
    /// Slots for states; as many as the engine asks for if nothing is said.
    pub(crate) states: Option<usize>,
    pub(crate) context: usize,
    pub(crate) batch: usize,
    pub(crate) requests: usize,
    pub(crate) max_draft: usize,
    pub(crate) machine: Machine,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            pages: 128,
            states: None,
            context: 512,
            batch: 512,
            requests: 1,
            max_draft: 0,
            machine: Machine {
                isa: Kernels::detect().isa(),
                workers: 1,
            },
        }
    }
}

impl Shape {
    fn options(self) -> EngineOptions {
        EngineOptions {
            context: self.context,
            batch: self.batch,
            requests: self.requests,
            max_draft: self.max_draft,
            ..EngineOptions::default()
        }
    }

    pub(crate) fn states(self) -> usize {
        self.states.unwrap_or(self.options().states())
    }
}

impl Stateful {
    pub(crate) fn load() -> Self {
        Self::named("lfm2")
    }

    /// One of the models that the architectures are checked with.
    pub(crate) fn named(name: &str) -> Self {
        Self::parse(&Self::file(name))
    }

    /// A model of a file.
    pub(crate) fn of_file(path: &Path) -> Self {
        Self::parse(&std::fs::read(path).unwrap())
    }

    /// A model that speaks much like it: one layer's feed-forward network is missing.
    pub(crate) fn dimmed() -> Self {
        Self::parse(&tale::dimmed(Self::file("lfm2")))
    }

    fn file(name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
        std::fs::read(folder.join(format!("{name}.gguf"))).unwrap()
    }

    /// The file has no tokenizer; that of another model has its tokens and more.
    fn parse(bytes: &[u8]) -> Self {
        Self {
            model: tale::load(bytes),
            tokenizer: Tale::load().tokenizer,
        }
    }

    pub(crate) fn executor(&self, shape: Shape) -> Box<dyn Executor> {
        let setup = ExecutorSetup {
            kind: KvType::F32,
            pages: shape.pages,
            states: shape.states,
            pool: shape.machine.pool(),
            kernels: Kernels::for_isa(shape.machine.isa).unwrap(),
        };
        setup.executor(&self.model, &shape.options())
    }

    pub(crate) fn engine(&self, shape: Shape) -> Engine {
        let tokenizer = Arc::clone(&self.tokenizer);
        Engine::new(self.executor(shape), tokenizer, shape.options())
    }

    /// A prompt of random tokens.
    pub(crate) fn prompt(&self, seed: u64, len: usize) -> Vec<u32> {
        let mut random = Random::new(seed, Stream::Token);
        let vocabulary = self.model.config().vocabulary as u64;
        (0..len)
            .map(|_| (random.next_u64() % vocabulary) as u32)
            .collect()
    }

    /// A prompt of random tokens to be continued: greedily if the seed is even, else sampled.
    pub(crate) fn request(&self, seed: u64, prompt: usize, more: usize) -> Request {
        let sampled = (seed % 2 == 1).then_some(seed);
        Request {
            prompt: self.prompt(seed, prompt),
            max_tokens: Some(more),
            ignore_end: true,
            ..request(sampled)
        }
    }

    /// The answer to a request when it is alone, from nothing, and nothing is drafted.
    pub(crate) fn alone(&self, request: &Request) -> Answer {
        let request = Request {
            speculation: strata_engine::Speculation::Off,
            ..request.clone()
        };
        let shape = Shape {
            pages: 128.max(request.prompt.len() / PAGE + 16),
            context: 512.max(request.prompt.len() + 256),
            requests: request.choices.generated(),
            ..Shape::default()
        };
        run_one(&mut self.engine(shape), request)
    }

    /// The likeliest tokens after a prompt, computed one by one without an engine.
    pub(crate) fn greedy(&self, prompt: &[u32], more: usize) -> Vec<u32> {
        let mut executor = self.executor(Shape::default());
        let mut table = executor.page_table();
        let mut sequence = Sequence::default();
        let mut tokens = prompt.to_vec();
        for at in 0..prompt.len() + more - 1 {
            table.reserve(&mut sequence, 1).unwrap();
            let span = Span {
                sequence: &mut sequence,
                tokens: &tokens[at..=at],
                output: Output::LastLogits,
                adapter: None,
                embedded: &[],
            };
            let logits = executor.forward(&table, &mut [span]).unwrap().logits;
            if at + 1 == tokens.len() {
                tokens.push(argmax(logits));
            }
        }
        tokens.split_off(prompt.len())
    }
}

fn request(seed: Option<u64>) -> Request {
    use strata_engine::sampling::SamplerSettings;
    Request {
        sampling: match seed {
            None => SamplerSettings::greedy(),
            Some(seed) => SamplerSettings {
                seed,
                ..SamplerSettings::llama_cpp()
            },
        },
        ..Request::default()
    }
}

fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a)));
    best.unwrap() as u32
}

/// Nothing runs, so all pages and slots are free once what was kept is forgotten.
#[track_caller]
pub(crate) fn assert_no_leak(engine: &mut Engine, shape: Shape) {
    assert!(engine.is_idle());
    engine.clear_cache();
    assert_eq!(engine.free_pages(), shape.pages, "no page is lost");
    assert_eq!(engine.free_states(), shape.states(), "no state is lost");
}
