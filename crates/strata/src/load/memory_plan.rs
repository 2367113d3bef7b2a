//! What a model takes, against what there is.

use super::checked_model::WeightChoice;
use super::needs::Needs;
use crate::error::{Error, ErrorKind};
use crate::options::Stream;
use crate::size::Size;
use std::path::Path;
use strata_host::{Bound, Budget, Usage};
use strata_model::{Blueprint, KvType, PAGE, Placement};

/// What the program takes beside what is planned: its code's data, stacks, the sampler, the terminal.
const PROGRAM: u64 = 12_000_000;

/// What each worker's stack takes of a limit on private memory.
const STACK: u64 = 2 << 20;

/// The memory that may be used in all.
#[derive(Copy, Clone)]
pub struct Limit {
    /// So many bytes.
    pub bytes: u64,
    /// What sets the limit.
    pub bound: Bound,
}

impl Limit {
    /// What this process can have.
    pub fn now() -> Self {
        let budget = Budget::now();
        let bytes = match budget.bound_by {
            // The plan counts what the program has by itself.
            Bound::PrivateMemory => budget.limit_bytes,
            _ => budget.available_bytes.saturating_add(anonymous()),
        };
        Self {
            bytes,
            bound: budget.bound_by,
        }
    }

    /// So many bytes.
    pub fn of(bytes: u64) -> Self {
        Self {
            bytes,
            bound: Bound::PrivateMemory,
        }
    }
}

/// What this process has in memory by now: tokenizers take the most.
fn anonymous() -> u64 {
    Usage::now().map_or(0, |usage| usage.anonymous_bytes)
}

/// What the program takes with so many workers, before it has read a file.
pub fn program_bytes(workers: usize) -> u64 {
    PROGRAM + workers as u64 * STACK
}

/// What a model takes, in bytes.
pub struct MemoryPlan<'b, 'f> {
    blueprint: &'b Blueprint<'f>,
    needs: Needs,
    /// Tokens of a sequence, of which the positions may hold several.
    context: usize,
    /// The weights.
    pub weights: u64,
    /// Keys, values and recurrent states.
    pub kv: u64,
    /// Activations, and what was said to be needed beside.
    pub workspace: u64,
    /// The program around them, with the tokenizer.
    pub program: u64,
    /// What may be used in all.
    pub limit: Limit,
}

impl<'b, 'f> MemoryPlan<'b, 'f> {
    /// Plans a model against a limit.
    pub fn new(blueprint: &'b Blueprint<'f>, needs: Needs, limit: Limit) -> Self {
        Self {
            blueprint,
            needs,
            context: needs.positions,
            weights: blueprint.packed_bytes() as u64,
            kv: needs.kv_bytes(blueprint),
            workspace: needs.workspace_bytes(blueprint, Placement::Packed),
            program: anonymous() + program_bytes(needs.workers),
            limit,
        }
    }

    /// The plan with [remedies](Self::remedies) for sequences of so many tokens, where the positions hold several.
    #[must_use]
    pub fn for_context(mut self, context: usize) -> Self {
        self.context = context;
        self
    }

    /// Everything together.
    pub fn total(&self) -> u64 {
        let model = self.needs.total_bytes(self.blueprint);
        model.saturating_add(self.program)
    }

    /// What the limit leaves beside it.
    pub fn spare(&self) -> u64 {
        self.limit.bytes.saturating_sub(self.total())
    }

    /// Whether the limit allows the whole model.
    pub fn fits(&self) -> bool {
        self.total() <= self.limit.bytes
    }

    /// Bytes of weights that fit beside all else when the others stay in the file.
    pub fn room(&self) -> Option<u64> {
        let left = self.limit.bytes.checked_sub(self.program)?;
        self.needs.room(self.blueprint, left)
    }

    /// About how many bytes are read from the file for each token, if the model can be streamed.
    pub fn streamed(&self) -> Option<u64> {
        Some(self.weights.saturating_sub(self.room()?))
    }

    /// Where the weights go; an error if there is not enough memory.
    pub fn place(&self, path: &Path, choice: WeightChoice) -> Result<Placement, Error> {
        let capped = choice.memory.is_some();
        let within = match choice.stream {
            Stream::Always => Some(0),
            Stream::Auto if capped && !self.fits() => self.room(),
            Stream::Auto | Stream::Never => None,
        };
        match within {
            Some(bytes) if self.room().is_some() => Ok(Placement::Within(bytes as usize)),
            None if self.fits() => Ok(Placement::Packed),
            _ => Err(self.refusal(path)),
        }
    }

    fn refusal(&self, path: &Path) -> Error {
        let sentence = format!(
            "{} takes {} (weights {}, keys and values of {} positions {}, activations {}, program {}) and {} leaves {} of memory",
            path.display(),
            Size(self.total()),
            Size(self.weights),
            self.needs.positions,
            Size(self.kv),
            Size(self.workspace),
            Size(self.program),
            self.limit.bound,
            Size(self.limit.bytes),
        );
        let hint = match self.remedies() {
            remedies if remedies.is_empty() => {
                "choose a smaller model or one with fewer bits a weight, or close other programs"
                    .into()
            }
            remedies => format!("what would fit: {}", remedies.join("; or ")),
        };
        Error::new(ErrorKind::OutOfMemory, sentence).with_hint(hint)
    }

    /// What would fit, as options of the command line, where this does not.
    pub fn remedies(&self) -> Vec<String> {
        let mut remedies = Vec::new();
        let rest = self.weights + self.workspace + self.program;
        let room = self.limit.bytes.saturating_sub(rest);
        let fitting = |kv| {
            let page = self.blueprint.kv_bytes(kv, PAGE, 0) as u64;
            let pages = room / page.max(1);
            pages.saturating_mul(PAGE as u64)
        };
        let wanted = self.needs.positions as u64;
        let context = |positions: u64| {
            let context = u128::from(positions.min(wanted)) * self.context as u128;
            context / u128::from(wanted.max(1))
        };
        match fitting(self.needs.kv) {
            0 => {}
            positions => remedies.push(format!("--ctx {}", context(positions))),
        }
        let q8 = self.blueprint.config().stores_kv(KvType::Q8_0);
        if self.needs.kv != KvType::Q8_0 && q8 {
            match fitting(KvType::Q8_0) {
                0 => {}
                positions if positions >= wanted => remedies.push("--kv q8_0".into()),
                positions => remedies.push(format!("--kv q8_0 --ctx {}", context(positions))),
            }
        }
        if let Some(read) = self.streamed() {
            let bytes = self.limit.bytes / 1_000_000;
            remedies.push(format!(
                "--memory {bytes}M --stream auto, which reads about {} from the file for each token",
                Size(read)
            ));
        }
        remedies
    }
}
