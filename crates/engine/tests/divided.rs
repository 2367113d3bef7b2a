//! Layers on a GPU and on the processors under the scheduler: the tokens of the processors alone. In CI the GPU is Mesa's
//! lavapipe.

use crate::lent::Lent;
use crate::tale::{self, ExecutorSetup, Tale, run, run_one};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use strata_engine::random::{Random, Stream};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{Engine, EngineOptions, ModelDigest, Request, RequestError, Session};
use strata_gpu::{DeviceError, GpuExecutor, GpuOptions, GpuPart, Standby};
use strata_kernels::Kernels;
use strata_model::{
    BatchError, CpuExecutor, CpuStretch, Executor, KvType, Model, PAGE, PageLayout, PageStorage,
};
use strata_platform::{Inline, SystemMemory};

/// The second of two layers is the GPU's.
const CUT: usize = 1;
const KV: KvType = KvType::F16;

/// A tiny llama, and a tokenizer for whatever it says.
struct Llama {
    model: Arc<Model>,
    tale: Tale,
}

impl Llama {
    /// None where there is no device; CI has one.
    fn load() -> Option<Self> {
        if strata_vulkan::devices().is_empty() {
            assert!(std::env::var_os("CI").is_none(), "CI has a device");
            eprintln!("skipped: there is no Vulkan device");
            return None;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
        Some(Self {
            model: tale::load(&std::fs::read(folder.join("llama.gguf")).unwrap()),
            tale: Tale::load(),
        })
    }

    fn divided(&self, pages: usize, options: &EngineOptions, device: &Lent) -> GpuExecutor {
        let (config, limits) = (self.model.config(), options.limits());
        let part = GpuPart {
            backend: Box::new(device.clone()),
            layers: CUT..config.layers.len(),
        };
        let wanted = GpuOptions {
            kv: KV,
            pages,
            most_pages: pages,
            limits,
            pool: Arc::new(Inline),
            processors: &mut |pages| {
                let layout = PageLayout::of_layers(config, KV, 0..CUT);
                let storage = PageStorage::new(layout, pages * PAGE, 0, &SystemMemory).ok()?;
                let computes = (Kernels::detect(), Arc::new(Inline) as _);
                let model = Arc::clone(&self.model);
                Some(CpuStretch::of_first(model, CUT, computes, storage, limits))
            },
            progress: &mut |_, _| true,
        };
        GpuExecutor::on(vec![part], Arc::clone(&self.model), wanted).unwrap()
    }

    fn whole(&self, pages: usize, options: &EngineOptions) -> Box<dyn Executor> {
        let setup = ExecutorSetup {
            kind: KV,
            pages,
            ..ExecutorSetup::default()
        };
        setup.executor(&self.model, options)
    }

    fn engine(&self, executor: Box<dyn Executor>, options: EngineOptions) -> Engine {
        let engine = Engine::new(executor, Arc::clone(&self.tale.tokenizer), options);
        engine.with_digest(ModelDigest([5; 32]))
    }

    fn prompt(&self, seed: u64, len: usize) -> Vec<u32> {
        let mut random = Random::new(seed, Stream::Token);
        let vocabulary = self.model.config().vocabulary as u64;
        let token = |_| (random.next_u64() % vocabulary) as u32;
        (0..len).map(token).collect()
    }

    fn request(prompt: Vec<u32>, more: usize) -> Request {
        Request {
            prompt,
            sampling: SamplerSettings::greedy(),
            max_tokens: Some(more),
            ignore_end: true,
            ..Request::default()
        }
    }
}

/// One for all tests, which take turns: a device's kernels are made once.
fn device() -> MutexGuard<'static, Lent> {
    static DEVICE: OnceLock<Mutex<Lent>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| Mutex::new(Lent::new(strata_vulkan::backend(0).unwrap())));
    device.lock().unwrap()
}

