//! What a model is loaded for, and the memory that takes beside its weights.

use strata_engine::EngineOptions;
use strata_model::{BatchLimits, Blueprint, KvType, Placement};

/// What a model is loaded for.
#[derive(Copy, Clone, Debug)]
pub struct Needs {
    /// Whose keys and values are kept.
    pub positions: usize,
    /// How keys and values are stored.
    pub kv: KvType,
    /// The largest batch.
    pub limits: BatchLimits,
    /// How many compute.
    pub workers: usize,
    /// Recurrent states that are kept, where the model has any.
    pub states: usize,
    /// Bytes that are not asked for yet and belong to something else.
    pub beside: u64,
}

impl Needs {
    /// What an engine with these options needs. Requests share the context's pages: two full ones fit, or many short ones.
    pub fn of_engine(options: &EngineOptions, kv: KvType, workers: usize) -> Self {
        Self {
            positions: options.context.saturating_mul(options.requests.clamp(1, 2)),
            kv,
            limits: options.limits(),
            workers,
            states: options.states(),
            beside: 0,
        }
    }

    /// Bytes of keys, values and recurrent states.
    pub fn kv_bytes(&self, blueprint: &Blueprint<'_>) -> u64 {
        blueprint.kv_bytes(self.kv, self.positions, self.states) as u64
    }

    /// Bytes of activations, and of what belongs to something else.
    pub fn workspace_bytes(&self, blueprint: &Blueprint<'_>, placement: Placement) -> u64 {
        let bytes = blueprint.workspace_bytes(self.limits, self.workers, placement) as u64;
        bytes + self.beside
    }

    /// Everything with all weights in memory, in bytes.
    pub fn total_bytes(&self, blueprint: &Blueprint<'_>) -> u64 {
        let weights = blueprint.packed_bytes() as u64;
        let rest = weights + self.workspace_bytes(blueprint, Placement::Packed);
        rest.saturating_add(self.kv_bytes(blueprint))
    }

    /// Bytes of weights that fit into `bytes` beside all else when the others stay in the file.
    pub fn room(&self, blueprint: &Blueprint<'_>, bytes: u64) -> Option<u64> {
        let rest = self.workspace_bytes(blueprint, Placement::Within(0));
        bytes.checked_sub(rest.saturating_add(self.kv_bytes(blueprint)))
    }
}
