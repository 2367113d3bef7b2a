//! Whole forward passes: every golden model and the built-in one, in batches of several kinds.

use crate::emulation::library;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_cuda::{CudaExecutor, CudaOptions, DeviceError};
use strata_kernels::Kernels;
use strata_model::{
    BatchLimits, CpuExecutor, Executor, KvType, LoadOptions, Model, Output, PAGE, PageCopy,
    PageLayout, PageStorage, PageTable, Sequence, Span,
};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

const LIMITS: BatchLimits = BatchLimits {
    tokens: 48,
    logits: 48,
};
const PAGES: usize = 24;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn load(path: &Path) -> Arc<Model> {
    let bytes = std::fs::read(path).unwrap();
    let set = GgufSet::new(vec![Gguf::parse(&bytes).unwrap()]).unwrap();
    let options = LoadOptions::default();
    Arc::new(Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap())
}

fn on_processors(model: &Arc<Model>, kv: KvType) -> Box<dyn Executor> {
    let layout = PageLayout::new(model.config(), kv);
    let storage = PageStorage::new(layout, PAGES * PAGE, 0, &SystemMemory).unwrap();
    let (model, kernels) = (Arc::clone(model), Kernels::detect());
    Box::new(CpuExecutor::new(
        model,
        kernels,
        Arc::new(Inline),
        storage,
        LIMITS,
    ))
}

fn emulated(
    model: &Arc<Model>,
    kv: KvType,
    capability: (i32, i32),
) -> Result<Box<dyn Executor>, DeviceError> {
    let options = CudaOptions {
        device: 0,
        kv,
        pages: PAGES,
        limits: LIMITS,
        pool: Arc::new(Inline),
        progress: &mut |_, _| true,
    };
    let library = library().ok_or(DeviceError::NoDriver)?;
    let executor = CudaExecutor::emulate(library, capability, Arc::clone(model), options)?;
    Ok(Box::new(executor))
}

/// A sequence of numbers that looks random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Sequences on one executor.
struct Side {
    executor: Box<dyn Executor>,
    table: PageTable,
    sequences: Vec<Sequence>,
}

impl Side {
    fn new(executor: Box<dyn Executor>, sequences: usize) -> Self {
        Self {
            table: executor.page_table(),
            executor,
            sequences: (0..sequences).map(|_| Sequence::default()).collect(),
        }
    }

    /// Continues each sequence with its tokens.
    fn forward(&mut self, tokens: &[Vec<u32>], output: Output) -> (Vec<f32>, Vec<f32>) {
        for (sequence, tokens) in self.sequences.iter_mut().zip(tokens) {
            self.table.reserve(sequence, tokens.len()).unwrap();
        }
        let spans = self.sequences.iter_mut().zip(tokens);
        let mut batch: Vec<Span<'_>> = spans
            .filter(|(_, tokens)| !tokens.is_empty())
            .map(|(sequence, tokens)| Span {
                sequence,
                tokens,
                output,
                adapter: None,
            })
            .collect();
        let outputs = self.executor.forward(&self.table, &mut batch).unwrap();
        (outputs.logits.to_vec(), outputs.states.to_vec())
    }
}

fn assert_same(name: &str, what: &str, ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{name}: {what}");
    let wrong = ours
        .iter()
        .zip(theirs)
        .filter(|(a, b)| a.to_bits() != b.to_bits());
    let count = wrong.clone().count();
    let example = wrong.clone().next();
    assert!(
        count == 0,
        "{name}, {what}: {count} of {} differ, such as {example:?}",
        ours.len()
    );
}

/// The same batches on both sides: chunks of prompts side by side, single tokens, states, copied and restored pages.
fn compare(name: &str, model: &Arc<Model>, sides: &mut [Side; 2], steps: &[[usize; 3]]) {
    let vocabulary = model.config().vocabulary;
    let mut random = Random(name.len() as u64);
    for (step, lens) in steps.iter().enumerate() {
        let tokens: Vec<Vec<u32>> = lens
            .iter()
            .map(|&len| (0..len).map(|_| random.below(vocabulary) as u32).collect())
            .collect();
        let output = match step % 3 {
            0 => Output::AllLogits,
            1 => Output::LastLogits,
            _ => Output::States,
        };
        let [ours, theirs] = sides.each_mut().map(|side| side.forward(&tokens, output));
        let what = format!("batch {step} of {lens:?}");
        assert_same(name, &what, &ours.0, &theirs.0);
        assert_same(name, &what, &ours.1, &theirs.1);
    }
    let pages = sides.each_mut().map(|side| {
        // Whose first page is full.
        let page = side.sequences[2].pages()[0];
        let copy = side.table.take_page().unwrap();
        let windows = true;
        let (from, to) = (page, copy);
        side.executor
            .copy_page(&side.table, PageCopy { from, to, windows });
        let mut bytes = Vec::new();
        side.executor.read_page(&side.table, copy, &mut bytes);
        let other = side.table.take_page().unwrap();
        side.executor.write_page(&side.table, other, &bytes);
        let mut again = Vec::new();
        side.executor.read_page(&side.table, other, &mut again);
        assert_eq!(bytes, again, "{name}: a page that was written");
        bytes
    });
    assert_eq!(pages[0], pages[1], "{name}: a page's bytes");
}

const STEPS: [[usize; 3]; 5] = [[20, 3, 1], [1, 17, 30], [1, 1, 1], [0, 0, 1], [9, 0, 1]];

#[test]
fn golden_models_have_the_same_bits() {
    if library().is_none() {
        return;
    }
    let folder = root().join("crates/model/tests/golden");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "gguf"))
        .collect();
    paths.sort();
    let wanted = std::env::var("STRATA_GOLDEN").unwrap_or_default();
    let (mut computed, mut refused, mut wrong) = (0, Vec::new(), Vec::new());
    for (index, path) in paths.iter().enumerate() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.contains(&wanted) {
            continue;
        }
        let model = load(path);
        let kinds = [KvType::F16, KvType::F32, KvType::Q8_0];
        let kv = kinds[index % 3];
        let kv = if model.config().stores_kv(kv) {
            kv
        } else {
            KvType::F16
        };
        match emulated(&model, kv, (8, 0)) {
            Ok(executor) => {
                let ours = Side::new(executor, 3);
                let mut sides = [ours, Side::new(on_processors(&model, kv), 3)];
                let run = || compare(&name, &model, &mut sides, &STEPS);
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    Ok(()) => computed += 1,
                    Err(_) => wrong.push(name),
                }
            }
            Err(DeviceError::Unsupported(_)) => refused.push(name),
            Err(error) => panic!("{name}: {error}"),
        }
    }
    println!(
        "{computed} models have the same bits; refused: {}",
        refused.join(" ")
    );
    assert!(
        computed >= 60 || !wanted.is_empty(),
        "only {computed}, without {refused:?}"
    );
}
