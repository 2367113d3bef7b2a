//! `forward` allocates nothing once it has run.

mod counting;
mod running;

use counting::allocations;
use running::{Runner, read};
use std::path::Path;
use strata_host::ThreadPool;
use strata_kernels::Kernels;
use strata_model::{KvType, LoadOptions, Model, Output, Span};
use strata_platform::{Pool, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// The only test in its program: others would allocate beside it.
#[test]
fn a_pass_allocates_nothing_after_the_first() {
    let pool = ThreadPool::new(Some(2)).unwrap();
    for file in [
        "llama.gguf",
        "qwen2moe.gguf",
        "gemma3.gguf",
        "phi3.gguf",
        "lfm2.gguf",
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let bytes = read(&folder.join(file));
        let set = GgufSet::new(vec![Gguf::parse(&bytes).unwrap()]).unwrap();
        let options = LoadOptions::default();
        let model = Model::load(&set, options, &SystemMemory, &pool, &mut |_, _| {}).unwrap();
        let mut runner = Runner::new(&model, Kernels::detect(), &pool, KvType::F16, 512);
        // Long enough that workers are woken and chunks joined.
        let tokens: Vec<u32> = (0..300).map(|i| i * 7 % 40).collect();
        forward(&mut runner, &tokens);
        forward(&mut runner, &tokens[..1]);
        for step in [1, 1, 40, 3, 1] {
            let allocations = forward(&mut runner, &tokens[..step]);
            assert_eq!(allocations, 0, "{file}, {step} tokens");
        }
    }
    assert_eq!(pool.workers(), 2);
}

/// How many allocations a batch takes, its pages aside.
fn forward(runner: &mut Runner<'_>, tokens: &[u32]) -> usize {
    runner
        .kv
        .reserve(&mut runner.sequence, tokens.len())
        .unwrap();
    let span = Span {
        sequence: &mut runner.sequence,
        tokens,
        output: Output::LastLogits,
        adapter: None,
        embedded: &[],
    };
    let before = allocations();
    let (kv, work) = (&mut runner.kv, &mut runner.work);
    let outputs = runner
        .model
        .forward(&runner.compute, kv, work, &mut [span])
        .unwrap();
    assert!(!outputs.logits.is_empty());
    allocations() - before
}
