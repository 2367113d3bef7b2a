//! The plan against what is taken.

use super::*;
use crate::blueprint::{Blueprint, LoadOptions, Placement};
use strata_weights::{Gguf, GgufSet};

impl Workspace {
    fn measured(&self) -> usize {
        let floats = [
            &self.x,
            &self.normed,
            &self.branch,
            &self.projected,
            &self.mixed,
            &self.states,
            &self.spare,
            &self.second,
            &self.first_values,
            &self.partials,
            &self.ffn,
            &self.last,
            &self.logits,
            &self.experts.scores,
            &self.experts.hidden,
            &self.experts.results,
            &self.encoder.scores,
            &self.nextn.normed,
            &self.nextn.joined,
        ];
        floats
            .into_iter()
            .chain(&self.rotations)
            .map(|buffer| size_of_val(&buffer[..]))
            .sum::<usize>()
            + self.acts.measured()
            + self.experts.inputs.measured()
            + self.experts.encoded.measured()
            + size_of_val(&self.positions[..])
            + self.encoder.starts.capacity() * size_of::<u32>()
            + self.encoder.whole.measured()
            + size_of_val(&self.experts.chosen[..])
            + size_of_val(&self.experts.order[..])
            + size_of_val(&self.experts.ranks[..])
            + self.stores.measured()
            + self.row.len()
            + self.nextn.row.len()
    }
}

#[test]
fn the_plan_is_what_is_taken() {
    let files = [
        &include_bytes!("../../tests/golden/llama.gguf")[..],
        include_bytes!("../../tests/golden/gemma3.gguf"),
        include_bytes!("../../tests/golden/qwen2moe.gguf"),
        include_bytes!("../../tests/golden/lfm2.gguf"),
        include_bytes!("../../tests/golden_states/xlm-roberta-rank.gguf"),
    ];
    for file in files {
        let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
        let blueprint = Blueprint::new(&set, LoadOptions::default()).unwrap();
        let limits = BatchLimits {
            tokens: 48,
            logits: 5,
        };
        for (placement, workers) in [(Placement::Packed, 2), (Placement::Within(0), 3)] {
            let planned = blueprint.workspace_bytes(limits, workers, placement);
            let model = Blueprint::new(&set, LoadOptions::default())
                .unwrap()
                .build(
                    placement,
                    &strata_platform::SystemMemory,
                    alloc::sync::Arc::new(strata_platform::Resident(file)),
                    &strata_platform::Inline,
                    &mut |_, _| {},
                )
                .unwrap();
            assert_eq!(Workspace::new(&model, limits, workers).measured(), planned);
        }
    }
}
