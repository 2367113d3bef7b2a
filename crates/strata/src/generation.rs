//! A request for text that an engine in the same thread has taken.

use alloc::vec::Vec;
use core::time::Duration;
use strata_chat::{AnswerStream, Arrival, Event, Fault, Generate, ModelProfile, Prepared, refusal};
use strata_engine::{ClientId, Engine, Event as EngineEvent, RequestId};

/// The engine's names of a request's prompts, and the stream that makes one answer of them.
pub struct Generation {
    ids: Vec<RequestId>,
    stream: AnswerStream,
}

impl Generation {
    /// Hands a request that is ready to the engine, for one of its clients.
    pub fn start(
        engine: &mut Engine,
        request: &Generate,
        prepared: Prepared,
        profile: &ModelProfile,
        (client, arrival): (ClientId, Arrival),
    ) -> Result<Self, Fault> {
        let (stream, requests) = AnswerStream::new(request, prepared, profile, arrival);
        let ids = Vec::with_capacity(requests.len());
        let mut generation = Self { ids, stream };
        for mut one in requests {
            one.client = client;
            match engine.submit(one) {
                Ok(id) => generation.ids.push(id),
                Err(error) => {
                    generation.cancel(engine);
                    return Err(refusal(&error));
                }
            }
        }
        Ok(generation)
    }

    /// The engine's names of its prompts.
    pub fn ids(&self) -> &[RequestId] {
        &self.ids
    }

    /// Ends what still runs.
    pub fn cancel(&self, engine: &mut Engine) {
        for &id in &self.ids {
            engine.cancel(id);
        }
    }

    /// Whether all is told.
    pub fn has_ended(&self) -> bool {
        self.stream.has_ended()
    }

    /// Takes an event of the engine and adds what there is to emit; gives it back if it belongs to another request.
    pub fn push(
        &mut self,
        event: EngineEvent,
        now: Duration,
        events: &mut Vec<Event>,
    ) -> Option<EngineEvent> {
        let Some(run) = self.ids.iter().position(|&id| id == event.request) else {
            return Some(event);
        };
        self.stream
            .push(run, (event.choice, event.kind), now, events);
        None
    }

    /// Computes one step of the engine and gives what there is to emit by then. Events of other requests go to `others`.
    pub fn step(
        &mut self,
        engine: &mut Engine,
        now: &dyn Fn() -> Duration,
        others: &mut dyn FnMut(EngineEvent),
    ) -> Vec<Event> {
        let mut events = Vec::new();
        engine.step(&mut |event| {
            if let Some(event) = self.push(event, now(), &mut events) {
                others(event);
            }
        });
        events
    }
}
