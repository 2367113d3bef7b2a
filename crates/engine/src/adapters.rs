//! The adapters that an engine has: each request names one, or none, and all run in one batch.

use crate::engine::Engine;
use crate::request::AdapterId;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use strata_model::{Adapted, Adapter};

/// An adapter was made for another model.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the adapter was made for a model of other shapes")]
pub struct AdapterMismatch;

/// The adapters, by their names. No name is given twice.
#[derive(Default)]
pub(crate) struct Adapters {
    known: BTreeMap<AdapterId, Entry>,
    next: u64,
}

struct Entry {
    adapter: Arc<Adapter>,
    scale: f32,
    /// Whether it goes as soon as nobody uses it.
    leaves: bool,
}

impl Adapters {
    /// Whether a request can have it.
    pub(crate) fn serves(&self, id: AdapterId) -> bool {
        self.known.get(&id).is_some_and(|entry| !entry.leaves)
    }

    /// It, for a batch.
    pub(crate) fn get(&self, id: Option<AdapterId>) -> Option<Adapted<'_>> {
        let entry = self.known.get(&id?)?;
        Some(Adapted {
            adapter: &entry.adapter,
            scale: entry.scale,
        })
    }
}

impl Engine {
    /// Takes an adapter, of which requests get `scale`: 1 is all of it. The same adapter can be there with several.
    pub fn add_adapter(
        &mut self,
        adapter: Arc<Adapter>,
        scale: f32,
    ) -> Result<AdapterId, AdapterMismatch> {
        if !self.executor().accepts(&adapter) || !scale.is_finite() {
            return Err(AdapterMismatch);
        }
        self.adapters.next += 1;
        let id = AdapterId(self.adapters.next);
        self.adapters.known.insert(
            id,
            Entry {
                adapter,
                scale,
                leaves: false,
            },
        );
        Ok(id)
    }

    /// Lets an adapter go: no new request can have it, and when those that have it are done it is dropped, with what
    /// was cached under it. Says whether there was one.
    pub fn remove_adapter(&mut self, id: AdapterId) -> bool {
        let Some(entry) = self.adapters.known.get_mut(&id) else {
            return false;
        };
        entry.leaves = true;
        self.drop_adapters();
        true
    }

    /// Drops adapters that are to go and that nobody uses.
    pub(crate) fn drop_adapters(&mut self) {
        let Self {
            adapters,
            active,
            cache,
            draft_model,
            ..
        } = self;
        adapters.known.retain(|&id, entry| {
            let used = |id| active.iter().any(|text| text.salt.adapter == Some(id));
            let stays = !entry.leaves || used(id);
            if !stays {
                cache.clear_adapter(id);
                if let Some(draft) = draft_model {
                    draft.clear_adapter(id);
                }
            }
            stays
        });
    }
}
