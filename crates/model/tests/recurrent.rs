//! A recurrent state: the same bits however a sequence is cut, batched and computed, and snapshots that can be restored.

use crate::running::read;
use std::path::Path;
use std::sync::Arc;
use strata_host::ThreadPool;
use strata_kernels::{Isa, Kernels};
use strata_model::{
    BatchError, BatchLimits, CpuExecutor, Executor, KvPages, KvType, LoadOptions, Model, Output,
    PageLayout, PageStorage, PageTable, Sequence, Span,
};
use strata_platform::{Inline, Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// Every kind of recurrence, alone, with attention, and beside it.
const MODELS: [&str; 9] = [
    "lfm2",
    "mamba",
    "mamba2",
    "granitehybrid",
    "falcon-h1",
    "nemotron_h",
    "qwen35",
    "rwkv6",
    "rwkv7",
];

fn model(name: &str) -> Arc<Model> {
    let path = format!("tests/golden/{name}.gguf");
    let bytes = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    let set = GgufSet::new(vec![Gguf::parse(&bytes).unwrap()]).unwrap();
    let options = LoadOptions::default();
    let model = Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {});
    Arc::new(model.unwrap())
}

fn prompt(seed: u32, len: usize) -> Vec<u32> {
    let token = |i: u32| (i + 1 + seed * 977).wrapping_mul(2_654_435_761) % 48;
    (0..len as u32).map(token).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    assert!(logits.iter().all(|logit| logit.is_finite()));
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// An executor and its bookkeeping.
struct Machine {
    executor: CpuExecutor,
    table: PageTable,
}

impl Machine {
    fn new(model: &Arc<Model>) -> Self {
        Self::with(model, Kernels::detect(), Arc::new(Inline))
    }

    fn with(model: &Arc<Model>, kernels: &'static Kernels, pool: Arc<dyn Pool + Send>) -> Self {
        let layout = PageLayout::new(model.config(), KvType::F16);
        let storage = PageStorage::new(layout, 1024, 8, &SystemMemory).unwrap();
        let limits = BatchLimits {
            tokens: 128,
            logits: 128,
        };
        let executor = CpuExecutor::new(model.clone(), kernels, pool, storage, limits);
        let table = executor.page_table();
        Self { executor, table }
    }

    fn feed(&mut self, sequence: &mut Sequence, tokens: &[u32], output: Output) -> Vec<u32> {
        self.table.reserve(sequence, tokens.len()).unwrap();
        let span = Span {
            sequence,
            tokens,
            output,
            adapter: None,
            embedded: &[],
        };
        let outputs = self.executor.forward(&self.table, &mut [span]).unwrap();
        bits(outputs.logits)
    }

    fn state(&self, sequence: &Sequence) -> Vec<u8> {
        let mut bytes = Vec::new();
        let state = sequence.state().unwrap();
        self.executor.read_state(state, &mut bytes);
        bytes
    }
}

#[test]
fn chunks_of_any_length_leave_the_same_state_and_logits() {
    let tokens = prompt(1, 70);
    for name in MODELS {
        let model = model(name);
        let run = |chunk: usize| {
            let (mut machine, mut sequence) = (Machine::new(&model), Sequence::default());
            let logits: Vec<u32> = tokens
                .chunks(chunk)
                .flat_map(|chunk| machine.feed(&mut sequence, chunk, Output::AllLogits))
                .collect();
            (logits, machine.state(&sequence))
        };
        let whole = run(tokens.len());
        for chunk in [1, 2, 3, 4, 7, 32] {
            assert!(run(chunk) == whole, "{name}, chunks of {chunk}");
        }
    }
}

#[test]
fn layers_have_pages_or_states_or_both() {
    let sizes = |name| {
        let layout = PageLayout::new(model(name).config(), KvType::F16);
        (layout.state_bytes(), layout.page_bytes())
    };
    // Three convolutions over 3 positions of 32 channels, and two layers of pages.
    assert_eq!(sizes("lfm2"), (3 * 2 * 32 * 4, 2 * 2 * 32 * 16 * 2));
    // Two convolutions over 4 positions of 64 channels, and 16 numbers for each channel.
    assert_eq!(sizes("mamba"), (2 * (3 * 64 + 64 * 16) * 4, 0));
    // One of 64 channels and what goes into the states and comes out, and a layer of pages.
    let state = (3 * (64 + 2 * 16) + 64 * 16) * 4;
    assert_eq!(sizes("granitehybrid"), (state, 2 * 2 * 32 * 8 * 2));
    // Four states of 8 by 8.
    let state = (3 * 64 + 4 * 8 * 8) * 4;
    assert_eq!(sizes("qwen35"), (state, 2 * 2 * 32 * 8 * 2));
    // Two layers of both.
    let state = 2 * (3 * (32 + 2 * 16) + 32 * 8) * 4;
    assert_eq!(sizes("falcon-h1"), (state, 2 * 2 * 2 * 32 * 8 * 2));
}

#[test]
fn threads_and_instruction_sets_give_the_same_logits() {
    MODELS.into_iter().for_each(assert_same_everywhere);
}

fn assert_same_everywhere(name: &str) {
    let model = model(name);
    let tokens = prompt(2, 90);
    let run = |kernels, pool: Arc<dyn Pool + Send>| {
        let mut machine = Machine::with(&model, kernels, pool);
        let mut sequence = Sequence::default();
        let mut logits = machine.feed(&mut sequence, &tokens, Output::AllLogits);
        logits.extend(machine.feed(&mut sequence, &[5], Output::LastLogits));
        logits
    };
    let scalar = Kernels::for_isa(Isa::Scalar).unwrap();
    let expected = run(scalar, Arc::new(Inline));
    for isa in Isa::ALL {
        let Some(kernels) = Kernels::for_isa(*isa) else {
            continue;
        };
        for threads in [1, 2, 3] {
            let pool = Arc::new(ThreadPool::new(Some(threads)).unwrap());
            let logits = run(kernels, pool);
            assert!(
                logits == expected,
                "{name}: {} on {threads} threads",
                isa.name()
            );
        }
    }
}

#[test]
fn sequences_in_a_batch_get_what_they_get_alone() {
    MODELS.into_iter().for_each(assert_same_in_a_batch);
}

fn assert_same_in_a_batch(name: &str) {
    let model = model(name);
    let prompts: Vec<Vec<u32>> = (0..4)
        .map(|i| prompt(i, [1, 2, 3, 40][i as usize]))
        .collect();
    let alone = prompts.iter().map(|tokens| {
        let (mut machine, mut sequence) = (Machine::new(&model), Sequence::default());
        let mut logits = machine.feed(&mut sequence, tokens, Output::LastLogits);
        logits.extend(machine.feed(&mut sequence, &[9, 10], Output::AllLogits));
        logits
    });

    let mut machine = Machine::new(&model);
    let mut sequences: [Sequence; 4] = Default::default();
    let mut empty = Sequence::default();
    machine.table.reserve(&mut empty, 1).unwrap();
    let mut batch = |spans: Vec<(&[u32], Output)>| {
        for (sequence, (tokens, _)) in sequences.iter_mut().zip(&spans) {
            machine.table.reserve(sequence, tokens.len()).unwrap();
        }
        let span = |sequence, (tokens, output)| Span {
            sequence,
            tokens,
            output,
            adapter: None,
            embedded: &[],
        };
        // A span without tokens changes nothing.
        let none = span(&mut empty, (&[][..], Output::None));
        let spans = sequences.iter_mut().zip(spans);
        let mut all: Vec<Span<'_>> = [none]
            .into_iter()
            .chain(spans.map(|(s, t)| span(s, t)))
            .collect();
        let outputs = machine.executor.forward(&machine.table, &mut all).unwrap();
        bits(outputs.logits)
    };
    let first = batch(
        prompts
            .iter()
            .map(|p| (&p[..], Output::LastLogits))
            .collect(),
    );
    let second = batch(vec![(&[9, 10], Output::AllLogits); 4]);
    for (i, alone) in alone.enumerate() {
        assert!(
            first[i * 48..][..48] == alone[..48],
            "the prompt of sequence {i}"
        );
        assert!(
            second[i * 96..][..96] == alone[48..],
            "what follows in sequence {i}"
        );
    }
}

#[test]
fn a_restored_state_goes_on_as_it_did() {
    MODELS.into_iter().for_each(assert_restored);
}

fn assert_restored(name: &str) {
    let model = model(name);
    let (mut machine, mut sequence) = (Machine::new(&model), Sequence::default());
    machine.feed(&mut sequence, &prompt(3, 40), Output::None);
    let (len, state) = (sequence.len(), sequence.state().unwrap());
    let bytes = machine.state(&sequence);
    let snapshot = machine.table.take_state().unwrap();
    machine.executor.copy_state(state, snapshot);

    let expected = machine.feed(&mut sequence, &[7, 8, 9], Output::AllLogits);
    assert!(machine.state(&sequence) != bytes);
    machine.executor.copy_state(snapshot, state);
    sequence.restored(len);
    assert!(machine.state(&sequence) == bytes);
    assert!(machine.feed(&mut sequence, &[7, 8, 9], Output::AllLogits) == expected);
    // And from bytes, as a session has them.
    machine.executor.write_state(state, &bytes);
    sequence.restored(len);
    assert!(machine.feed(&mut sequence, &[7, 8, 9], Output::AllLogits) == expected);
    machine.table.release_state(snapshot);
}

#[test]
fn a_fork_goes_on_as_the_original_would() {
    MODELS.into_iter().for_each(assert_forked);
}

fn assert_forked(name: &str) {
    let model = model(name);
    let mut kv = KvPages::new(model.config(), KvType::F16, 512, &SystemMemory).unwrap();
    let compute = strata_model::Compute {
        kernels: Kernels::detect(),
        pool: &Inline,
    };
    let limits = BatchLimits {
        tokens: 64,
        logits: 8,
    };
    let mut work = strata_model::Workspace::new(&model, limits, 1);
    let mut feed = |kv: &mut KvPages, sequence: &mut Sequence, tokens: &[u32]| {
        kv.reserve(sequence, tokens.len()).unwrap();
        let span = Span {
            sequence,
            tokens,
            output: Output::LastLogits,
            adapter: None,
            embedded: &[],
        };
        bits(
            model
                .forward(&compute, kv, &mut work, &mut [span])
                .unwrap()
                .logits,
        )
    };
    let mut original = Sequence::default();
    feed(&mut kv, &mut original, &prompt(4, 45));
    let mut fork = kv.fork(&original, 45).unwrap();
    assert_ne!(original.state(), fork.state());
    let expected = feed(&mut kv, &mut original, &[1, 2, 3]);
    assert!(feed(&mut kv, &mut fork, &[1, 2, 3]) == expected);
}

#[test]
fn a_slot_that_was_used_before_begins_empty() {
    MODELS.into_iter().for_each(assert_empty_slot);
}

fn assert_empty_slot(name: &str) {
    let model = model(name);
    let (mut machine, mut sequence) = (Machine::new(&model), Sequence::default());
    let expected = machine.feed(&mut sequence, &[4, 5], Output::AllLogits);
    machine.feed(&mut sequence, &prompt(5, 20), Output::None);
    let used = sequence.state();
    machine.table.truncate(&mut sequence, 0);
    let mut next = Sequence::default();
    assert!(machine.feed(&mut next, &[4, 5], Output::AllLogits) == expected);
    assert_eq!(next.state(), used);
}

#[test]
fn a_sequence_without_a_state_is_refused() {
    let (lfm2, llama) = (model("lfm2"), model("llama"));
    let (mut machine, mut other) = (Machine::new(&lfm2), Machine::new(&llama));
    let mut sequence = Sequence::default();
    other.table.reserve(&mut sequence, 1).unwrap();
    let span = Span {
        sequence: &mut sequence,
        tokens: &[1],
        output: Output::None,
        adapter: None,
        embedded: &[],
    };
    let result = machine.executor.forward(&machine.table, &mut [span]);
    assert_eq!(result.err(), Some(BatchError::State));
}
