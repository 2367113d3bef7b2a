//! The built-in model, an engine over it, and what comes out.
#![allow(dead_code, reason = "no test uses all of it")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use strata_engine::sampling::SamplerSettings;
use strata_engine::{
    Engine, EngineOptions, EventKind, FinishReason, Request, RequestError, RequestId,
    TokenLogprobs, Usage,
};
use strata_kernels::Kernels;
use strata_model::{
    Adapter, AdapterTensor, CpuExecutor, Executor, KvType, LoadOptions, Model, NextnUse, PAGE,
    PageLayout, PageStorage,
};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_tokenizer::{EncodeOptions, Tokenizer};
use strata_weights::{Gguf, GgufSet};

/// The pages of an engine for which nothing else is said: 1024 positions.
pub(crate) const PAGES: usize = 1024 / PAGE;

/// What a model runs on.
pub(crate) struct ExecutorSetup {
    pub(crate) kind: KvType,
    pub(crate) pages: usize,
    /// Slots for recurrent states; as many as the engine asks for if nothing is said.
    pub(crate) states: Option<usize>,
    pub(crate) pool: Arc<dyn Pool + Send>,
    pub(crate) kernels: &'static Kernels,
}

impl Default for ExecutorSetup {
    fn default() -> Self {
        Self {
            kind: KvType::F16,
            pages: PAGES,
            states: None,
            pool: Arc::new(Inline),
            kernels: Kernels::detect(),
        }
    }
}

impl ExecutorSetup {
    /// A model there, with room for the batches of an engine with these options.
    pub(crate) fn executor(self, model: &Arc<Model>, options: &EngineOptions) -> Box<dyn Executor> {
        let layout = PageLayout::new(model.config(), self.kind);
        let states = self.states.unwrap_or(options.states());
        let positions = self.pages * PAGE;
        let storage = PageStorage::new(layout, positions, states, &SystemMemory).unwrap();
        let (kernels, limits) = (self.kernels, options.limits());
        let model = Arc::clone(model);
        Box::new(CpuExecutor::new(model, kernels, self.pool, storage, limits))
    }
}

/// A model from a file's bytes.
pub(crate) fn load(bytes: &[u8]) -> Arc<Model> {
    let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
    let options = LoadOptions {
        nextn: NextnUse::IfPresent,
        ..LoadOptions::default()
    };
    let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {});
    Arc::new(model.unwrap())
}

/// A model's file without one layer's feed-forward network.
pub(crate) fn dimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let gguf = Gguf::parse(&bytes).unwrap();
    let data = gguf.tensor("blk.1.ffn_down.weight").unwrap().data;
    let start = data.as_ptr() as usize - bytes.as_ptr() as usize;
    let range = start..start + data.len();
    bytes[range].fill(0);
    bytes
}

pub(crate) struct Tale {
    pub(crate) model: Arc<Model>,
    pub(crate) tokenizer: Arc<Tokenizer>,
}

impl Tale {
    pub(crate) fn load() -> Self {
        Self::parse(&Self::file())
    }

    /// A model that speaks much like it: one layer's feed-forward network is missing.
    pub(crate) fn dimmed() -> Self {
        Self::parse(&dimmed(Self::file()))
    }

