//! A request for text that the engine has taken.

use alloc::vec::Vec;
use core::time::Duration;
use strata_chat::{AnswerStream, Arrival, Event, Fault, Generate, ModelProfile, Prepared, refusal};
use strata_engine::{Engine, Event as EngineEvent, RequestId};

/// The engine's names of a request's prompts, and the stream that makes one answer of them.
pub(super) struct Running {
    ids: Vec<RequestId>,
    stream: AnswerStream,
}

impl Running {
    /// Hands a request to the engine.
    pub(super) fn begin(
        engine: &mut Engine,
        request: &Generate,
        prepared: Prepared,
        profile: &ModelProfile,
        now: u64,
    ) -> Result<Self, Fault> {
        let arrival = Arrival {
            at: Duration::from_nanos(now),
            load: Duration::ZERO,
        };
        let (stream, requests) = AnswerStream::new(request, prepared, profile, arrival);
        let mut running = Self {
            ids: Vec::new(),
            stream,
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
        self.stream.has_ended()
    }

    /// Takes an event of the engine and adds what there is to tell; gives it back if it is another's.
    pub(super) fn push(
        &mut self,
        event: EngineEvent,
        now: u64,
        events: &mut Vec<Event>,
    ) -> Option<EngineEvent> {
        let Some(run) = self.ids.iter().position(|&id| id == event.request) else {
            return Some(event);
        };
        let now = Duration::from_nanos(now);
        self.stream
            .push(run, (event.choice, event.kind), now, events);
        None
    }
}
