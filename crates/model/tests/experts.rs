//! Experts: each is read once in a step, for all tokens that chose it.

use crate::running::{Runner, read};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use strata_kernels::Kernels;
use strata_model::{Blueprint, KvType, LoadOptions, Output, Placement};
use strata_platform::{Backing, Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

/// A file that counts how often each of its matrices was read.
struct CountedFile {
    bytes: &'static [u8],
    reads: Mutex<BTreeMap<usize, usize>>,
}

impl Backing for CountedFile {
    fn part(&self, index: usize) -> Option<&[u8]> {
        (index == 0).then_some(self.bytes)
    }

    fn will_need(&self, _: &[u8]) {}

    fn done_with(&self, bytes: &[u8]) {
        let mut reads = self.reads.lock().unwrap();
        *reads.entry(bytes.as_ptr().addr()).or_default() += 1;
    }
}

#[test]
fn a_step_reads_each_chosen_expert_once_for_all_its_tokens() {
    for name in ["mixtral", "qwen3moe", "deepseek2", "gpt-oss"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        // The model leaves its weights in the file, so the file stays.
        let bytes: &'static [u8] = read(&folder.join(format!("{name}.gguf"))).leak();
        let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
        let file = Arc::new(CountedFile {
            bytes,
            reads: Mutex::default(),
        });
        let model = Blueprint::new(&set, LoadOptions::default())
            .unwrap()
            .build(
                Placement::Within(0),
                &SystemMemory,
                Arc::clone(&file) as Arc<dyn Backing>,
                &Inline,
                &mut |_, _| {},
            )
            .unwrap();
        let experts: Vec<_> = set
            .tensors()
            .iter()
            .filter(|tensor| tensor.name.ends_with("_exps.weight"))
            .map(|tensor| (tensor.data.as_ptr_range(), tensor.dims[2]))
            .collect();
        assert!(!experts.is_empty(), "{name} has experts");
        let reads = || {
            let reads = std::mem::take(&mut *file.reads.lock().unwrap());
            let read = reads.into_iter().filter(|&(at, _)| {
                let mut ranges = experts.iter();
                ranges.any(|(range, _)| (range.start.addr()..range.end.addr()).contains(&at))
            });
            read.map(|(_, count)| count).collect::<Vec<usize>>()
        };
        let mut runner = Runner::new(&model, Kernels::detect(), &Inline, KvType::F32, 640);
        let used = model.config().experts.unwrap().used;
        let vocabulary = model.config().vocabulary as u32;
        let tokens: Vec<u32> = (0..600).map(|i| i * 37 % vocabulary).collect();
        runner.feed(&tokens, Output::None);
        let many = reads();
        let all: u64 = experts.iter().map(|(_, count)| count).sum();
        // Hundreds of tokens choose nearly all of them.
        assert!(
            many.len() as u64 * 3 > all * 2,
            "{name}: {} of {all}",
            many.len()
        );
        assert!(many.iter().all(|&count| count == 1), "{name}: {many:?}");
        // A token reads those that it chose, and no others.
        runner.feed(&tokens[..1], Output::None);
        let one = reads();
        assert_eq!(one.len(), experts.len() * used, "{name}");
        assert!(one.iter().all(|&count| count == 1), "{name}: {one:?}");
    }
}
