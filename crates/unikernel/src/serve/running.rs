//! A request for text that the engine has taken.

use alloc::vec::Vec;
use core::time::Duration;
use strata_engine::{Engine, Event as EngineEvent, RequestId};
use strata_service::{Arrival, Card, Prepared, Talk, refusal};
use strata_wire::Fault;
use strata_wire::lang::{Event, Generate};

/// The engine's names of a request's prompts, and the talk that makes one answer of them.
pub(super) struct Running {
    ids: Vec<RequestId>,
    talk: Talk,
}

impl Running {
    /// Hands a request to the engine.
    pub(super) fn begin(
        engine: &mut Engine,
        request: &Generate,
        prepared: Prepared,
        card: &Card,
        now: u64,
    ) -> Result<Self, Fault> {
        let arrival = Arrival {
            at: Duration::from_nanos(now),
            load: Duration::ZERO,
        };
        let (talk, requests) = Talk::new(request, prepared, card, arrival);
        let mut running = Self {
            ids: Vec::new(),
            talk,
        };
        for one in requests {
            match engine.submit(one) {
                Ok(id) => running.ids.push(id),
                Err(error) => {
                    running.cancel(engine);
                    return Err(refusal(&error));
                }
            }
        }
        Ok(running)
    }

    /// Ends what still runs: the client has gone.
    pub(super) fn cancel(&self, engine: &mut Engine) {
        for &id in &self.ids {
            engine.cancel(id);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.talk.has_ended()
    }

    /// Takes an event of the engine and adds what there is to tell; gives it back if it is another's.
    pub(super) fn hear(
        &mut self,
        event: EngineEvent,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Option<EngineEvent> {
        let Some(run) = self.ids.iter().position(|&id| id == event.request) else {
            return Some(event);
        };
        let now = Duration::from_nanos(now);
        self.talk.hear(run, (event.choice, event.kind), now, events);
        None
    }
}
