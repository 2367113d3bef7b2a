//! The chat APIs on the bare machine: connections on one side, the engine on the other, one turn after another.
//!
//! There is one thread of control. Each turn looks at every connection, then computes one step of the engine, so that
//! a slow client never holds up the others and a long answer never holds up a new client for longer than a step.

mod access;
mod calls;
mod running;
#[cfg(test)]
pub(crate) mod tests;

pub use access::Access;
pub use strata_chat::ModelFacts;
pub use strata_engine::Counters;

use crate::model::Opened;
use crate::network::{CONNECTIONS, Connection, Network};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use running::Running;
use strata_chat::{Event, Fault, FaultKind, ModelProfile};
use strata_engine::{Engine, Event as EngineEvent, EventKind, Request, SubmitError};
use strata_platform::Clock;
use strata_tokenizer::EncodeOptions;
use strata_wire::access::cross_origin;
use strata_wire::http::{self, Head, Next, Sending};
use strata_wire::openai::{self, ResponseStore};
use strata_wire::{AnswerWriter, Framing, Reply, Stamp, StampSource};

/// Bytes that all requests and answers may hold; clients that would add to more must wait.
const MEMORY: usize = 16 << 20;
/// Stored answers, and their bytes, at most.
const STORED: (usize, usize) = (64, 4 << 20);

/// What a server is told.
#[derive(Clone, Debug, Default)]
pub struct ServeSettings {
    /// What the model is called.
    pub name: String,
    /// Who may call.
    pub access: Access,
    /// Makes names and seeds unlike those of other machines.
    pub seed: u64,
    /// Seconds from 1970 to when the clock began.
    pub epoch: u64,
}

/// A server of one model.
pub struct Server {
    engine: Engine,
    clock: Arc<dyn Clock>,
    profile: Arc<ModelProfile>,
    facts: ModelFacts,
    settings: ServeSettings,
    visits: Vec<Option<Visit>>,
    responses: ResponseStore,
    stamps: StampSource,
    requests: u64,
}

/// A client's stay.
struct Visit {
    number: u64,
    http: http::Connection,
    origin: Option<String>,
    work: Option<Work>,
}

/// An answer in the making.
struct Work {
    running: Running,
    answer: Box<dyn AnswerWriter>,
    /// What is not written yet.
    events: Vec<Event>,
    /// What is not sent yet.
    bytes: Vec<u8>,
    begun: bool,
}

impl Server {
    /// A server of a model.
    pub fn new(opened: Opened<'_>, clock: Arc<dyn Clock>, settings: ServeSettings) -> Self {
        let context = opened.options.context;
        let template = opened.file.metadata().str("tokenizer.chat_template");
        let template = template.ok().flatten();
        let profile = ModelProfile::new(Arc::clone(&opened.tokenizer), template, context);
        let facts = calls::facts(&settings.name, opened.file, &profile, &opened.options);
        let engine = Engine::new(opened.executor, opened.tokenizer, opened.options);
        Self {
            engine: engine.with_clock(Arc::clone(&clock)),
            clock,
            profile: Arc::new(profile),
            facts,
            stamps: StampSource::new(settings.seed),
            settings,
            visits: (0..CONNECTIONS).map(|_| None).collect(),
            responses: ResponseStore::new(STORED.0, STORED.1),
            requests: 0,
        }
    }

    /// The engine's numbers.
    pub fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    /// What the model is.
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// Clients that are connected.
    pub fn clients(&self) -> usize {
        self.visits.iter().flatten().count()
    }

    /// Continues a text by at most so many tokens, as the model likes, while nobody else is looked after.
    pub fn continue_text(
        &mut self,
        text: &str,
        tokens: usize,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), SubmitError> {
        let options = EncodeOptions {
            add_special: true,
            parse_special: true,
        };
        let own = self.engine.submit(Request {
            prompt: self.profile.tokenizer.encode(text, options),
            max_tokens: Some(tokens),
            ..Request::default()
        })?;
        let mut open = true;
        while open {
            let (visits, clock) = (&mut self.visits, &self.clock);
            self.engine.step(&mut |event| {
                if event.request != own {
                    return hear(visits, event, clock.now_ns());
                }
                match event.kind {
                    EventKind::Token { text, .. } => tell(&text),
                    EventKind::Finished { text, .. } => {
                        tell(&text);
                        open = false;
                    }
                    EventKind::Failed(_) => open = false,
                    _ => {}
                }
            });
        }
        Ok(())
    }

    /// Looks after all clients and computes one step. Says whether there is more to compute.
    pub fn turn(&mut self, network: &mut Network<'_>, now: impl Fn() -> u64) -> bool {
        for place in 0..CONNECTIONS {
            let visit = self.visits[place].take();
            self.visits[place] = self.attend(visit, network.connection(place), now());
        }
        if self.engine.is_idle() {
            return false;
        }
        let visits = &mut self.visits;
        self.engine.step(&mut |event| hear(visits, event, now()));
        true
    }

