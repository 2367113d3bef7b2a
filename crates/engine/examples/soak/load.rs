//! The load, and what is looked at whenever it pauses.

#[path = "../../tests/spelling/mod.rs"]
mod spelling;

use spelling::Rhythm;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strata_engine::random::{Random, Stream};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{
    AdapterId, Choices, ClientId, Engine, EngineOptions, EventKind, Pooling, Priority, Request,
    RequestId, Speculation, Task,
};
use strata_host::{MonotonicClock, PoolOptions, ThreadPool};
use strata_kernels::Kernels;
use strata_model::{
    Adapter, AdapterTensor, CpuExecutor, KvType, LoadOptions, Model, PAGE, PageLayout, PageStorage,
};
use strata_platform::{Inline, SystemMemory};
use strata_tokenizer::Tokenizer;
use strata_weights::{Gguf, GgufSet};

const PAGES: usize = 96;

/// Pauses in a run, at which memory is compared.
const ROUNDS: u32 = 6;

/// Bytes that memory may differ by between pauses: buffers keep the size of the largest that they held.
const SLACK: usize = 256 << 10;

/// Counts the bytes that are in use.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How things stood when nothing was left to do.
pub(crate) struct Round {
    after: Duration,
    submitted: u64,
    finished: u64,
    canceled: u64,
    preemptions: u64,
    free_pages: usize,
    live_bytes: usize,
    token_p99: f64,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>5.0} s: {} finished, {} canceled, {} preempted, {} of {PAGES} pages free, {:.3} MB in use, token p99 ≤ {} s",
            self.after.as_secs_f64(),
            self.finished,
            self.canceled,
            self.preemptions,
            self.free_pages,
            self.live_bytes as f64 / 1e6,
            self.token_p99,
        )
    }
}

/// The share of requests that are to be canceled, so that three of ten are before they end.
const MARKED: f64 = 0.45;

/// What must hold at every pause.
pub(crate) fn check(rounds: &[Round]) {
    for round in rounds {
        assert_eq!(round.free_pages, PAGES, "pages are lost: {round}");
        let ended = round.finished + round.canceled;
        assert_eq!(round.submitted, ended, "requests are lost: {round}");
    }
    let (first, last) = (&rounds[0], &rounds[rounds.len() - 1]);
    let grown = last.live_bytes.saturating_sub(first.live_bytes);
    assert!(grown <= SLACK, "memory grows: {first}, then {last}");
    let canceled = last.canceled as f64 / last.submitted.max(1) as f64;
    assert!((0.2..0.4).contains(&canceled), "{canceled} are canceled");
}

/// What requests are made of.
struct Workload {
    random: Random,
    common: Vec<u32>,
    adapters: [AdapterId; 2],
}

