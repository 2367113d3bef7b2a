//! Checks and times the executor on the GPU of this machine: `cargo xtask test-gpu` and `cargo xtask bench gpu` run it.
//!
//! `gpu check FOLDER` compares golden models and the built-in one, in the repository at FOLDER, with the processors, bit
//! for bit. `gpu bench SHAPE` times a llama of random weights, `1b`, `8b` or `32b`, or that of a file. `gpu profile SHAPE` computes one batch of
//! each kind, for a profiler that times kernels (`ncu`).

#[path = "../../../gpu/tests/compare.rs"]
mod compare;
mod synthetic;
mod timing;

use compare::{LIMITS, PAGES, Random, STEPS, Side, assert_same, load, on_processors};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_gpu::{DeviceError, GpuExecutor, GpuOptions, GpuPart};
use strata_host::ThreadPool;
use strata_model::{BatchLimits, Executor, KvType, Model, Output};
use strata_platform::Pool;

fn main() {
    for device in strata_cuda::devices() {
        let (major, minor) = device.capability;
        println!(
            "{}, compute capability {major}.{minor}, {} processors, {:.1} GB",
            device.name,
            device.processors,
            device.memory as f64 / 1e9
        );
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pool: Arc<dyn Pool + Send> = Arc::new(ThreadPool::new(None).expect("threads"));
    let failed = match words[..] {
        ["check", folder] => check(Path::new(folder), &pool),
        ["bench", shape] => timing::bench(shape, &pool),
        ["profile", shape] => timing::profile(shape, &pool),
        _ => {
            eprintln!("gpu check FOLDER | gpu bench SHAPE | gpu profile SHAPE");
            true
        }
    };
    std::process::exit(failed.into());
}

/// A model on the GPU.
fn on_gpu(
    model: &Arc<Model>,
    kv: KvType,
    (pages, limits): (usize, BatchLimits),
    pool: &Arc<dyn Pool + Send>,
) -> Result<Box<dyn Executor>, DeviceError> {
    let options = GpuOptions {
        kv,
        pages,
        most_pages: pages,
        limits,
        pool: Arc::clone(pool),
        processors: &mut |_| None,
        progress: &mut |_, _| true,
    };
    let part = GpuPart::whole(strata_cuda::backend(0)?, model);
    let executor = GpuExecutor::open(vec![part], Arc::clone(model), options)?;
    Ok(Box::new(executor))
}

/// Compares; true if something differs.
fn check(root: &Path, pool: &Arc<dyn Pool + Send>) -> bool {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(root.join("crates/model/tests/golden"))
        .expect("the golden models")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
        .collect();
    paths.sort();
    let (mut same, mut wrong, mut refused) = (0, Vec::new(), Vec::new());
    for (index, path) in paths.iter().enumerate() {
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let model = load(path);
        let kv = [KvType::F16, KvType::F32, KvType::Q8_0][index % 3];
        let kv = if model.config().stores_kv(kv) {
            kv
        } else {
            KvType::F16
        };
        let room = (PAGES, LIMITS);
        match on_gpu(&model, kv, room, pool) {
            Ok(executor) => {
                let processors = on_processors(&model, kv, room, Arc::clone(pool));
                let mut sides = [Side::new(executor, 3), Side::new(processors, 3)];
                let run = || compare::compare(&name, &model, &mut sides, &STEPS);
                match catch_unwind(AssertUnwindSafe(run)) {
                    Ok(()) => same += 1,
                    Err(_) => wrong.push(name),
                }
            }
            Err(DeviceError::Unsupported(_)) => refused.push(name),
            Err(error) => {
                println!("{name}: {error}");
                wrong.push(name);
            }
        }
    }
    println!(
        "golden models: {same} have the same bits, {} are refused, wrong: {wrong:?}",
        refused.len()
    );
    let tale = root.join("models/tale/tale-q4_k_m.gguf");
    let wrong_tale = [KvType::F16, KvType::Q8_0]
        .into_iter()
        .any(|kv| !tale_is_same(&tale, kv, pool));
    wrong_tale || !wrong.is_empty()
}

/// The built-in model in batches of 1 to 64 sequences, prompts in chunks, contexts past one chunk of attention.
fn tale_is_same(path: &Path, kv: KvType, pool: &Arc<dyn Pool + Send>) -> bool {
    let limits = BatchLimits {
        tokens: 512,
        logits: 64,
    };
    let model = load(path);
    let vocabulary = model.config().vocabulary;
    let (mut values, mut good) = (0, true);
    for count in [1, 2, 3, 4, 7, 8, 16, 33, 64] {
        let pages = count * 12 + 24;
        let gpu = match on_gpu(&model, kv, (pages, limits), pool) {
            Ok(gpu) => gpu,
            Err(error) => {
                println!("tale: {error}");
                return false;
            }
        };
        let processors = on_processors(&model, kv, (pages, limits), Arc::clone(pool));
        let mut sides = [Side::new(gpu, count), Side::new(processors, count)];
        let mut random = Random(count as u64);
        // Prompts of several lengths, the first in two chunks of more than 256 tokens; then single tokens.
        let mut steps = vec![vec![0; count]; 5];
        steps[0][0] = 300;
        steps[1][0] = 290;
        steps[2].fill_with(|| 1 + random.below(7));
        steps[2][0] = 1;
        steps[3] = vec![1; count];
        steps[4] = vec![1; count];
        for _ in 0..3 {
            steps.push(vec![1; count]);
        }
        for (step, lens) in steps.iter().enumerate() {
            let tokens: Vec<Vec<u32>> = lens
                .iter()
                .map(|&len| (0..len).map(|_| random.below(vocabulary) as u32).collect())
                .collect();
            let [ours, theirs] = sides
                .each_mut()
                .map(|side| side.forward(&tokens, Output::LastLogits).0);
            values += ours.len();
            let what = format!("batch {step}");
            let name = format!("tale, {count} sequences, {kv:?}");
            let compared = catch_unwind(|| assert_same(&name, &what, &ours, &theirs));
            good &= compared.is_ok();
        }
    }
    println!(
        "tale with {kv:?} keys: {values} logits, {}",
        if good { "all the same" } else { "SOME WRONG" }
    );
    good
}
