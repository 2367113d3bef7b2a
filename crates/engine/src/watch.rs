//! Looking on while the engine works: what was in the batch of a step, and which pages are whose.

use crate::engine::Engine;
use crate::request::RequestId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::time::Duration;
use strata_model::{PAGE, Reach};

/// Someone who is shown each step, until they have seen enough.
pub type StepWatcher = Box<dyn FnMut(&StepReport) -> ControlFlow<()> + Send>;

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// The number of the step, from 1.
    pub step: u64,
    /// How long it took; nothing without a clock.
    pub time: Duration,
    /// The sequences that were in its batch, in the order of their rows.
    pub sequences: Vec<StepSequence>,
    /// Pages that nobody uses.
    pub free_pages: usize,
    /// Pages in all.
    pub pages: usize,
}

/// One sequence's part of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSequence {
    /// The request that it belongs to.
    pub request: RequestId,
    /// Which of its choices.
    pub choice: usize,
    /// Tokens of it in the batch.
    pub tokens: usize,
    /// Tokens that were drafted after them.
    pub drafts: usize,
    /// Whether they are tokens of the prompt.
    pub prefill: bool,
    /// Positions that are computed now.
    pub computed: usize,
    /// The pages that they are in, in order.
    pub pages: Vec<StepPage>,
}

/// A page of a sequence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StepPage {
    /// Its number.
    pub page: usize,
    /// How many of its positions the sequence has computed.
    pub filled: usize,
    /// Who uses it: sequences, and the prefix tree.
    pub users: usize,
}

impl Engine {
    /// Shows someone each step from now on, until they break off. Without anyone, a step costs one comparison more.
    pub fn watch(&mut self, watcher: StepWatcher) {
        self.watchers.push(watcher);
    }

    /// Tells those who look on what the step did.
    pub(crate) fn show_step(&mut self, time: Duration) {
        if self.watchers.is_empty() {
            return;
        }
        let table = self.cache.table();
        let in_batch = self.active.iter().filter(|active| active.in_batch > 0);
        let sequences = in_batch.map(|active| {
            let computed = active.held.sequence.len();
            let pages = active.held.sequence.pages().iter().enumerate();
            let pages = pages.map(|(index, &page)| StepPage {
                page: page.index(),
                filled: computed.saturating_sub(index * PAGE).min(PAGE),
                users: table.users(page, Reach::Everything),
            });
            StepSequence {
                request: active.request,
                choice: active.choice,
                tokens: active.in_batch,
                drafts: active.draft.len(),
                prefill: computed <= active.prompt,
                computed,
                pages: pages.collect(),
            }
        });
        let report = StepReport {
            step: self.counters.steps,
            time,
            sequences: sequences.collect(),
            free_pages: table.free_pages(),
            pages: table.pages(),
        };
        self.watchers
            .retain_mut(|watcher| watcher(&report).is_continue());
    }
}
