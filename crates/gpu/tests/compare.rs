//! The same batches on two executors, whose results must have the same bits.
#![allow(dead_code, reason = "not everybody uses all of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_kernels::Kernels;
use strata_model::{
    BatchLimits, CpuExecutor, Executor, KvType, LoadOptions, Model, Output, PAGE, PageCopy,
    PageLayout, PageStorage, PageTable, Sequence, Span,
};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

pub(crate) const LIMITS: BatchLimits = BatchLimits {
    tokens: 48,
    logits: 48,
};
pub(crate) const PAGES: usize = 24;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn load(path: &Path) -> Arc<Model> {
    let bytes = std::fs::read(path).unwrap();
    let set = GgufSet::new(vec![Gguf::parse(&bytes).unwrap()]).unwrap();
    let options = LoadOptions::default();
    Arc::new(Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap())
}

pub(crate) fn on_processors(
    model: &Arc<Model>,
    kv: KvType,
    (pages, limits): (usize, BatchLimits),
    pool: Arc<dyn Pool + Send>,
) -> Box<dyn Executor> {
    let layout = PageLayout::new(model.config(), kv);
    let storage = PageStorage::new(layout, pages * PAGE, 0, &SystemMemory).unwrap();
    let (model, kernels) = (Arc::clone(model), Kernels::detect());
    Box::new(CpuExecutor::new(model, kernels, pool, storage, limits))
}

/// A sequence of numbers that looks random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Sequences on one executor.
pub(crate) struct Side {
    pub(crate) executor: Box<dyn Executor>,
    pub(crate) table: PageTable,
    pub(crate) sequences: Vec<Sequence>,
}

impl Side {
    pub(crate) fn new(executor: Box<dyn Executor>, sequences: usize) -> Self {
        Self {
            table: executor.page_table(),
            executor,
            sequences: (0..sequences).map(|_| Sequence::default()).collect(),
        }
    }

    /// Continues each sequence with its tokens.
    pub(crate) fn forward(&mut self, tokens: &[Vec<u32>], output: Output) -> (Vec<f32>, Vec<f32>) {
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
                embedded: &[],
            })
            .collect();
        let outputs = self.executor.forward(&self.table, &mut batch).unwrap();
        (outputs.logits.to_vec(), outputs.states.to_vec())
    }
}

pub(crate) fn assert_same(name: &str, what: &str, ours: &[f32], theirs: &[f32]) {
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
pub(crate) fn compare(name: &str, model: &Arc<Model>, sides: &mut [Side; 2], steps: &[[usize; 3]]) {
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

/// Tokens of three sequences in each batch.
pub(crate) const STEPS: [[usize; 3]; 5] =
    [[20, 3, 1], [1, 17, 30], [1, 1, 1], [0, 0, 1], [9, 0, 1]];