    fn file() -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf");
        std::fs::read(path).unwrap()
    }

    fn parse(bytes: &[u8]) -> Self {
        let gguf = Gguf::parse(bytes).unwrap();
        Self {
            tokenizer: Arc::new(Tokenizer::from_gguf(gguf.metadata()).unwrap()),
            model: load(bytes),
        }
    }

    /// So many pages, and room for the batches of an engine with these options.
    pub(crate) fn executor(&self, pages: usize, options: &EngineOptions) -> Box<dyn Executor> {
        let setup = ExecutorSetup {
            pages,
            ..ExecutorSetup::default()
        };
        setup.executor(&self.model, options)
    }

    /// An engine with so many pages.
    pub(crate) fn engine_with(&self, pages: usize, options: EngineOptions) -> Engine {
        let executor = self.executor(pages, &options);
        Engine::new(executor, Arc::clone(&self.tokenizer), options)
    }

    pub(crate) fn engine(&self, batch: usize, requests: usize) -> Engine {
        let options = EngineOptions {
            context: 256,
            batch,
            requests,
            ..EngineOptions::default()
        };
        self.engine_with(PAGES, options)
    }

    /// A question in the model's own chat format, with the answer to come.
    pub(crate) fn turn(&self, question: &str) -> Vec<u32> {
        let text = format!("<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n");
        let options = EncodeOptions {
            parse_special: true,
            ..EncodeOptions::default()
        };
        self.tokenizer.encode(&text, options)
    }

    pub(crate) fn request(&self, prompt: &str, seed: Option<u64>) -> Request {
        Request {
            prompt: self.tokenizer.encode(prompt, EncodeOptions::default()),
            sampling: match seed {
                None => SamplerSettings::greedy(),
                Some(seed) => SamplerSettings {
                    seed,
                    ..SamplerSettings::llama_cpp()
                },
            },
            max_tokens: Some(24),
            ..Request::default()
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) tokens: Vec<u32>,
    pub(crate) text: String,
    pub(crate) logprobs: Vec<Option<TokenLogprobs>>,
    pub(crate) finish: Option<(FinishReason, Usage)>,
    pub(crate) failure: Option<RequestError>,
}

impl Answer {
    /// Why it ended.
    pub(crate) fn reason(&self) -> FinishReason {
        self.finish.unwrap().0
    }

    /// What it took.
    pub(crate) fn usage(&self) -> Usage {
        self.finish.unwrap().1
    }
}

impl Answer {
    /// Takes in what happened.
    pub(crate) fn take(&mut self, kind: EventKind) {
        match kind {
            EventKind::Token {
                token,
                text,
                logprobs,
            } => {
                self.tokens.push(token);
                self.logprobs.push(logprobs);
                self.text.push_str(&text);
            }
            EventKind::Finished {
                text,
                reason,
                usage,
            } => {
                self.text.push_str(&text);
                self.finish = Some((reason, usage));
            }
            EventKind::Failed(error) => self.failure = Some(error),
            _ => {}
        }
    }
}

pub(crate) fn run(engine: &mut Engine) -> BTreeMap<RequestId, Answer> {
    let mut answers = BTreeMap::<_, Answer>::new();
    while !engine.is_idle() {
        engine.step(&mut |event| answers.entry(event.request).or_default().take(event.kind));
    }
    answers
}

pub(crate) fn run_one(engine: &mut Engine, request: Request) -> Answer {
    engine.submit(request).unwrap();
    run(engine).pop_first().unwrap().1
}

/// An adapter of random numbers for the first layer's queries.
pub(crate) fn adapter(tale: &Tale, seed: f32) -> Arc<Adapter> {
    let config = tale.model.config();
    let (width, rank) = (config.width, 4);
    let q_width = config.attention().next().unwrap().q_width();
    let numbers = |count: usize| -> Vec<u8> {
        (0..count)
            .flat_map(|i| ((i as f32 * seed).sin() * 0.3).to_le_bytes())
            .collect()
    };
    let (a, b) = (numbers(width * rank), numbers(rank * q_width));
    let tensors = [
        AdapterTensor {
            name: "blk.0.attn_q.weight.lora_a",
            ty: strata_weights::GgmlType::F32,
            dims: &[width as u64, rank as u64],
            data: &a,
        },
        AdapterTensor {
            name: "blk.0.attn_q.weight.lora_b",
            ty: strata_weights::GgmlType::F32,
            dims: &[rank as u64, q_width as u64],
            data: &b,
        },
    ];
    Arc::new(Adapter::new(8.0, &tensors, &tale.model).unwrap())
}
