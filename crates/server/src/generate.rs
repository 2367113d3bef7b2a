//! Requests for text: from the dialect through the engine and back.

use crate::body::ReplyBody;
use crate::http::{Answered, Caller, answered, reply};
use crate::manager::Lease;
use crate::observation::{Observation, Outcome};
use crate::pace::next_beat;
use crate::state::Server;
use crate::worker::Running;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use strata_chat::{
    AnswerConstraint, AnswerStream, Arrival, Event, Fault, FaultKind, Generate, Prepared, prepare,
    refusal,
};
use strata_engine::{ClientId, Event as EngineEvent};
use strata_wire::{AnswerWriter, Framing, Stamp};
use tokio::sync::mpsc;

/// Pieces of a body that wait for a slow client. The engine is not held up by it: a full channel only delays the
/// writing, and the text of an answer is small.
const WAITING: usize = 64;

/// Answers a request for text.
pub(crate) async fn generate(
    server: &Arc<Server>,
    caller: &Caller,
    request: Box<Generate>,
    mut answer: Box<dyn AnswerWriter>,
) -> Answered {
    let begun = Conversation::begin(server, caller, &request).await;
    let mut conversation = match begun {
        Ok(conversation) => conversation,
        Err(fault) => return reply(answer.fault(&fault)),
    };
    let mut bytes = Vec::new();
    // The first event decides the status.
    let mut events = Vec::new();
    loop {
        conversation.next(&mut events).await;
        if let Some(Event::Failed(fault)) = events.first() {
            return reply(answer.fault(fault));
        }
        if !events.is_empty() {
            break;
        }
    }
    if answer.framing() == Framing::Whole {
        loop {
            for event in events.drain(..) {
                if let Event::Failed(fault) = &event {
                    return reply(answer.fault(fault));
                }
                answer.event(&event, &mut bytes);
            }
            if conversation.stream.has_ended() {
                break;
            }
            conversation.next(&mut events).await;
        }
        server.keep(&caller.client, &mut *answer);
        return answered(Framing::Whole, ReplyBody::whole(bytes));
    }
    let (sender, receiver) = mpsc::channel(WAITING);
    let framing = answer.framing();
    let (server, client) = (Arc::clone(server), caller.client.clone());
    tokio::spawn(async move {
        loop {
            for event in events.drain(..) {
                answer.event(&event, &mut bytes);
            }
            let piece = Bytes::from(std::mem::take(&mut bytes));
            // A client that has gone ends the stream, and with it the engine's work.
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return;
            }
            if conversation.stream.has_ended() {
                break;
            }
            let gathered = async {
                tokio::select! {
                    () = next_beat(server.started) => {}
                    () = conversation.over() => {}
                }
                conversation.next(&mut events).await;
            };
            tokio::select! {
                () = gathered => {}
                () = sender.closed() => return,
            }
        }
        server.keep(&client, &mut *answer);
    });
    answered(framing, ReplyBody::Stream(receiver))
}

/// A request on its way: what the engine does for it, and the stream that makes one answer of it.
struct Conversation {
    runs: Vec<Running>,
    stream: AnswerStream,
    observed: Arc<Observation>,
    failed: bool,
    /// Keeps the model while the request runs.
    _lease: Lease,
}

impl Conversation {
    async fn begin(
        server: &Arc<Server>,
        caller: &Caller,
        request: &Generate,
    ) -> Result<Self, Fault> {
        let Caller {
            client,
            stamp,
            observed,
        } = caller;
        let at = observed.start.elapsed();
        let name = Some(request.model.as_str()).filter(|name| !name.is_empty());
        let lease = server.manager.lease(name, request.keep_alive).await?;
        client.allows(&lease.facts.name)?;
        observed.model(&lease.facts.name);
        let prepared = ready(server, &lease, request, stamp).await?;
        let arrival = Arrival {
            at,
            load: lease.waited,
        };
        let (stream, requests) =
            AnswerStream::new(request, prepared, &lease.worker.profile, arrival);
        let mut runs = Vec::new();
        for mut request_of_engine in requests {
            request_of_engine.client = ClientId(client.number);
            let submitted = lease.worker.submit(request_of_engine, &request.adapters);
            let running = submitted.await.ok_or_else(gone)?;
            runs.push(running.map_err(|error| refusal(&error))?);
        }
        Ok(Self {
            runs,
            stream,
            observed: Arc::clone(observed),
            failed: false,
            _lease: lease,
        })
    }

    /// Waits for the engine and adds what there is to tell: all that has happened by now, so that it leaves together.
    async fn next(&mut self, events: &mut Vec<Event>) {
        let Some(at) = self.stream.awaited() else {
            return;
        };
        let mut event = (at, self.runs[at].next().await);
        loop {
            self.push(event, events);
            let Some(at) = self.stream.awaited() else {
                return;
            };
            match self.runs[at].ready() {
                Some(next) => event = (at, Some(next)),
                None => return,
            }
        }
    }

    /// Waits until the run that the stream waits for has said everything.
    async fn over(&mut self) {
        if let Some(at) = self.stream.awaited() {
            self.runs[at].over().await;
        }
    }

    fn push(&mut self, (at, event): (usize, Option<EngineEvent>), events: &mut Vec<Event>) {
        let now = self.observed.start.elapsed();
        match event {
            Some(event) => self
                .stream
                .push(at, (event.choice, event.kind), now, events),
            None => self.stream.fail(gone(), now, events),
        }
        self.failed |= matches!(events.last(), Some(Event::Failed(_)));
        if !self.stream.is_open(at) {
            self.runs[at].end();
        }
    }
}

/// What was seen of it is told at its end, however that comes.
impl Drop for Conversation {
    fn drop(&mut self) {
        let outcome = match (self.stream.has_ended(), self.failed) {
            (false, _) => Outcome::Canceled,
            (true, false) => Outcome::Complete,
            (true, true) => Outcome::Failed,
        };
        let (usage, times) = (self.stream.usage(), self.stream.times());
        self.observed.progress(usage, times, outcome);
    }
}

/// Makes a request ready on a thread that may take its time: tokenizing and compiling grammars are not for those that
/// answer clients.
pub(crate) async fn ready(
    server: &Arc<Server>,
    lease: &Lease,
    request: &Generate,
    stamp: &Stamp,
) -> Result<Prepared, Fault> {
    let (worker, request) = (lease.worker.clone(), request.clone());
    let (stamp, seed) = (stamp.clone(), server.stamps.random());
    let task = tokio::task::spawn_blocking(move || {
        let mut prepared = prepare(&request, &worker.profile, stamp.context(seed))?;
        if prepared.constraint != AnswerConstraint::Free {
            let constraint = worker.grammars.compile(&prepared.constraint)?;
            for request in &mut prepared.requests {
                request.constraint = Some(constraint.clone());
            }
        }
        Ok(prepared)
    });
    task.await.unwrap_or_else(|_| {
        let message = "the request could not be made ready";
        Err(Fault::new(FaultKind::Internal, message))
    })
}

/// The engine's thread has ended.
pub(crate) fn gone() -> Fault {
    let kind = FaultKind::Unavailable {
        retry_after: Duration::from_secs(1),
    };
    Fault::new(kind, "the model was unloaded")
}
