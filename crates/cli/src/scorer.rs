//! A sequence run through a model without an engine: texts are scored, not continued.

use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use strata::load::Machine;
use strata::load::Needs;
use strata::load::{CheckedModel, LoadedModel};
use strata_model::{
    BatchError, BatchLimits, CpuExecutor, EmbeddedRun, Executor, Observer, Output, PageStorage,
    PageTable, Sequence, Span,
};
use strata_platform::Pool;

/// Positions whose logits are computed together: a vocabulary's worth of floats each.
const LOGIT_ROWS: usize = 64;

/// One sequence and what computing it takes.
pub(crate) struct Scorer<'a> {
    executor: CpuExecutor,
    pages: PageTable,
    sequence: Sequence,
    observer: Option<&'a dyn Observer>,
}

/// What scoring sequences of `positions` positions takes.
pub(crate) fn needs(positions: usize, arguments: &ComputeArguments, machine: &Machine) -> Needs {
    let batch = usize::from(arguments.batch);
    Needs {
        positions,
        kv: arguments.kv.into(),
        limits: BatchLimits {
            tokens: batch.min(positions).max(1),
            logits: batch.min(LOGIT_ROWS),
        },
        workers: machine.pool.workers(),
        states: 1,
        beside: 0,
    }
}

/// Loads a model to score sequences of `positions` positions.
pub(crate) fn load(
    checked: CheckedModel<'_>,
    positions: usize,
    arguments: &ComputeArguments,
    machine: &Machine,
) -> Result<(LoadedModel, PageStorage, Needs), Failure> {
    let needs = needs(positions, arguments, machine);
    let (loaded, kv) = arguments.load(checked, needs, machine)?;
    Ok((loaded, kv, needs))
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(
        loaded: &LoadedModel,
        storage: PageStorage,
        needs: &Needs,
        machine: &Machine,
    ) -> Self {
        Self {
            pages: storage.table(),
            executor: machine.executor(&loaded.model, storage, needs.limits),
            sequence: Sequence::default(),
            observer: None,
        }
    }

    /// Shows someone what goes into each matrix from now on.
    pub(crate) fn observed_by(&mut self, observer: &'a dyn Observer) {
        self.observer = Some(observer);
    }

    /// Begins a new sequence.
    pub(crate) fn restart(&mut self) {
        self.truncate(0);
    }

    /// Keeps the first `positions` of the sequence.
    pub(crate) fn truncate(&mut self, positions: usize) {
        self.pages.truncate(&mut self.sequence, positions);
    }

    /// Continues the sequence with positions whose embeddings are given.
    pub(crate) fn feed_embedded(&mut self, run: &EmbeddedRun) -> Result<(), Failure> {
        let reserved = self.pages.reserve(&mut self.sequence, run.len);
        reserved.map_err(|error| Failure::new(Kind::Failed, error))?;
        let start = self.sequence.len();
        let runs = [EmbeddedRun {
            start,
            ..run.clone()
        }];
        // Positions that see each other are computed together.
        let step = if run.mutual {
            run.len
        } else {
            self.executor.limits().tokens
        };
        let tokens = vec![0; run.len];
        for tokens in tokens.chunks(step.max(1)) {
            let last = self.sequence.len() + tokens.len() == start + run.len;
            let span = Span {
                sequence: &mut self.sequence,
                tokens,
                output: if last {
                    Output::LastLogits
                } else {
                    Output::None
                },
                adapter: None,
                embedded: &runs,
            };
            let outputs = self.executor.forward(&self.pages, &mut [span]);
            outputs.map_err(refused)?;
        }
        Ok(())
    }

    /// Continues the sequence. `each` hears of every row of logits or states that was asked for, in order.
    pub(crate) fn feed(
        &mut self,
        tokens: &[u32],
        output: Output,
        each: &mut dyn FnMut(&[f32]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let reserved = self.pages.reserve(&mut self.sequence, tokens.len());
        reserved.map_err(|error| Failure::new(Kind::Failed, error))?;
        let limits = self.executor.limits();
        let step = match output {
            Output::AllLogits => limits.logits,
            Output::None | Output::LastLogits | Output::States => limits.tokens,
        };
        if let Some(source) = &self.executor.config().source
            && self.sequence.is_empty()
        {
            let end = tokens.iter().position(|&token| token == source.start);
            self.sequence.set_source(end.unwrap_or(0));
        }
        let mut rest = tokens;
        while !rest.is_empty() {
            // A source is not cut.
            let unread = self.sequence.source().saturating_sub(self.sequence.len());
            let (now, later) = rest.split_at(step.max(unread).min(rest.len()));
            rest = later;
            let span = Span {
                sequence: &mut self.sequence,
                tokens: now,
                output: match output {
                    Output::LastLogits if !rest.is_empty() => Output::None,
                    output => output,
                },
                adapter: None,
                embedded: &[],
            };
            let config = self.executor.config();
            let (vocabulary, width) = (config.vocabulary, config.width);
            let outputs = self
                .executor
                .forward_observed(&self.pages, &mut [span], self.observer);
            let outputs = outputs.map_err(refused)?;
            let logits = outputs.logits.chunks_exact(vocabulary);
            let states = outputs.states.chunks_exact(width);
            logits.chain(states).try_for_each(&mut *each)?;
        }
        Ok(())
    }
}

pub(crate) fn refused(error: BatchError) -> Failure {
    let kind = match error {
        BatchError::Token { .. } | BatchError::Position { .. } => Kind::Usage,
        _ => Kind::Failed,
    };
    Failure::new(kind, error)
}
