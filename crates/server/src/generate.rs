//! Requests for text: from the dialect through the engine and back.

use crate::access::Client;
use crate::accounts::Accounts;
use crate::body::ReplyBody;
use crate::call::lease;
use crate::http::{Answered, Caller, answered, reply};
use crate::image_urls::fetch_images;
use crate::manager::Lease;
use crate::observation::{Observation, Outcome};
use crate::progress::{Progress, generate_with_progress};
use crate::state::Server;
use crate::write_beat::next_beat;
use bytes::Bytes;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata::Events;
use strata_chat::{
    Arrival, Constraints, Event, Fault, FaultKind, Format, Generate, Prepared, ToolChoice,
};
use strata_wire::call::Kept;
use strata_wire::{AnswerWriter, Framing, Reply, begin_answer};
use tokio::sync::mpsc;

/// Pieces of a body that wait for a slow client. The engine is not held up by it: a full channel only delays the
/// writing, and the text of an answer is small.
pub(crate) const WAITING: usize = 64;

/// A grammar that takes longer leaves memory behind.
const LONG_COMPILE: Duration = Duration::from_millis(50);

/// Answers a request for text.
pub(crate) async fn generate(
    server: &Arc<Server>,
    caller: &Caller,
    request: Box<Generate>,
    mut answer: Box<dyn AnswerWriter>,
) -> Answered {
    let streams = answer.framing() == Framing::Events && answer.detached().is_none();
    if caller.wants_progress && streams {
        return generate_with_progress(server, caller, request, answer).await;
    }
    let begun = Conversation::begin(server, caller, request).await;
    let mut conversation = match begun {
        Ok(conversation) => conversation,
        Err(fault) => return reply(answer.fault(&fault)),
    };
    answer.answered_by(&conversation.lease.facts.name);
    let detached = answer.detached();
    if let Some(kept) = detached {
        return detach(server, caller, conversation, answer, kept);
    }
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
    let framing = answer.framing();
    let (sender, receiver) = mpsc::channel(WAITING);
    let delivery = Delivery {
        server: Arc::clone(server),
        client: caller.client.clone(),
        conversation,
        answer,
        sender: Some(sender),
        detached: false,
    };
    tokio::spawn(delivery.run(bytes, None));
    answered(framing, ReplyBody::Stream(receiver))
}

/// Lets a request run on whether its client waits for it or not.
fn detach(
    server: &Arc<Server>,
    caller: &Caller,
    conversation: Conversation,
    answer: Box<dyn AnswerWriter>,
    kept: Kept,
) -> Answered {
    let (id, document) = (kept.id.clone(), Reply::json(&kept.document));
    let owner = caller.client.owner();
    server.stored().keep(&owner, kept);
    let framing = answer.framing();
    let (sender, receiver) = match framing {
        Framing::Whole => (None, None),
        _ => {
            let (sender, receiver) = mpsc::channel(WAITING);
            (Some(sender), Some(receiver))
        }
    };
    let delivery = Delivery {
        server: Arc::clone(server),
        client: caller.client.clone(),
        conversation,
        answer,
        sender,
        detached: true,
    };
    let task = tokio::spawn(delivery.run(Vec::new(), None));
    server.stored().runs(&owner, &id, task.abort_handle());
    match receiver {
        Some(receiver) => answered(framing, ReplyBody::Stream(receiver)),
        None => reply(document),
    }
}

/// An answer on its way to a client.
pub(crate) struct Delivery {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Client,
    pub(crate) conversation: Conversation,
    pub(crate) answer: Box<dyn AnswerWriter>,
    /// Where it goes, as long as there is somebody who waits for it.
    pub(crate) sender: Option<mpsc::Sender<Bytes>>,
    /// It goes on without its client.
    pub(crate) detached: bool,
}

impl Delivery {
    /// Sends what comes until the end, and where the request stands until its first token if that is wanted.
    pub(crate) async fn run(mut self, mut bytes: Vec<u8>, mut progress: Option<Progress>) {
        loop {
            let piece = Bytes::from(std::mem::take(&mut bytes));
            if !piece.is_empty()
                && let Some(sender) = &self.sender
                && !taken(sender.send(piece), self.server.settings.budgets.stall).await
            {
                // A client that has gone or listens no more ends the stream, and with it the engine's work.
                if !self.detached {
                    return;
                }
                self.sender = None;
            }
            if self.conversation.events.has_ended() {
                break;
            }
            let (conversation, started) = (&mut self.conversation, self.server.started);
            let gathered = async {
                tokio::select! {
                    () = next_beat(started) => {}
                    () = conversation.over() => {}
                }
                conversation.next().await
            };
            let sender = self.sender.as_ref().filter(|_| !self.detached);
            let gone = async {
                match sender {
                    Some(sender) => sender.closed().await,
                    None => std::future::pending().await,
                }
            };
            let events = tokio::select! {
                events = gathered => events,
                told = Progress::next(&mut progress) => {
                    bytes = told;
                    continue;
                }
                () = gone => return,
            };
            for event in events {
                self.answer.event(&event, &mut bytes);
            }
        }
        self.server.keep(&self.client, &mut *self.answer);
    }
}

