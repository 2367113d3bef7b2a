//! Guessing tokens ahead: the flags, the draft model, and what both take.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use std::path::PathBuf;
use strata::load::Machine;
use strata::load::ModelFile;
use strata::load::Needs;
use strata::load::{CheckedModel, LoadedModel, TokenizerUse};
use strata_engine::{Engine, EngineOptions, Speculation};
use strata_model::{BatchLimits, KvType, PageStorage, Placement};

/// Guesses at a time where no number is given.
const GUESSES: u8 = 8;

/// Tokens guessed ahead and checked together. The answer stays the same, only sooner.
#[derive(clap::Args)]
#[command(next_help_heading = "Guessing ahead (the answer stays the same)")]
pub(crate) struct SpeculationArguments {
    /// Guess up to N tokens ahead from the text so far: fast where an answer repeats its prompt [N: 8]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "8", value_parser = clap::value_parser!(u8).range(1..=64))]
    speculate: Option<u8>,
    /// Guess with this smaller model of the same vocabulary instead
    #[arg(long, value_name = "FILE")]
    pub(crate) draft: Option<PathBuf>,
}

impl SpeculationArguments {
    pub(super) fn guesses(&self) -> usize {
        let default = if self.draft.is_some() { GUESSES } else { 0 };
        self.speculate.unwrap_or(default).into()
    }

    pub(crate) fn speculation(&self) -> Speculation {
        let max_draft = self.guesses();
        match (max_draft, &self.draft) {
            (0, _) => Speculation::Off,
            (_, None) => Speculation::PromptLookup { max_draft },
            (_, Some(_)) => Speculation::DraftModel { max_draft },
        }
    }

    /// What one conversation takes.
    pub(crate) fn needs(
        &self,
        checked: &CheckedModel<'_>,
        batch: usize,
        kv: KvType,
        workers: usize,
    ) -> Needs {
        let rows = self.guesses() + 1;
        Needs {
            positions: checked.context,
            kv,
            limits: BatchLimits {
                tokens: batch.max(rows),
                logits: rows,
            },
            workers,
            states: EngineOptions::default().states(),
            beside: 0,
        }
    }

    /// Loads the draft model, all of it into memory, and adds to `needs` what else it will take.
    pub(crate) fn load(
        &self,
        file: &ModelFile,
        needs: &mut Needs,
        arguments: &ComputeArguments,
        machine: &Machine,
    ) -> Result<(LoadedModel, PageStorage), Failure> {
        let checked = CheckedModel::new(file, Some(needs.positions), TokenizerUse::Required)?;
        let blueprint = &checked.blueprint;
        let workspace = blueprint.workspace_bytes(needs.limits, needs.workers, Placement::Packed);
        let draft = arguments.never_streamed().load(checked, *needs, machine)?;
        // Keys and values have no memory yet: nobody has touched them.
        needs.beside += (workspace + draft.1.bytes()) as u64;
        Ok(draft)
    }

    /// What the draft model would take in all, without loading it.
    pub(crate) fn draft_bytes(&self, needs: &Needs) -> Result<Option<u64>, Failure> {
        let Some(path) = &self.draft else {
            return Ok(None);
        };
        let file = ModelFile::open(path)?;
        let checked = CheckedModel::new(&file, Some(needs.positions), TokenizerUse::Required)?;
        let Needs {
            positions,
            kv,
            limits,
            workers,
            ..
        } = *needs;
        let blueprint = &checked.blueprint;
        let bytes = blueprint.packed_bytes()
            + blueprint.kv_bytes(kv, positions, needs.states)
            + blueprint.workspace_bytes(limits, workers, Placement::Packed);
        Ok(Some(bytes as u64))
    }

    /// The engine, with the draft model that was asked for.
    pub(crate) fn engine(
        &self,
        engine: Engine,
        draft: Option<(&LoadedModel, PageStorage)>,
        machine: &Machine,
    ) -> Result<Engine, Failure> {
        let Some((draft, storage)) = draft else {
            return Ok(engine);
        };
        let limits = BatchLimits {
            logits: engine.options().requests.max(1),
            ..engine.options().limits()
        };
        let executor = machine.executor(&draft.model, storage, limits);
        engine
            .with_draft_model(Box::new(executor), draft.tokenizer()?)
            .map_err(|error| {
                Failure::new(Kind::Usage, error)
                    .hint("--draft needs a smaller model of the same family")
            })
    }
}
