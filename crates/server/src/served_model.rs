//! A model at work, and the slots that clients of llama-server know its requests by.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata::Model;
use strata::slots::{SlotText, Slots};
use strata::worker::Monitor;
use strata_chat::ModelFacts;
use strata_engine::{Engine, Event, Request, RequestId};
use tokio::sync::oneshot;

/// Slots that the engine's thread keeps up to date.
#[derive(Clone)]
pub(crate) struct SharedSlots(Arc<Mutex<Slots>>);

impl SharedSlots {
    pub(crate) fn new(facts: &ModelFacts) -> Self {
        Self(Arc::new(Mutex::new(Slots::new(facts.slots, facts.context))))
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Monitor for SharedSlots {
    fn taken(&mut self, id: RequestId, request: &Request, adapter: Option<String>) {
        if let Some(text) = SlotText::of(request, adapter) {
            self.lock().expect(id, text);
        }
    }

    fn event(&mut self, event: &Event) {
        self.lock().hear(event);
    }

    fn dropped(&mut self, id: RequestId) {
        self.lock().end(id);
    }
}

/// A model at work. Clones lead to the same one.
#[derive(Clone)]
pub(crate) struct ServedModel {
    pub(crate) model: Model,
    slots: SharedSlots,
}

impl ServedModel {
    pub(crate) fn new(model: Model, slots: SharedSlots) -> Self {
        Self { model, slots }
    }

    /// The slots, with what is in them.
    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock()
    }

    /// Does something to a slot between two steps; `None` if the engine is gone.
    pub(crate) async fn with_slot<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Slots, &mut Engine) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, done) = oneshot::channel();
        let slots = self.slots.clone();
        self.model.worker().act(
            move |engine| act(&mut slots.lock(), engine),
            move |result| {
                let _ = reply.send(result);
            },
        );
        done.await.ok()
    }

    /// Ends the engine once it has read what was sent before.
    pub(crate) fn stop(&self) {
        self.model.worker().stop();
    }
}
