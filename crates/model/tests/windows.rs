//! What layers with windows are past can be given back, and nobody can tell.

use crate::running::{Runner, read};
use std::path::Path;
use std::sync::Arc;
use strata_kernels::Kernels;
use strata_model::{
    BatchError, BatchLimits, CpuExecutor, Executor, KvType, LoadOptions, Model, Output, PAGE,
    PageId, PageLayout, PageStorage, PageTable, Reach, Sequence, Span,
};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// Windows of 8 in six layers of seven, in two of three, and in all.
const FILES: [&str; 3] = ["gemma3.gguf", "gemma2.gguf", "mistral-window.gguf"];

fn with_model(file: &str, test: impl FnOnce(Arc<Model>)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bytes = read(&folder.join(file));
    let set = GgufSet::new(vec![Gguf::parse(&bytes).unwrap()]).unwrap();
    let options = LoadOptions::default();
    let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap();
    test(Arc::new(model));
}

fn runner<'a>(model: &'a Model, pages: usize) -> Runner<'a> {
    let kernels = Kernels::detect();
    Runner::new(model, kernels, &Inline, KvType::F16, pages * PAGE)
}

/// Gives back what a sequence no longer sees.
fn forget(runner: &mut Runner<'_>) {
    let first = (runner.sequence.len() + 1).saturating_sub(runner.kv.layout().window().unwrap());
    runner.kv.forget_before(&mut runner.sequence, first);
}

#[test]
fn a_text_that_gives_back_what_it_is_past_has_the_same_logits() {
    let tokens: Vec<u32> = (0..12 * PAGE as u32).map(|i| i * 7 % 40).collect();
    for file in FILES {
        with_model(file, |model| {
            let mut whole = runner(&model, 12);
            let mut spare = runner(&model, 12);
            let part = spare.kv.layout().part_bytes(Reach::Window);
            assert!(part > 0);
            for (step, chunk) in tokens.chunks(45).enumerate() {
                let expected = whole.feed(chunk, Output::AllLogits);
                assert_eq!(spare.feed(chunk, Output::AllLogits), expected, "{file}");
                forget(&mut spare);
                let past = (spare.sequence.len() + 1 - 8) / PAGE;
                assert_eq!(spare.sequence.forgotten(), past);
                let more = spare.kv.free_bytes() - whole.kv.free_bytes();
                assert_eq!(more, past * part, "{file}, step {step}");
                // What was given back is written over by another text.
                let mut other = core::mem::take(&mut spare.sequence);
                spare.feed(
                    &tokens[..PAGE.min(spare.kv.free_pages() * PAGE)],
                    Output::None,
                );
                core::mem::swap(&mut other, &mut spare.sequence);
                spare.kv.truncate(&mut other, 0);
            }
            spare.kv.truncate(&mut spare.sequence, 0);
            assert_eq!(spare.kv.free_pages(), 12, "{file}");
        });
    }
}

#[test]
fn forks_share_what_is_left_and_what_is_gone_is_not_read() {
    let tokens: Vec<u32> = (0..200).map(|i| i * 11 % 40).collect();
    for file in FILES {
        with_model(file, |model| {
            let mut whole = runner(&model, 20);
            whole.feed(&tokens[..150], Output::None);
            let mut spare = runner(&model, 20);
            spare.feed(&tokens[..150], Output::None);
            forget(&mut spare);
            let fork = spare.kv.fork(&spare.sequence, 150).unwrap();
            assert_eq!(fork.forgotten(), spare.sequence.forgotten());
            let expected = whole.feed(&tokens[150..], Output::AllLogits);
            for mut sequence in [core::mem::take(&mut spare.sequence), fork] {
                core::mem::swap(&mut spare.sequence, &mut sequence);
                assert_eq!(spare.feed(&tokens[150..], Output::AllLogits), expected);
                core::mem::swap(&mut spare.sequence, &mut sequence);
                // Back to where a window begins before what is held, as a whole sequence or as a fork.
                let mut short = spare.kv.fork(&sequence, 100).unwrap();
                sequence.rewind(130);
                for sequence in [&mut sequence, &mut short] {
                    spare.kv.reserve(sequence, 1).unwrap();
                    let refused = refusal(&mut spare, sequence);
                    assert!(matches!(refused, BatchError::Forgotten { held: 128, .. }));
                }
                spare.kv.truncate(&mut short, 0);
                spare.kv.truncate(&mut sequence, 0);
            }
            assert_eq!(spare.kv.free_pages(), 20, "{file}");
        });
    }
}

fn refusal(runner: &mut Runner<'_>, sequence: &mut Sequence) -> BatchError {
    let span = Span {
        sequence,
        tokens: &[1],
        output: Output::LastLogits,
        adapter: None,
        embedded: &[],
    };
    let (kv, work) = (&mut runner.kv, &mut runner.work);
    let computed = runner.model.forward(&runner.compute, kv, work, &mut [span]);
    computed.err().unwrap()
}

/// One sequence on an executor.
struct Executed {
    executor: CpuExecutor,
    table: PageTable,
    sequence: Sequence,
}

impl Executed {
    fn new(model: &Arc<Model>, pages: usize) -> Self {
        let layout = PageLayout::new(model.config(), KvType::F16);
        let storage = PageStorage::new(layout, pages * PAGE, 0, &SystemMemory).unwrap();
        let limits = BatchLimits {
            tokens: pages * PAGE,
            logits: 1,
        };
        let kernels = Kernels::detect();
        let executor = CpuExecutor::new(
            Arc::clone(model),
            kernels,
            Arc::new(Inline),
            storage,
            limits,
        );
        Self {
            table: executor.page_table(),
            executor,
            sequence: Sequence::default(),
        }
    }

    /// The last of some tokens' logits.
    fn feed(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.table
            .reserve(&mut self.sequence, tokens.len())
            .unwrap();
        let span = Span {
            sequence: &mut self.sequence,
            tokens,
            output: Output::LastLogits,
            adapter: None,
            embedded: &[],
        };
        let outputs = self.executor.forward(&self.table, &mut [span]);
        outputs.unwrap().logits.to_vec()
    }
}

#[test]
fn a_page_comes_back_as_it_was_written_down() {
    with_model("gemma3.gguf", |model| {
        let tokens: Vec<u32> = (0..3 * PAGE as u32).map(|i| i * 5 % 40).collect();
        let mut first = Executed::new(&model, 6);
        first.feed(&tokens);
        let expected = first.feed(&[3]);
        let mut other = Executed::new(&model, 8);
        // Its pages have other numbers there.
        let taken = other.table.take_page().unwrap();
        let pages: Vec<PageId> = first.sequence.pages()[..3]
            .iter()
            .map(|&page| {
                let mut bytes = Vec::new();
                first.executor.read_page(&first.table, page, &mut bytes);
                assert_eq!(bytes.len(), first.table.layout().page_bytes());
                let page = other.table.take_page().unwrap();
                other.executor.write_page(&other.table, page, &bytes);
                page
            })
            .collect();
        assert!(!pages.contains(&taken) && pages != first.sequence.pages()[..3]);
        let (sequence, copy) = other.table.adopt(&pages, 3 * PAGE, 0).unwrap();
        assert_eq!(copy, None, "whole pages are shared");
        other.sequence = sequence;
        assert_eq!(other.feed(&[3]), expected);
    });
}