impl Workload {
    fn pick(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    /// A request that may be anything.
    fn request(&mut self) -> Request {
        let shared = self.pick(self.common.len() as u64) as usize;
        let mut prompt = self.common[..shared].to_vec();
        let own = 1 + self.pick(150);
        prompt.extend((0..own).map(|_| 100 + self.pick(8000) as u32));
        let mut request = Request {
            prompt,
            sampling: SamplerSettings {
                seed: self.random.next_u64(),
                ..SamplerSettings::llama_cpp()
            },
            max_tokens: Some(1 + self.pick(120) as usize),
            client: ClientId(self.pick(5)),
            priority: [Priority::Low, Priority::Normal, Priority::High][self.pick(3) as usize],
            cache: self.pick(6) > 0,
            adapter: match self.pick(4) {
                at @ 0..2 => Some(self.adapters[at as usize]),
                _ => None,
            },
            ..Request::default()
        };
        match self.pick(12) {
            0 => request.choices = Choices::Sample { n: 2, best_of: 3 },
            1 => request.choices = Choices::Sample { n: 3, best_of: 3 },
            2 => {
                request.choices = Choices::Beams {
                    n: 1,
                    width: 2,
                    length_penalty: 1.0,
                }
            }
            3 => request.task = Task::Embed(Pooling::Mean),
            4 => request.constraint = Some(Box::new(Rhythm::new(20))),
            5 | 6 => request.speculation = Speculation::PromptLookup { max_draft: 4 },
            7 => request.stop = vec!["the".into(), "\n".into()],
            _ => {}
        }
        request
    }
}

fn adapter(model: &Model, seed: f32) -> Arc<Adapter> {
    let config = model.config();
    let (width, rank) = (config.width, 4);
    let rows = config.attention().next().unwrap().q_width();
    let numbers = |count: usize| -> Vec<u8> {
        (0..count)
            .flat_map(|i| ((i as f32 * seed).sin() * 0.2).to_le_bytes())
            .collect()
    };
    let (a, b) = (numbers(width * rank), numbers(rank * rows));
    let tensor = |name, dims, data| AdapterTensor {
        name,
        ty: strata_weights::GgmlType::F32,
        dims,
        data,
    };
    let (a_dims, b_dims) = ([width as u64, rank as u64], [rank as u64, rows as u64]);
    let tensors = [
        tensor("blk.0.attn_q.weight.lora_a", &a_dims[..], &a[..]),
        tensor("blk.0.attn_q.weight.lora_b", &b_dims[..], &b[..]),
    ];
    Arc::new(Adapter::new(8.0, &tensors, model).expect("an adapter"))
}

/// Puts load on an engine for a time, with pauses; `tell` hears of each.
pub(crate) fn soak(time: Duration, tell: &mut dyn FnMut(&Round)) -> Vec<Round> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf");
    let bytes = std::fs::read(path).expect("the built-in model");
    let set = GgufSet::new(vec![Gguf::parse(&bytes).expect("a model")]).expect("a model");
    let options = LoadOptions::default();
    let model =
        Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).expect("a model");
    let model = Arc::new(model);
    let tokenizer = Arc::new(Tokenizer::from_gguf(set.metadata()).expect("a tokenizer"));
    let pool = Arc::new(ThreadPool::new(PoolOptions::default()).expect("threads"));
    let options = EngineOptions {
        context: 512,
        batch: 256,
        requests: 32,
        queue: 32,
        max_draft: 4,
        ..EngineOptions::default()
    };
    let layout = PageLayout::new(model.config(), KvType::F16);
    let storage = PageStorage::new(layout, PAGES * PAGE, options.states(), &SystemMemory);
    let executor = CpuExecutor::new(
        Arc::clone(&model),
        Kernels::detect(),
        pool,
        storage.expect("memory"),
        options.limits(),
    );
    let mut engine = Engine::new(Box::new(executor), Arc::clone(&tokenizer), options)
        .with_clock(Arc::new(MonotonicClock::default()));
    let adapters = [1.3, 2.7].map(|seed| {
        let adapter = adapter(&model, seed);
        engine.add_adapter(adapter, 1.0).expect("its own adapter")
    });
    let mut random = Random::new(1, Stream::Token);
    let mut workload = Workload {
        common: (0..200)
            .map(|_| 100 + (random.next_u64() % 8000) as u32)
            .collect(),
        random,
        adapters,
    };
    let start = Instant::now();
    // One round more at the beginning: buffers get their sizes.
    let mut rounds = Vec::with_capacity(ROUNDS as usize + 1);
    for _ in 0..=ROUNDS {
        load(&mut engine, &mut workload, time / (ROUNDS + 1));
        engine.clear_cache();
        let c = engine.counters();
        let round = Round {
            after: start.elapsed(),
            submitted: c.submitted,
            finished: c.finished,
            canceled: c.canceled,
            preemptions: c.preemptions,
            free_pages: c.free_pages,
            live_bytes: LIVE.load(Ordering::Relaxed),
            token_p99: c.token_time.quantile(0.99),
        };
        tell(&round);
        rounds.push(round);
    }
    rounds.remove(0);
    rounds
}

/// Puts load on an engine for a time, and waits until all is done.
fn load(engine: &mut Engine, workload: &mut Workload, time: Duration) {
    let mut open: BTreeMap<RequestId, (usize, Option<u64>)> = BTreeMap::new();
    let (start, mut step) = (Instant::now(), 0);
    while start.elapsed() < time || !engine.is_idle() {
        if start.elapsed() < time && workload.random.next_f64() < 0.3 {
            let request = workload.request();
            let answers = request.choices.wanted();
            // By steps, not by time, so that as many are canceled on a quick machine as on a slow one. Every token
            // takes a step at least; a few end before their last one.
            let steps = request.max_tokens.unwrap_or(1) as u64;
            let cancel = (workload.random.next_f64() < MARKED).then(|| step + workload.pick(steps));
            if let Ok(id) = engine.submit(request) {
                open.insert(id, (answers, cancel));
            }
        }
        open.retain(|&id, (_, cancel)| {
            let due = cancel.is_some_and(|at| at <= step);
            if due {
                assert!(engine.cancel(id), "{id:?} was open");
            }
            !due
        });
        step += 1;
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
    }
    assert!(open.is_empty(), "{} never ended", open.len());
}
