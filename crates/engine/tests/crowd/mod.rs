//! Many requests at once, for tests: an engine of some shape, a clock, and requests of all kinds.
#![allow(dead_code, reason = "no test uses all of it")]

use super::spelling::Rhythm;
use super::tale::{Answer, ExecutorSetup, Tale};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use strata_engine::random::{Random, Stream};
use strata_engine::{ClientId, Engine, EngineOptions, Priority, Request};
use strata_platform::{Clock, Inline, Pool};

/// A clock that is set by hand.
#[derive(Default)]
pub(crate) struct HandClock(AtomicU64);

impl HandClock {
    pub(crate) fn pass(&self, time: Duration) {
        let now = self.0.load(Ordering::Relaxed);
        self.0
            .store(now + time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Shape {
    pub(crate) pages: usize,
    pub(crate) batch: usize,
    pub(crate) requests: usize,
    pub(crate) queue: usize,
    pub(crate) max_draft: usize,
    pub(crate) pool: Arc<dyn Pool + Send>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            pages: 256,
            batch: 64,
            requests: 8,
            queue: 64,
            max_draft: 0,
            pool: Arc::new(Inline),
        }
    }
}

impl Shape {
    pub(crate) fn options(&self) -> EngineOptions {
        EngineOptions {
            context: 256,
            batch: self.batch,
            requests: self.requests,
            queue: self.queue,
            max_draft: self.max_draft,
            ..EngineOptions::default()
        }
    }
}

pub(crate) fn engine(tale: &Tale, shape: &Shape) -> Engine {
    let options = shape.options();
    let setup = ExecutorSetup {
        pages: shape.pages,
        pool: Arc::clone(&shape.pool),
        ..ExecutorSetup::default()
    };
    let executor = setup.executor(&tale.model, &options);
    Engine::new(executor, Arc::clone(&tale.tokenizer), options)
}

pub(crate) fn assert_no_leak(engine: &mut Engine, pages: usize) {
    engine.clear_cache();
    assert_eq!(engine.free_pages(), pages, "no page is lost");
    assert_eq!(engine.counters().kept_pages, 0);
}

/// Requests of all kinds: of many lengths, some with a common beginning, greedy and not, constrained and not.
pub(crate) fn workload(tale: &Tale, count: u64) -> Vec<Request> {
    let mut random = Random::new(5, Stream::Token);
    let mut pick = |n: u64| random.next_u64() % n;
    let common: Vec<u32> = (0..70).map(|_| pick(8000) as u32 + 100).collect();
    (0..count)
        .map(|i| {
            let mut request = tale.request("", (i % 3 > 0).then_some(i));
            let shared = if i % 2 == 0 { pick(70) as usize } else { 0 };
            request.prompt = common[..shared].to_vec();
            let own = 1 + pick(60);
            request
                .prompt
                .extend((0..own).map(|_| pick(8000) as u32 + 100));
            request.max_tokens = Some(1 + pick(20) as usize);
            request.ignore_end = true;
            request.client = ClientId(i % 4);
            request.priority = [Priority::Low, Priority::Normal, Priority::High][pick(3) as usize];
            if i % 4 == 1 {
                let mut rhythm = Rhythm::new(9);
                rhythm.forces = i % 8 == 1;
                request.constraint = Some(Box::new(rhythm));
            }
            request.logprobs = (i % 5 == 4).then_some(2);
            request
        })
        .collect()
}

#[track_caller]
pub(crate) fn assert_same(alone: &Answer, other: &Answer, what: &str) {
    assert_eq!(alone.tokens, other.tokens, "{what}");
    assert_eq!(alone.text, other.text, "{what}");
    assert_eq!(alone.logprobs, other.logprobs, "{what}");
    assert_eq!(alone.reason(), other.reason(), "{what}");
}
