//! How fast a model of random weights runs, and whether its bits are those of the processors.

use crate::compare::{Random, Side, assert_same, on_processors};
use crate::on_gpu;
use crate::synthetic;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::Instant;
use strata_model::{BatchLimits, Executor, KvType, LoadOptions, Model, Output};
use strata_platform::{Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// What the memory of an H200 gives, in bytes a second.
const MEMORY: f64 = 4.8e12;

const LIMITS: BatchLimits = BatchLimits {
    tokens: 512,
    logits: 64,
};

/// The model of a shape, or of a file, on the processors' side and on the GPU, with room for 64 sequences.
fn open(shape: &str, pool: &Arc<dyn Pool + Send>) -> Option<(Arc<Model>, Box<dyn Executor>)> {
    let start = Instant::now();
    let bytes = match synthetic::sizes(shape) {
        Some(sizes) => synthetic::file(&sizes),
        None if shape.ends_with(".gguf") => std::fs::read(shape).expect("a file"),
        None => {
            eprintln!("expected FILE.gguf, or one of the shapes 1b, 8b, 8b4 and 32b");
            return None;
        }
    };
    let set = GgufSet::new(vec![Gguf::parse(&bytes).expect("a file")]).expect("a set");
    let options = LoadOptions {
        context: Some(8192),
        ..LoadOptions::default()
    };
    let model =
        Model::load(&set, options, &SystemMemory, &**pool, &mut |_, _| {}).expect("a model");
    let model = Arc::new(model);
    println!(
        "{shape}: {:.2} GB made in {:.1} s",
        bytes.len() as f64 / 1e9,
        start.elapsed().as_secs_f64()
    );
    drop(set);
    drop(bytes);
    let room = (64 * 24 + 160, LIMITS);
    let start = Instant::now();
    match on_gpu(&model, KvType::F16, room, pool) {
        Ok(executor) => {
            println!(
                "uploaded {:.2} GB in {:.2} s",
                executor.memory().weights as f64 / 1e9,
                start.elapsed().as_secs_f64()
            );
            Some((model, executor))
        }
        Err(error) => {
            println!("{error}");
            None
        }
    }
}

/// One batch of each kind: 64 sequences, 8, 2 and 1, prompts of 512 tokens, the last one behind 3584 others.
pub(crate) fn profile(shape: &str, pool: &Arc<dyn Pool + Send>) -> bool {
    let Some((model, executor)) = open(shape, pool) else {
        return true;
    };
    let mut side = Side::new(executor, 64);
    let mut random = Random(1);
    let mut step = |lens: &[usize; 64]| {
        let mut one = |len: usize| {
            let token = |_| random.below(model.config().vocabulary) as u32;
            (0..len).map(token).collect()
        };
        let tokens: Vec<Vec<u32>> = lens.iter().map(|&len| one(len)).collect();
        side.forward(&tokens, Output::LastLogits);
    };
    for sequences in [64, 8, 2, 1] {
        let mut lens = [0; 64];
        lens[..sequences].fill(1);
        step(&lens);
    }
    for _ in 0..8 {
        let mut lens = [0; 64];
        lens[63] = 512;
        step(&lens);
    }
    false
}

pub(crate) fn bench(shape: &str, pool: &Arc<dyn Pool + Send>) -> bool {
    let Some((model, executor)) = open(shape, pool) else {
        return true;
    };
    let weights = executor.memory().weights as f64;
    let mut side = Side::new(executor, 64);
    let vocabulary = model.config().vocabulary;
    let mut random = Random(1);
    let mut draw = |lens: &[usize]| -> Vec<Vec<u32>> {
        let mut one = |len: usize| (0..len).map(|_| random.below(vocabulary) as u32).collect();
        lens.iter().map(|&len| one(len)).collect()
    };
    // Bits first.
    let mut failed = false;
    let mut processors = Side::new(
        on_processors(&model, KvType::F16, (16, LIMITS), Arc::clone(pool)),
        64,
    );
    let mut few = vec![0; 64];
    let mut values = 0;
    for lens in [[9, 3], [1, 1], [1, 0], [1, 0], [1, 0], [0, 40]] {
        few[..2].copy_from_slice(&lens);
        let tokens = draw(&few);
        let ours = side.forward(&tokens, Output::LastLogits).0;
        let theirs = processors.forward(&tokens, Output::LastLogits).0;
        values += ours.len();
        failed |=
            catch_unwind(|| assert_same(shape, "against the processors", &ours, &theirs)).is_err();
    }
    println!(
        "{values} logits against the processors: {}",
        if failed { "SOME WRONG" } else { "all the same" }
    );
    // Then times. Prompts of 512 tokens in one chunk, twice: the first of them takes the launches in.
    for (sequence, what) in [(2, "cold"), (3, "prefill 512")] {
        let mut lens = vec![0; 64];
        lens[sequence] = 512;
        let tokens = draw(&lens);
        let start = Instant::now();
        side.forward(&tokens, Output::LastLogits);
        report(what, 512, 1, start.elapsed().as_secs_f64(), 0.0);
    }
    let start = Instant::now();
    for _ in 0..8 {
        let mut lens = vec![0; 64];
        lens[4] = 512;
        let tokens = draw(&lens);
        side.forward(&tokens, Output::LastLogits);
    }
    report("prefill 4096", 4096, 1, start.elapsed().as_secs_f64(), 0.0);
    for (batch, rounds) in [
        (1, 64),
        (2, 16),
        (4, 16),
        (8, 32),
        (16, 16),
        (32, 16),
        (64, 24),
    ] {
        let mut lens = vec![0; 64];
        lens[..batch].fill(1);
        let mut times = Vec::new();
        for _ in 0..rounds + 4 {
            let tokens = draw(&lens);
            let start = Instant::now();
            side.forward(&tokens, Output::LastLogits);
            times.push(start.elapsed().as_secs_f64());
        }
        let mut times = times.split_off(4);
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        report(
            &format!("decode, {batch} sequences"),
            batch,
            1,
            median,
            weights,
        );
    }
    failed
}

fn report(what: &str, tokens: usize, rounds: usize, seconds: f64, bytes: f64) {
    let rate = (tokens * rounds) as f64 / seconds;
    let share = match bytes {
        0.0 => String::new(),
        bytes => format!(", {:.1}% of 4.8 TB/s", 100.0 * bytes / seconds / MEMORY),
    };
    println!(
        "{what:24} {:8.3} ms {rate:10.0} tokens/s{share}",
        1e3 * seconds
    );
}
