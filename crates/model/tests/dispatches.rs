//! How often a pass wakes the workers: each time costs all of them a wait for the slowest.

use crate::running::{Runner, read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use strata_host::ThreadPool;
use strata_kernels::Kernels;
use strata_model::{KvType, LoadOptions, Model, Output};
use strata_platform::{Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// Counts the tasks of a pool.
struct Counted {
    pool: ThreadPool,
    tasks: AtomicUsize,
}

impl Pool for Counted {
    fn workers(&self) -> usize {
        self.pool.workers()
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        self.pool.run(task);
    }
}

#[test]
fn a_layer_takes_few_dispatches() {
    let pool = Counted {
        pool: ThreadPool::new(Some(2)).unwrap(),
        tasks: AtomicUsize::new(0),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf");
    let bytes = read(&path);
    let set = GgufSet::new(vec![Gguf::parse(&bytes).unwrap()]).unwrap();
    let options = LoadOptions::default();
    let model = Model::load(&set, options, &SystemMemory, &pool, &mut |_, _| {}).unwrap();
    let layers = model.config().layers.len();
    let mut runner = Runner::new(&model, Kernels::detect(), &pool, KvType::F16, 512);
    let mut count = |tokens: &[u32]| {
        let before = pool.tasks.load(Ordering::Relaxed);
        runner.feed(tokens, Output::LastLogits);
        pool.tasks.load(Ordering::Relaxed) - before
    };
    let prompt: Vec<u32> = (0..400).map(|i| 100 + i * 37 % 4000).collect();
    // Norm, qkv, rotation, keys and values, attention, its output, norm, gate and up, down; the first norm and the
    // logits come once.
    assert!(count(&prompt) <= 9 * layers + 2);
    // The norms, the rotation and the stored keys of one token are too little to share.
    assert!(count(&[7]) <= 5 * layers + 1);
}
