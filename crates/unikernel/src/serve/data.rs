//! What outlives a power cut: pages of the cache, and slots, as clients of llama-server know them.

#[cfg(test)]
mod tests;

use super::Server;
use super::models::Loaded;
use crate::storage::data::{DataError, DataStore};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::black_box;
use core::time::Duration;
use strata::slots::SlotText;
use strata::{Generation, LocalModel};
use strata_chat::{Fault, FaultKind, Prepared, SlotAction, SlotOutcome, Timings};
use strata_engine::{ClientId, ModelDigest};

/// A busy machine writes a page down after so many steps; an idle one writes all of them, one after the other.
const STEPS: u64 = 16;

/// There is one key, so all texts are one client's.
const OWNER: ClientId = ClientId(0);
/// When a client may ask again that found no room.
const LATER: Duration = Duration::from_secs(60);
/// Memory that saving a text takes beside what is saved, which is there twice.
const BESIDE: usize = 4 << 20;
/// What a saved text has beside its tokens and its pages, at most.
const HEAD: usize = 256;

impl Server {
    /// Puts a store behind the cache of the model that answers, whose digest this is.
    pub fn keep(&mut self, data: DataStore, model: [u8; 32]) {
        let store = Box::new(data.clone());
        self.models.map(|loaded| LocalModel {
            engine: loaded.engine.with_store(store, ModelDigest(model)),
            ..loaded
        });
        self.data = Some(data);
    }

    /// Writes a page of the cache down, if it is time to. Says whether there are more.
    pub(super) fn write_down(&mut self) -> bool {
        let Some(loaded) = self.models.loaded_mut() else {
            return false;
        };
        let engine = &mut loaded.model.engine;
        self.steps += 1;
        let now = engine.is_idle() || self.steps.is_multiple_of(STEPS);
        now && self.data.is_some() && engine.persist_some(1)
    }

    /// Saves, restores or erases a slot.
    pub(super) fn act_on_slot(
        &mut self,
        action: SlotAction,
        now: u64,
    ) -> Result<SlotOutcome, Fault> {
        let data = || {
            let problem = "this machine has no data partition, on which slots could be saved";
            let data = self.data.clone();
            data.ok_or_else(|| Fault::new(FaultKind::Unsupported, problem))
        };
        let Loaded { model, slots, .. } = self.models.answering("", now)?;
        let LocalModel { engine, facts, .. } = model;
        let (tokens, bytes) = match action {
            SlotAction::Erase { slot } => (slots.erase(engine, (slot, OWNER))?, 0),
            SlotAction::Save { slot, file } => {
                let data = data()?;
                let most = usize::try_from(data.longest_text()).unwrap_or(usize::MAX / 4);
                let most = most.saturating_sub(HEAD + 4 * facts.context);
                let (bytes, tokens) = slots.save(engine, (slot, OWNER), in_memory(most))?;
                data.save(&file, &bytes).map_err(refused)?;
                (tokens, bytes.len())
            }
            SlotAction::Restore { slot, file } => {
                let bytes = data()?.load(&file).ok_or_else(|| {
                    let problem = format_args!("there is no saved slot {file:?}");
                    Fault::new(FaultKind::NotFound, problem)
                })?;
                let tokens = slots.restore(engine, (slot, OWNER), &bytes)?;
                (tokens, bytes.len())
            }
        };
        let total = self.clock.now_ns().saturating_sub(now);
        Ok(SlotOutcome {
            tokens,
            bytes: bytes as u64,
            timings: Timings {
                total: Duration::from_nanos(total),
                ..Timings::default()
            },
        })
    }
}

impl Loaded {
    /// The engine has taken requests with these texts.
    pub(super) fn expect(&mut self, generation: &Generation, texts: Vec<Option<SlotText>>) {
        for (&id, text) in generation.ids().iter().zip(texts) {
            if let Some(text) = text {
                self.slots.expect(id, text);
            }
        }
    }

    /// A request is over, or nobody asks for its slot.
    pub(super) fn leave(&mut self, generation: &Generation) {
        for &id in generation.ids() {
            self.slots.end(id);
        }
    }
}

/// The texts of requests that go on.
pub(super) fn texts(prepared: &Prepared) -> Vec<Option<SlotText>> {
    let requests = prepared.requests.iter();
    requests.map(|one| SlotText::of(one, None)).collect()
}

/// As many of so many bytes as there is memory for.
fn in_memory(mut most: usize) -> usize {
    let there = |bytes| {
        let mut probe = Vec::<u8>::new();
        let there = probe.try_reserve_exact(bytes).is_ok();
        // Or nothing is allocated, because nothing is done with it.
        black_box(&probe);
        there
    };
    while most > 0 && !there(2 * most + BESIDE) {
        most /= 2;
    }
    most
}

fn refused(error: DataError) -> Fault {
    let kind = match error {
        DataError::TooLarge { .. } => FaultKind::TooLarge,
        DataError::Full { .. } => FaultKind::Unavailable { retry_after: LATER },
        _ => FaultKind::Internal,
    };
    Fault::new(kind, error)
}