/// Whether a client takes a piece of its answer in time.
async fn taken<E>(sending: impl Future<Output = Result<(), E>>, stall: Duration) -> bool {
    matches!(tokio::time::timeout(stall, sending).await, Ok(Ok(())))
}

/// A request on its way.
pub(crate) struct Conversation {
    pub(crate) events: Events,
    observed: Arc<Observation>,
    accounts: Arc<Accounts>,
    /// Who pays for it.
    client: (String, u64),
    /// Keeps the model while the request runs.
    pub(crate) lease: Lease,
}

impl Conversation {
    pub(crate) async fn begin(
        server: &Arc<Server>,
        caller: &Caller,
        request: Box<Generate>,
    ) -> Result<Self, Fault> {
        let Caller {
            client, observed, ..
        } = caller;
        let at = observed.start.elapsed();
        let wanted = (request.keep_alive, request.context);
        let lease = lease(server, caller, Some(&request.model), wanted).await?;
        let (request, mut prepared) = ready(server, caller, &lease, request).await?;
        if let Some(constraints) = &caller.constraints {
            for one in &mut prepared.requests {
                constraints.apply(one);
            }
        }
        let asking = strata::Caller {
            client: client.number,
            arrival: Arrival {
                at,
                load: lease.waited,
            },
            clock: Some(observed.start),
        };
        let events = lease.served.model.start(&request, prepared, asking);
        drop(request);
        caller.large.release();
        Ok(Self {
            events,
            observed: Arc::clone(observed),
            accounts: Arc::clone(&server.accounts),
            client: (client.name.clone().unwrap_or_default(), client.number),
            lease,
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
        let ended = times.ended.unwrap_or_else(|| self.observed.start.elapsed());
        let began = times.started.unwrap_or(ended);
        let (name, number) = &self.client;
        let worked = ended.saturating_sub(began);
        self.accounts.add((name, *number), usage, worked);
        self.observed.progress(usage, times, outcome);
    }
}

/// Makes a request ready on a thread that may take its time, and gives it back: tokenizing and compiling grammars are not
/// for those that answer clients.
pub(crate) async fn ready(
    server: &Arc<Server>,
    caller: &Caller,
    lease: &Lease,
    request: Box<Generate>,
) -> Result<(Box<Generate>, Prepared), Fault> {
    let model = lease.served.model.clone();
    // Nothing is fetched for a model that does not see, or for a session that must not be heard of elsewhere.
    let stays = |constraints: &Arc<Constraints>| constraints.privacy.never_off_machine;
    let stays = caller.constraints.as_ref().is_some_and(stays);
    let (mut request, _fetched) = match model.profile().sight {
        Some(_) if !stays => fetch_images(server, caller, request).await?,
        _ => (request, None),
    };
    // No more than the model was made for.
    request.context = request.context.map(|asked| asked.min(model.context()));
    let stamp = caller.stamp.clone();
    let constrained = is_constrained(&request);
    let prepare = move || {
        let prepared = model.prepare(&request, stamp.context(stamp.seed()))?;
        Ok((request, prepared))
    };
    if !constrained {
        return server.preparation.run(caller.large.effort(), prepare).await;
    }
    // Grammars wait for each other on their threads, and for nobody else.
    let failed = || Fault::new(FaultKind::Internal, "the request could not be made ready");
    let _place = server.grammars.acquire().await.map_err(|_| failed())?;
    let begun = Instant::now();
    let task = tokio::task::spawn_blocking(prepare);
    let prepared = task.await.unwrap_or_else(|_| Err(failed()));
    if begun.elapsed() > LONG_COMPILE {
        server.preparation.expect_free_memory();
    }
    prepared
}

/// Whether a grammar may be compiled for a request.
fn is_constrained(request: &Generate) -> bool {
    let tools = &request.tools;
    request.format != Format::Text
        || !tools.list.is_empty()
            && (!matches!(tools.choice, ToolChoice::Auto | ToolChoice::None)
                || tools.list.iter().any(|tool| tool.strict))
}