    /// Reads what a client says, answers what can be answered, and sends what can be sent.
    fn attend(
        &mut self,
        visit: Option<Visit>,
        link: Option<Connection<'_>>,
        now: u64,
    ) -> Option<Visit> {
        let same = |visit: &Visit| link.as_ref().is_some_and(|l| l.number == visit.number);
        let visit = match visit {
            Some(visit) if same(&visit) => Some(visit),
            gone => {
                self.leave(gone);
                None
            }
        };
        let mut link = link?;
        let mut visit = visit.unwrap_or_else(|| Visit {
            number: link.number,
            http: http::Connection::new(now),
            origin: None,
            work: None,
        });
        self.read(&mut visit, &mut link, now);
        if !link.may_receive() && visit.http.is_busy() {
            link.abort();
            self.leave(Some(visit));
            return None;
        }
        match visit.http.next(now) {
            Next::Request(head, body) => self.open(&mut visit, &head, &body, now),
            Next::Refused(error) => self.refuse(&mut visit, error, now),
            Next::Nothing if !link.may_receive() => link.close(),
            Next::Nothing => {}
        }
        self.advance(&mut visit, now);
        let sent = link.send(visit.http.outgoing());
        visit.http.sent(sent, now);
        if visit.http.is_over() {
            link.close();
        }
        if visit.http.is_stale(now) {
            link.abort();
            self.leave(Some(visit));
            return None;
        }
        Some(visit)
    }

    fn read(&self, visit: &mut Visit, link: &mut Connection<'_>, now: u64) {
        let held: usize = self.visits.iter().flatten().map(|v| v.http.bytes()).sum();
        if held >= MEMORY {
            return;
        }
        let mut buffer = [0; 2048];
        loop {
            let room = visit.http.room().min(buffer.len());
            match link.receive(&mut buffer[..room]) {
                0 => return,
                len => visit.http.feed(&buffer[..len], now),
            }
        }
    }

    /// A client has gone, and its work with it.
    fn leave(&mut self, visit: Option<Visit>) {
        if let Some(work) = visit.and_then(|visit| visit.work) {
            work.running.cancel(&mut self.engine);
        }
    }

    /// What came is no request.
    fn refuse(&mut self, visit: &mut Visit, error: http::HttpError, now: u64) {
        let kind = match error {
            http::HttpError::HeadTooLarge | http::HttpError::BodyTooLarge => FaultKind::TooLarge,
            http::HttpError::Slow => FaultKind::Timeout,
            _ => FaultKind::BadRequest,
        };
        let stamp = self.stamp(now);
        let reply = openai::DIALECT.fault(&Fault::new(kind, error), &stamp);
        give(visit, &reply, now);
    }

    /// Tells a client what its answer has come to.
    fn advance(&mut self, visit: &mut Visit, now: u64) {
        let Some(work) = &mut visit.work else { return };
        let events = core::mem::take(&mut work.events);
        let (framing, mut failed) = (work.answer.framing(), None);
        for event in &events {
            match event {
                Event::Failed(fault) if !work.begun => failed = Some(work.answer.fault(fault)),
                event => work.answer.event(event, &mut work.bytes),
            }
        }
        if let Some(reply) = failed {
            work.running.cancel(&mut self.engine);
            visit.work = None;
            give(visit, &reply, now);
            return;
        }
        if framing != Framing::Whole && !events.is_empty() {
            if !work.begun {
                work.begun = true;
                begin(visit_parts(&mut visit.http, &visit.origin), framing);
            }
            visit.http.piece(&work.bytes);
            work.bytes.clear();
        }
        if !work.running.has_ended() {
            return;
        }
        if let Some(kept) = work.answer.kept() {
            self.responses.keep(calls::OWNER, kept);
        }
        let bytes = core::mem::take(&mut work.bytes);
        // A failure of one prompt ends the others.
        work.running.cancel(&mut self.engine);
        visit.work = None;
        match framing {
            Framing::Whole => give(
                visit,
                &Reply {
                    status: 200,
                    content_type: framing.content_type(),
                    headers: Vec::new(),
                    body: bytes,
                },
                now,
            ),
            _ => visit.http.end(now),
        }
    }

    fn stamp(&self, now: u64) -> Stamp {
        let now = Duration::from_nanos(now);
        let epoch = Duration::from_secs(self.settings.epoch);
        self.stamps.stamp(epoch.saturating_add(now))
    }

    fn open(&mut self, visit: &mut Visit, head: &Head, body: &[u8], now: u64) {
        self.requests += 1;
        visit.origin = head.origin.clone();
        if let Some(reply) = self.call(visit, head, body, now) {
            give(visit, &reply, now);
        }
    }
}

/// Hands an event to the request that it belongs to.
fn hear(visits: &mut [Option<Visit>], event: EngineEvent, now: u64) {
    let works = visits.iter_mut().flatten().filter_map(|v| v.work.as_mut());
    let mut event = Some(event);
    for work in works {
        event = event.and_then(|event| work.running.push(event, now, &mut work.events));
    }
}

type Parts<'v> = (&'v mut http::Connection, Option<&'v str>);

fn visit_parts<'v>(http: &'v mut http::Connection, origin: &'v Option<String>) -> Parts<'v> {
    (http, origin.as_deref())
}

/// Begins an answer that comes piece by piece.
fn begin((http, origin): Parts<'_>, framing: Framing) {
    let mut headers: Vec<_> = framing.headers().collect();
    headers.extend(across_sites(origin, 200));
    http.begin(200, &headers, Sending::Pieces);
}

/// Sends a whole reply.
fn give(visit: &mut Visit, reply: &Reply, now: u64) {
    let mut headers = Vec::from([("content-type", reply.content_type)]);
    headers.extend(reply.headers.iter().map(|(name, value)| (*name, &**value)));
    headers.extend(across_sites(visit.origin.as_deref(), reply.status));
    let sending = Sending::Whole(reply.body.len());
    visit.http.begin(reply.status, &headers, sending);
    visit.http.piece(&reply.body);
    visit.http.end(now);
}

/// Lets the page that called read the answer.
fn across_sites(origin: Option<&str>, status: u16) -> impl Iterator<Item = (&'static str, &str)> {
    let origin = origin.into_iter();
    origin.flat_map(move |origin| cross_origin(origin, status))
}