#[test]
fn preempted_shared_and_saved_pages_give_the_tokens_of_the_processors() {
    let Some(llama) = Llama::load() else { return };
    let options = EngineOptions {
        context: 256,
        batch: 32,
        requests: 5,
        ..EngineOptions::default()
    };
    let common = llama.prompt(99, 40);
    let requests: Vec<Request> = (0..6)
        .map(|seed| {
            let mut prompt = common[..[0, 40][seed as usize % 2]].to_vec();
            prompt.extend(llama.prompt(seed, 1 + 7 * seed as usize));
            Llama::request(prompt, 60 + seed as usize)
        })
        .collect();
    // So few pages that not all find room at once.
    let pages = 7;
    let device = device();
    let sides: [Box<dyn Executor>; 2] = [
        Box::new(llama.divided(pages, &options, &device)),
        llama.whole(pages, &options),
    ];
    let mut engines = sides.map(|executor| llama.engine(executor, options));
    let answers = engines.each_mut().map(|engine| {
        for request in &requests {
            engine.submit(request.clone()).unwrap();
        }
        let answers = run(engine).into_values();
        answers
            .map(|answer| (answer.tokens, answer.failure))
            .collect::<Vec<_>>()
    });
    assert_eq!(answers[0], answers[1]);
    let counters = engines[0].counters();
    assert!(counters.preemptions > 0, "{counters:?}");
    assert!(counters.cached_tokens > 0, "{counters:?}");

    // A session that was saved by either goes on with the other, and computes nothing twice.
    let settings = Llama::request(llama.prompt(1, PAGE + 9), 10);
    for (from, to) in [(0, 1), (1, 0)] {
        let mut session = Session::open(settings.clone());
        session.run(&mut engines[from], &mut |_| {}).unwrap();
        let saved = session.save(&mut engines[from]);
        let expected = run_one(&mut engines[from], session.request()).tokens;
        engines[to].clear_cache();
        let mut restored = Session::restore(&mut engines[to], settings.clone(), &saved).unwrap();
        let next = restored.run(&mut engines[to], &mut |_| {}).unwrap();
        assert_eq!(next.tokens, expected);
        assert_eq!(next.usage.cached_tokens, PAGE);
    }
    for engine in &mut engines {
        engine.clear_cache();
        assert_eq!(engine.free_pages(), pages, "no page is lost");
    }
}

#[test]
fn after_a_loss_requests_that_run_fail_and_the_processors_answer_others() {
    let Some(llama) = Llama::load() else { return };
    let options = EngineOptions {
        context: 128,
        batch: 16,
        requests: 2,
        ..EngineOptions::default()
    };
    let (device, pages) = (device(), 8);
    let divided = llama.divided(pages, &options, &device);
    let (layout, model) = (divided.layout().clone(), Arc::clone(&llama.model));
    let limits = options.limits();
    let processors = move || -> Result<Box<dyn Executor>, String> {
        let storage = PageStorage::new(layout, pages * PAGE, 0, &SystemMemory).unwrap();
        let (kernels, pool) = (Kernels::detect(), Arc::new(Inline));
        let executor = CpuExecutor::new(model, kernels, pool, storage, limits);
        Ok(Box::new(executor))
    };
    let both = Standby::new(Box::new(divided), Box::new(processors));
    let mut engine = llama.engine(Box::new(both), options);

    // What the GPU says, then a loss in the middle of the same beside something else, and once more.
    let request = Llama::request(llama.prompt(5, 40), 20);
    let first = run_one(&mut engine, request.clone());
    assert_eq!(first.tokens.len(), 20);
    engine.submit(request.clone()).unwrap();
    engine
        .submit(Llama::request(llama.prompt(6, 3), 20))
        .unwrap();
    for _ in 0..4 {
        engine.step(&mut |_| {});
    }
    let (doing, reason) = ("computing", "the device was lost".into());
    device
        .launches
        .after(7, DeviceError::Driver { doing, reason });
    for (_, answer) in run(&mut engine) {
        let failure = answer.failure;
        let lost = matches!(&failure, Some(RequestError::Batch(BatchError::Lost { .. })));
        assert!(lost, "{failure:?}");
    }
    device.launches.over();
    let after = run_one(&mut engine, request);
    assert_eq!((after.tokens, after.failure), (first.tokens, None));
    engine.clear_cache();
    assert_eq!(engine.free_pages(), pages, "no page is lost");
}
