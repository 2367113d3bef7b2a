//! Where a request stands before its first token: the model loads, the request waits in the queue, its prompt is computed.
//!
//! A client that sends `strata-progress: comments` is told in comments among the server-sent events of its answer, such as
//! `: {"state":"queued","ahead":2}`. Other readers of such events pass over comments.

use crate::body::ReplyBody;
use crate::generate::{Conversation, Delivery, WAITING};
use crate::http::{Answered, Caller, answered, reply};
use crate::observation::Outcome;
use crate::state::Server;
use bytes::Bytes;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use strata::worker::Probe;
use strata_chat::json::Json;
use strata_chat::{Event, Fault, Generate, Times, Usage};
use strata_engine::Standing;
use strata_wire::{AnswerWriter, Framing, Reply};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

/// Time between two comments.
const BEAT: Duration = Duration::from_millis(250);

/// A request that fails so soon gets a reply with the status of its fault; later ones end the stream with it.
const SOON: Duration = Duration::from_millis(200);

/// Answers a request for text that is streamed as events, with comments on where it stands.
pub(crate) async fn generate_with_progress(
    server: &Arc<Server>,
    caller: &Caller,
    request: Box<Generate>,
    answer: Box<dyn AnswerWriter>,
) -> Answered {
    let (sender, receiver) = mpsc::channel(WAITING);
    let (refuse, refused) = oneshot::channel();
    let waiting = Waiting {
        server: Arc::clone(server),
        caller: caller.clone(),
        sender,
        refuse,
    };
    tokio::spawn(waiting.run(request, answer));
    match tokio::time::timeout(SOON, refused).await {
        Ok(Ok(refusal)) => reply(refusal),
        // It has begun, or takes its time.
        Ok(Err(_)) | Err(_) => answered(Framing::Events, ReplyBody::Stream(receiver)),
    }
}

/// A request that has yet to begin.
struct Waiting {
    server: Arc<Server>,
    caller: Caller,
    sender: mpsc::Sender<Bytes>,
    refuse: oneshot::Sender<Reply>,
}

impl Waiting {
    async fn run(self, request: Box<Generate>, mut answer: Box<dyn AnswerWriter>) {
        let asked = request.model.clone();
        let begun = {
            let mut begin = pin!(Conversation::begin(&self.server, &self.caller, request));
            let mut name = None;
            loop {
                tokio::select! {
                    begun = &mut begin => break begun,
                    () = sleep(BEAT) => {
                        let comment = comment(&self.loading(&asked, &mut name));
                        if self.sender.send(comment.into()).await.is_err() {
                            return;
                        }
                    }
                    () = self.sender.closed() => return,
                }
            }
        };
        let mut conversation = match begun {
            Ok(conversation) => conversation,
            Err(fault) => {
                let (usage, times) = (Usage::default(), Times::default());
                let observed = Arc::clone(&self.caller.observed);
                self.fail(answer, fault).await;
                return observed.progress(usage, times, Outcome::Failed);
            }
        };
        answer.answered_by(&conversation.lease.facts.name);
        let mut progress = conversation.events.probe().map(Progress);
        let events = loop {
            tokio::select! {
                events = conversation.next() => break events,
                told = Progress::next(&mut progress) => {
                    if self.sender.send(told.into()).await.is_err() {
                        return;
                    }
                }
                () = self.sender.closed() => return,
            }
        };
        if let Some(Event::Failed(fault)) = events.first() {
            let fault = fault.clone();
            return self.fail(answer, fault).await;
        }
        let mut bytes = Vec::new();
        for event in &events {
            answer.event(event, &mut bytes);
        }
        drop(self.refuse);
        let delivery = Delivery {
            server: self.server,
            client: self.caller.client,
            conversation,
            answer,
            sender: Some(self.sender),
            detached: false,
        };
        delivery.run(bytes, progress).await;
    }

    /// How far the model is loaded.
    fn loading(&self, asked: &str, name: &mut Option<String>) -> Json {
        let manager = &self.server.manager;
        let name = name.get_or_insert_with(|| {
            let asked = Some(asked).filter(|asked| !asked.is_empty());
            manager
                .models()
                .find(asked)
                .map_or_else(|_| String::new(), |facts| facts.name)
        });
        match manager.loading(name) {
            Some((done, total)) => Json::object([
                ("state", "loading".into()),
                ("done", done.into()),
                ("total", total.into()),
            ]),
            None => Json::object([("state", "preparing".into())]),
        }
    }

    /// Replies with a fault, or ends the stream with it where that has begun.
    async fn fail(self, mut answer: Box<dyn AnswerWriter>, fault: Fault) {
        if self.refuse.send(answer.fault(&fault)).is_err() {
            let mut bytes = Vec::new();
            answer.event(&Event::Failed(fault), &mut bytes);
            let _ = self.sender.send(bytes.into()).await;
        }
    }
}

/// Tells where a request stands until its first token.
pub(crate) struct Progress(Probe);

impl Progress {
    /// The next comment, in a moment. Nothing ever comes where there is nothing to tell any more.
    pub(crate) async fn next(progress: &mut Option<Self>) -> Vec<u8> {
        sleep(BEAT).await;
        if let Some(Self(probe)) = progress {
            let (tell, told) = oneshot::channel();
            probe.look(move |standing| {
                let _ = tell.send(standing);
            });
            match told.await.ok().flatten() {
                Some(Standing::Queued { ahead }) => {
                    let state = [("state", "queued".into()), ("ahead", ahead.into())];
                    return comment(&Json::object(state));
                }
                Some(Standing::Prefill { done, total }) => {
                    return comment(&Json::object([
                        ("state", "prompt".into()),
                        ("done", done.into()),
                        ("total", total.into()),
                    ]));
                }
                Some(Standing::Decode) | None => *progress = None,
            }
        }
        std::future::pending().await
    }
}

fn comment(told: &Json) -> Vec<u8> {
    let mut bytes = b": ".to_vec();
    told.write(&mut bytes);
    bytes.extend_from_slice(b"\n\n");
    bytes
}
