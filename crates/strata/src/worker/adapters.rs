//! Adapters by number and strength, as clients ask for them, over the engine's own, which have one strength each.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use strata_chat::{AdapterFacts, Fault};
use strata_engine::{AdapterId, Engine, SubmitError};
use strata_model::Adapter;

/// An adapter that requests can ask for.
#[derive(Clone)]
pub struct LoadedAdapter {
    /// Where it came from.
    pub path: String,
    /// What it changes.
    pub adapter: Arc<Adapter>,
    /// Its strength in requests that ask for none; 0 leaves it out.
    pub scale: f32,
}

/// Strengths that are kept ready; with more, all are made anew.
const READY: usize = 64;

/// A model's adapters, with their strengths for requests that name none.
pub struct Adapters {
    list: Vec<LoadedAdapter>,
    scales: Mutex<Vec<f32>>,
}

/// The engine's names of those that were asked for.
#[derive(Default)]
pub(super) struct AdapterIds(HashMap<(usize, u32), AdapterId>);

impl Adapters {
    pub(super) fn new(list: Vec<LoadedAdapter>) -> Self {
        let scales = list.iter().map(|adapter| adapter.scale).collect();
        Self {
            list,
            scales: Mutex::new(scales),
        }
    }

    /// What clients are told of them.
    pub fn facts(&self) -> Vec<AdapterFacts> {
        let scales = self.scales.lock().unwrap_or_else(PoisonError::into_inner);
        let numbered = self.list.iter().zip(&*scales).enumerate();
        numbered
            .map(|(id, (adapter, &scale))| AdapterFacts {
                id,
                path: adapter.path.clone(),
                scale,
            })
            .collect()
    }

    /// Sets the strengths for requests that name none; adapters that are not listed get 0, as with llama-server.
    pub fn scale(&self, given: &[(usize, f32)]) -> Result<(), Fault> {
        let mut new = vec![0.0; self.list.len()];
        for &(id, scale) in given {
            let Some(place) = new.get_mut(id) else {
                return Err(Fault::bad_request(format!("there is no adapter {id}")));
            };
            *place = scale;
        }
        *self.scales.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// What an adapter of the engine is called: its file's name without the ending.
    pub(super) fn label(&self, known: &AdapterIds, id: Option<AdapterId>) -> Option<String> {
        let id = id?;
        let found = known.0.iter().find(|&(_, &known)| known == id);
        let ((number, _), _) = found?;
        let path = Path::new(&self.list.get(*number)?.path);
        Some(path.file_stem()?.to_string_lossy().into_owned())
    }

    /// The engine's adapter for a request: what it asks for, or what is set for those that ask for none.
    pub(super) fn choose(
        &self,
        engine: &mut Engine,
        known: &mut AdapterIds,
        asked: &[(usize, f32)],
    ) -> Result<Option<AdapterId>, SubmitError> {
        let set: Vec<(usize, f32)> = match asked {
            [] => {
                let scales = self.scales.lock().unwrap_or_else(PoisonError::into_inner);
                scales.iter().copied().enumerate().collect()
            }
            asked => asked.to_vec(),
        };
        let mut wanted = set.into_iter().filter(|&(_, scale)| scale != 0.0);
        let Some((id, scale)) = wanted.next() else {
            return Ok(None);
        };
        if wanted.next().is_some() {
            let what = "a request can have one adapter at a time";
            return Err(SubmitError::Unsupported { what });
        }
        let missing = SubmitError::NoAdapter {
            adapter: AdapterId(id as u64),
        };
        let Some(adapter) = self.list.get(id) else {
            return Err(missing);
        };
        let key = (id, scale.to_bits());
        if let Some(&ready) = known.0.get(&key) {
            return Ok(Some(ready));
        }
        if known.0.len() >= READY {
            for (_, id) in known.0.drain() {
                engine.remove_adapter(id);
            }
        }
        let added = engine.add_adapter(adapter.adapter.clone(), scale);
        let added = added.map_err(|_| missing)?;
        known.0.insert(key, added);
        Ok(Some(added))
    }
}
