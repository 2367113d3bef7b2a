//! Requests for text: from the dialect through the engine and back.

use crate::access::Client;
use crate::body::ReplyBody;
use crate::http::{Answered, Caller, answered, reply};
use crate::manager::Lease;
use crate::observation::{Observation, Outcome};
use crate::pace::next_beat;
use crate::progress::{Progress, generate_with_progress};
use crate::state::Server;
use bytes::Bytes;
use std::future::poll_fn;
use std::sync::Arc;
use strata::Events;
use strata_chat::{Arrival, Event, Fault, FaultKind, Generate, Prepared};
use strata_wire::{AnswerWriter, Framing, Stamp, begin_answer};
use tokio::sync::mpsc::{self, Sender};

/// Pieces of a body that wait for a slow client. The engine is not held up by it: a full channel only delays the
/// writing, and the text of an answer is small.
pub(crate) const WAITING: usize = 64;

/// Answers a request for text.
pub(crate) async fn generate(
    server: &Arc<Server>,
    caller: &Caller,
    request: Box<Generate>,
    mut answer: Box<dyn AnswerWriter>,
) -> Answered {
    if caller.wants_progress && answer.framing() == Framing::Events {
        return generate_with_progress(server, caller, request, answer).await;
    }
    let begun = Conversation::begin(server, caller, &request).await;
    let mut conversation = match begun {
        Ok(conversation) => conversation,
        Err(fault) => return reply(answer.fault(&fault)),
    };
    let mut bytes = Vec::new();
    let mut events = conversation.next().await;
    if answer.framing() == Framing::Whole {
        loop {
            if let Err(refused) = begin_answer(&mut *answer, &events, &mut bytes) {
                return reply(refused);
            }
            if conversation.events.has_ended() {
                break;
            }
            events = conversation.next().await;
        }
        server.keep(&caller.client, &mut *answer);
        return answered(Framing::Whole, ReplyBody::whole(bytes));
    }
    if let Err(refused) = begin_answer(&mut *answer, &events, &mut bytes) {
        return reply(refused);
    }
    let (sender, receiver) = mpsc::channel(WAITING);
    let framing = answer.framing();
    let stream = AnswerBody {
        server: Arc::clone(server),
        client: caller.client.clone(),
        conversation,
        answer,
        bytes,
        sender,
    };
    tokio::spawn(stream.write(None));
    answered(framing, ReplyBody::Stream(receiver))
}

/// The body of an answer that is streamed.
pub(crate) struct AnswerBody {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Client,
    pub(crate) conversation: Conversation,
    pub(crate) answer: Box<dyn AnswerWriter>,
    /// What is to be sent first.
    pub(crate) bytes: Vec<u8>,
    pub(crate) sender: Sender<Bytes>,
}

impl AnswerBody {
    /// Sends what comes until the end, and where the request stands until its first token if that is wanted.
    pub(crate) async fn write(self, mut progress: Option<Progress>) {
        let Self {
            server,
            client,
            mut conversation,
            mut answer,
            mut bytes,
            sender,
        } = self;
        let mut events = Vec::new();
        loop {
            for event in events.drain(..) {
                answer.event(&event, &mut bytes);
            }
            let piece = Bytes::from(std::mem::take(&mut bytes));
            // A client that has gone ends the stream, and with it the engine's work.
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return;
            }
            if conversation.events.has_ended() {
                break;
            }
            let gathered = async {
                tokio::select! {
                    () = next_beat(server.started) => {}
                    () = conversation.over() => {}
                }
                conversation.next().await
            };
            tokio::select! {
                gathered = gathered => events = gathered,
                told = Progress::next(&mut progress) => bytes = told,
                () = sender.closed() => return,
            }
        }
        server.keep(&client, &mut *answer);
    }
}

/// A request on its way.
pub(crate) struct Conversation {
    pub(crate) events: Events,
    observed: Arc<Observation>,
    /// Keeps the model while the request runs.
    _lease: Lease,
}

impl Conversation {
    pub(crate) async fn begin(
        server: &Arc<Server>,
        caller: &Caller,
        request: &Generate,
    ) -> Result<Self, Fault> {
        let Caller {
            client,
            stamp,
            observed,
            ..
        } = caller;
        let at = observed.start.elapsed();
        let name = Some(request.model.as_str()).filter(|name| !name.is_empty());
        let manager = &server.manager;
        let lease = manager.lease(name, request.keep_alive, request.context);
        let lease = lease.await?;
        client.allows(&lease.facts.name)?;
        observed.model(&lease.facts.name);
        let prepared = ready(server, &lease, request, stamp).await?;
        let asking = strata::Caller {
            client: client.number,
            arrival: Arrival {
                at,
                load: lease.waited,
            },
            clock: Some(observed.start),
        };
        let events = lease.served.model.start(request, prepared, asking);
        Ok(Self {
            events,
            observed: Arc::clone(observed),
            _lease: lease,
        })
    }

    /// Waits for the engine and gives what there is to tell: all that has happened by now, so that it leaves together.
    pub(crate) async fn next(&mut self) -> Vec<Event> {
        poll_fn(|context| self.events.poll_next(context)).await
    }

    /// Waits until the run that is told of has said everything.
    async fn over(&mut self) {
        poll_fn(|context| self.events.poll_over(context)).await;
    }
}

/// What was seen of it is told at its end, however that comes.
impl Drop for Conversation {
    fn drop(&mut self) {
        let outcome = match (self.events.has_ended(), self.events.has_failed()) {
            (false, _) => Outcome::Canceled,
            (true, false) => Outcome::Complete,
            (true, true) => Outcome::Failed,
        };
        let (usage, times) = (self.events.usage(), self.events.times());
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
    let (model, mut request) = (lease.served.model.clone(), request.clone());
    // No more than the model was made for.
    request.context = request.context.map(|asked| asked.min(model.context()));
    let (stamp, seed) = (stamp.clone(), server.stamps.random());
    let task = tokio::task::spawn_blocking(move || model.prepare(&request, stamp.context(seed)));
    task.await.unwrap_or_else(|_| {
        let message = "the request could not be made ready";
        Err(Fault::new(FaultKind::Internal, message))
    })
}
