//! The chat APIs on bare metal: connections on one side, the engine on the other.
//!
//! There is one thread of control. [`Server::step`] looks at every connection, then computes one step of the engine, so
//! that a slow client never holds up the others and a long answer never holds up a new client for longer than a step.

mod access;
mod attest;
mod calls;
mod data;
mod models;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

pub use access::{Access, ClientKey};
pub use strata_chat::ModelFacts;
pub use strata_engine::Counters;
pub use stream::Tls;

use crate::network::{CONNECTIONS, Connection, Network};
use crate::prompt::text;
use crate::storage::data::DataStore;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use models::Models;
use strata::{Generation, LocalModel, VectorRun};
use strata_chat::{Arrival, Embeddings, Event, Fault, FaultKind, Generate, Prompt, Timings};
use strata_engine::Event as EngineEvent;
use strata_platform::Clock;
use strata_tls::Session;
use strata_wire::access::cross_origin;
use strata_wire::call::ReplyWriter;
use strata_wire::dialect::needs_no_key;
use strata_wire::http::{self, Head, Next, Sending};
use strata_wire::openai::{self, ResponseStore};
use strata_wire::{AnswerWriter, Dialect, Framing, Reply, Stamp, StampSource, begin_answer};

/// Bytes that all requests and answers may hold; clients that would add to more must wait.
const MEMORY: usize = 16 << 20;
/// How long a client is waited for when others want its place, in nanoseconds.
const SLOW: u64 = 1_000_000_000;
/// Stored answers, and their bytes, at most.
const STORED: (usize, usize) = (64, 4 << 20);

/// What a server is told.
#[derive(Clone, Debug, Default)]
pub struct ServeSettings {
    /// Who may call.
    pub access: Access,
    /// Makes names and seeds unlike those of other machines.
    pub seed: u64,
    /// Whether that can be guessed, because the machine has no source of random numbers: `/health` tells.
    pub guessable: bool,
    /// Seconds from 1970 to when the clock began.
    pub epoch: u64,
}

/// A server of one model at a time.
pub struct Server {
    models: Models,
    clock: Arc<dyn Clock>,
    settings: ServeSettings,
    clients: Vec<Option<Client>>,
    responses: ResponseStore,
    stamps: StampSource,
    /// Where pages and texts outlive a power cut.
    data: Option<DataStore>,
    requests: u64,
    steps: u64,
    /// How clients are talked to, if not in plain.
    tls: Option<Tls>,
    /// Why the last answer that ended failed, where the machine was to blame.
    failing: Option<String>,
    /// When the TPM signs again.
    next_quote: u64,
}

/// A client, as long as its connection lasts.
struct Client {
    /// The connection's.
    number: u64,
    session: Option<Session>,
    http: http::Connection,
    origin: Option<String>,
    /// The header that names its request.
    id: Option<(&'static str, String)>,
    answer: Option<PendingAnswer>,
    vectors: Option<PendingVectors>,
    /// What it asked before there was a model.
    early: Option<Box<(Head, Vec<u8>)>>,
}

/// Embeddings in the making.
struct PendingVectors {
    run: VectorRun,
    write: ReplyWriter<Embeddings>,
    /// Whose faults are written.
    dialect: &'static Dialect,
    /// When they were asked for.
    since: u64,
}

/// An answer in the making.
struct PendingAnswer {
    generation: Generation,
    writer: Box<dyn AnswerWriter>,
    /// What is not written yet.
    events: Vec<Event>,
    /// What is not sent yet.
    bytes: Vec<u8>,
    begun: bool,
}

impl Server {
    /// A server of a model.
    pub fn new(model: LocalModel, clock: Arc<dyn Clock>, settings: ServeSettings) -> Self {
        let mut server = Self::starting("", clock, settings);
        server.put_model(model, Duration::ZERO);
        server
    }

    /// A server whose model is still coming: it says that it is well, and whoever asks for more waits.
    pub fn starting(coming: &str, clock: Arc<dyn Clock>, settings: ServeSettings) -> Self {
        Self {
            models: Models::starting(coming),
            data: None,
            clock,
            stamps: StampSource::new(settings.seed),
            settings,
            clients: (0..CONNECTIONS).map(|_| None).collect(),
            responses: ResponseStore::new(STORED.0, STORED.1),
            requests: 0,
            steps: 0,
            tls: None,
            failing: None,
            next_quote: 0,
        }
    }

    /// Lists models that the machine may change to when clients ask for them.
    pub fn list(&mut self, models: Vec<ModelFacts>) {
        for facts in models {
            self.models.list(facts);
        }
    }

    /// What is told of all models.
    pub fn listed(&self) -> Vec<ModelFacts> {
        self.models.facts()
    }

    /// The model that a client has asked for since the last look, if it is not the one that answers.
    pub fn take_wanted(&mut self) -> Option<String> {
        self.models.take_wanted()
    }

    /// From now on new requests are told to come again: a model of that name is coming. Those that run go on.
    pub fn retire(&mut self, coming: &str) {
        self.models.retire(coming);
    }

    /// Whether no client waits for an answer of the model.
    pub fn is_drained(&self) -> bool {
        let mut clients = self.clients.iter().flatten();
        clients.all(|client| client.answer.is_none() && client.vectors.is_none())
    }

    /// Takes the model away, once the server [is drained](Self::is_drained); clients stay.
    pub fn take_model(&mut self) -> Option<LocalModel> {
        self.models.take()
    }

    /// Answers with this model from now on; it took so long to load.
    pub fn put_model(&mut self, model: LocalModel, took: Duration) {
        let clock = Arc::clone(&self.clock);
        let model = model.with_clock(Arc::clone(&clock));
        self.models.put(model, clock.now_ns(), took);
        self.data = None;
        self.failing = None;
    }

    /// The model that was to come does not: clients that ask for it are told why.
    pub fn refuse_model(&mut self, name: &str, why: &str) {
        self.models.refuse(name, why);
    }

    /// Sends all clients away, and talks to those that come as these settings say.
    pub fn start_over(&mut self, access: Access, tls: Option<Tls>) {
        for index in 0..CONNECTIONS {
            let gone = self.clients[index].take();
            self.disconnect(gone);
        }
        self.settings.access = access;
        self.tls = tls;
    }

    /// The server by TLS alone.
    #[must_use]
    pub fn with_tls(self, tls: Option<Tls>) -> Self {
        Self { tls, ..self }
    }

    /// What its addresses begin with.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The engine's numbers.
    pub fn counters(&self) -> Option<&Counters> {
        let loaded = self.models.loaded()?;
        Some(loaded.model.engine.counters())
    }

    /// What the model is that answers.
    pub fn facts(&self) -> Option<&ModelFacts> {
        self.models.loaded().map(|loaded| &loaded.model.facts)
    }

    /// Clients that are connected.
    pub fn clients(&self) -> usize {
        self.clients.iter().flatten().count()
    }

    /// Continues a text by at most so many tokens, and calls `emit` after each step with the text that is new. Clients are
    /// looked after meanwhile.
    pub fn continue_text(
        &mut self,
        mut network: Option<&mut Network<'_>>,
        start: &str,
        tokens: usize,
        emit: &mut dyn FnMut(&str),
    ) -> Result<(), Fault> {
        let mut request = Generate::new("", Prompt::text(start));
        request.max_tokens = Some(tokens);
        let now = self.clock.now_ns();
        let mut generation = self.generate(&request, &self.stamp(now), now)?;
        let clock = Arc::clone(&self.clock);
        let now = || Duration::from_nanos(clock.now_ns());
        if let Some(loaded) = self.models.loaded_mut() {
            loaded.leave(&generation);
        }
        while !generation.has_ended() {
            let (clients, Some(loaded)) = (&mut self.clients, self.models.loaded_mut()) else {
                break;
            };
            let slots = &mut loaded.slots;
            let events = generation.step(&mut loaded.model.engine, &now, &mut |event| {
                slots.hear(&event);
                deliver(clients, event, now());
            });
            emit(&text(&events)?);
            if let Some(network) = network.as_deref_mut() {
                network.poll(self.clock.now_ns());
                self.attend_all(network, &|| clock.now_ns());
            }
        }
        Ok(())
    }

    /// Makes a request ready and hands it to the engine.
    fn generate(
        &mut self,
        request: &Generate,
        stamp: &Stamp,
        now: u64,
    ) -> Result<Generation, Fault> {
        let seed = self.stamps.random();
        let loaded = self.models.answering(&request.model, now)?;
        let prepared = loaded.prepare(request, stamp.context(seed))?;
        let texts = data::texts(&prepared);
        let arrival = Arrival {
            at: Duration::from_nanos(now),
            load: Duration::ZERO,
        };
        let generation = loaded.model.start(request, prepared, arrival)?;
        loaded.expect(&generation, texts);
        self.models.begin();
        Ok(generation)
    }

    /// Looks after all clients and computes one step. Says whether there is more to compute.
    pub fn step(&mut self, network: &mut Network<'_>, now: impl Fn() -> u64) -> bool {
        self.attend_all(network, &now);
        let more = self.write_down();
        let (clients, Some(loaded)) = (&mut self.clients, self.models.loaded_mut()) else {
            return false;
        };
        if loaded.model.engine.is_idle() {
            return more;
        }
        let slots = &mut loaded.slots;
        loaded.model.engine.step(&mut |event| {
            slots.hear(&event);
            deliver(clients, event, Duration::from_nanos(now()));
        });
        true
    }

    /// Looks after all clients, also while there is no model.
    pub fn attend_all(&mut self, network: &mut Network<'_>, now: &dyn Fn() -> u64) {
        for index in 0..CONNECTIONS {
            let client = self.clients[index].take();
            self.clients[index] = self.attend(client, network.connection(index), now());
        }
        if network.take_turned_away() {
            self.make_room(network, now());
        }
    }

    /// Ends the connection that has been waiting for its client longest, if that is long: somebody else has come.
    fn make_room(&mut self, network: &mut Network<'_>, now: u64) {
        let waiting = self
            .clients
            .iter()
            .enumerate()
            .filter_map(|(index, client)| {
                let since = client.as_ref()?.http.waits_since()?;
                (now.saturating_sub(since) > SLOW).then_some((since, index))
            });
        let Some((_, index)) = waiting.min() else {
            return;
        };
        if let Some(mut connection) = network.connection(index) {
            connection.abort();
        }
        let gone = self.clients[index].take();
        self.disconnect(gone);
    }

    /// Reads what a client says, answers what can be answered, and sends what can be sent.
    fn attend(
        &mut self,
        client: Option<Client>,
        connection: Option<Connection<'_>>,
        now: u64,
    ) -> Option<Client> {
        let same = |client: &Client| {
            connection
                .as_ref()
                .is_some_and(|c| c.number == client.number)
        };
        let client = match client {
            Some(client) if same(&client) => Some(client),
            gone => {
                self.disconnect(gone);
                None
            }
        };
        let mut connection = connection?;
        let mut client = client.unwrap_or_else(|| Client {
            number: connection.number,
            session: self.tls.as_mut().map(Tls::session),
            http: http::Connection::new(now),
            origin: None,
            id: None,
            answer: None,
            vectors: None,
            early: None,
        });
        self.read(&mut client, &mut connection, now);
        if !connection.may_receive() && client.http.is_busy() {
            connection.abort();
            self.disconnect(Some(client));
            return None;
        }
        match client.http.next(now) {
            Next::Request(head, body) => self.handle(&mut client, head, body, now),
            Next::Refused(error) => self.refuse(&mut client, error, now),
            Next::Nothing if !connection.may_receive() => connection.close(),
            Next::Nothing if !self.models.is_starting() => {
                if let Some(early) = client.early.take() {
                    self.reply(&mut client, &early.0, &early.1, now);
                }
            }
            Next::Nothing => {}
        }
        self.advance(&mut client, now);
        stream::send(&mut client.session, &mut client.http, &mut connection, now);
        if client.http.is_stale(now) {
            connection.abort();
            self.disconnect(Some(client));
            return None;
        }
        Some(client)
    }

    fn read(&self, client: &mut Client, connection: &mut Connection<'_>, now: u64) {
        let sealed = |client: &Client| client.session.as_ref().map_or(0, Session::bytes);
        let clients = self.clients.iter().flatten();
        let early = |client: &Client| client.early.as_ref().map_or(0, |early| early.1.len());
        let held: usize = clients.map(|v| v.http.bytes() + sealed(v) + early(v)).sum();
        if held < MEMORY {
            stream::read(&mut client.session, &mut client.http, connection, now);
        }
    }

    /// A client has gone, and its work with it.
    fn disconnect(&mut self, client: Option<Client>) {
        let (Some(client), Some(loaded)) = (client, self.models.loaded_mut()) else {
            return;
        };
        if let Some(answer) = client.answer {
            answer.generation.cancel(&mut loaded.model.engine);
            loaded.leave(&answer.generation);
        }
        if let Some(vectors) = client.vectors {
            vectors.run.cancel(&mut loaded.model.engine);
        }
    }

    /// What came is no request.
    fn refuse(&mut self, client: &mut Client, error: http::HttpError, now: u64) {
        let kind = match error {
            http::HttpError::HeadTooLarge | http::HttpError::BodyTooLarge => FaultKind::TooLarge,
            http::HttpError::TargetTooLong => FaultKind::TargetTooLong,
            http::HttpError::Slow => FaultKind::Timeout,
            _ => FaultKind::BadRequest,
        };
        let stamp = self.stamp(now);
        let reply = openai::DIALECT.fault(&Fault::new(kind, error), &stamp);
        send_reply(client, &reply, now);
    }

    /// Tells a client what its answer has come to.
    fn advance(&mut self, client: &mut Client, now: u64) {
        self.advance_vectors(client, now);
        let (Some(answer), Some(loaded)) = (&mut client.answer, self.models.loaded_mut()) else {
            return;
        };
        let engine = &mut loaded.model.engine;
        let events = core::mem::take(&mut answer.events);
        for event in &events {
            match event {
                Event::Failed(Fault {
                    kind: FaultKind::InvalidModel | FaultKind::Internal,
                    message,
                    ..
                }) => self.failing = Some(message.clone()),
                Event::Done { .. } => self.failing = None,
                _ => {}
            }
        }
        let framing = answer.writer.framing();
        if answer.begun {
            for event in &events {
                answer.writer.event(event, &mut answer.bytes);
            }
        } else if let Err(reply) = begin_answer(&mut *answer.writer, &events, &mut answer.bytes) {
            answer.generation.cancel(engine);
            client.answer = None;
            send_reply(client, &reply, now);
            return;
        }
        if framing != Framing::Whole && !events.is_empty() {
            if !answer.begun {
                answer.begun = true;
                let mut headers: Vec<(&str, &str)> = framing.headers().collect();
                headers.extend(heard(&client.id, &client.origin, 200));
                client.http.begin(200, &headers, Sending::Pieces);
            }
            client.http.piece(&answer.bytes);
            answer.bytes.clear();
        }
        if !answer.generation.has_ended() {
            return;
        }
        if let Some(kept) = answer.writer.kept() {
            self.responses.keep(calls::OWNER, kept);
        }
        let bytes = core::mem::take(&mut answer.bytes);
        // A failure of one prompt ends the others.
        answer.generation.cancel(engine);
        client.answer = None;
        match framing {
            Framing::Whole => send_reply(
                client,
                &Reply {
                    status: 200,
                    content_type: framing.content_type(),
                    headers: Vec::new(),
                    body: bytes,
                },
                now,
            ),
            _ => client.http.end(now),
        }
    }

    /// Sends embeddings once there are all.
    fn advance_vectors(&mut self, client: &mut Client, now: u64) {
        let Some(result) = client.vectors.as_mut().and_then(|v| v.run.result()) else {
            return;
        };
        let Some(vectors) = client.vectors.take() else {
            return;
        };
        if let Some(loaded) = self.models.loaded_mut() {
            // A failure of one text ends the others.
            vectors.run.cancel(&mut loaded.model.engine);
        }
        let took = Duration::from_nanos(now.saturating_sub(vectors.since));
        let reply = match result {
            Ok(embeddings) => (vectors.write)(&Embeddings {
                timings: Timings {
                    total: took,
                    prompt: took,
                    ..Timings::default()
                },
                ..embeddings
            }),
            Err(fault) => vectors.dialect.fault(&fault, &self.stamp(now)),
        };
        send_reply(client, &reply, now);
    }

    fn stamp(&self, now: u64) -> Stamp {
        let now = Duration::from_nanos(now);
        let epoch = Duration::from_secs(self.settings.epoch);
        self.stamps.stamp(epoch.saturating_add(now))
    }

    fn handle(&mut self, client: &mut Client, head: Head, body: Vec<u8>, now: u64) {
        self.requests += 1;
        client.origin = head.origin.clone();
        if self.models.is_starting() && !needs_no_key(&head.method, head.path()) {
            client.early = Some(Box::new((head, body)));
        } else {
            self.reply(client, &head, &body, now);
        }
    }

    fn reply(&mut self, client: &mut Client, head: &Head, body: &[u8], now: u64) {
        if let Some(reply) = self.call(client, head, body, now) {
            send_reply(client, &reply, now);
        }
    }
}

/// Hands an event to the request that it belongs to.
fn deliver(clients: &mut [Option<Client>], event: EngineEvent, now: Duration) {
    let mut event = Some(event);
    for client in clients.iter_mut().flatten() {
        if let Some(answer) = &mut client.answer {
            event = event.and_then(|event| answer.generation.push(event, now, &mut answer.events));
        }
        if let Some(vectors) = &mut client.vectors {
            event = event.and_then(|event| vectors.run.push(event));
        }
    }
}

/// Sends a whole reply.
fn send_reply(client: &mut Client, reply: &Reply, now: u64) {
    let mut headers: Vec<_> = reply.all_headers().collect();
    headers.extend(heard(&client.id, &client.origin, reply.status));
    let sending = Sending::Whole(reply.body.len());
    client.http.begin(reply.status, &headers, sending);
    client.http.piece(&reply.body);
    client.http.end(now);
}

/// The name of the request, and what lets the page that called read the reply.
fn heard<'c>(
    id: &'c Option<(&'static str, String)>,
    origin: &'c Option<String>,
    status: u16,
) -> impl Iterator<Item = (&'static str, &'c str)> {
    let id = id.iter().map(|(name, value)| (*name, value.as_str()));
    let origin = origin.iter();
    id.chain(origin.flat_map(move |origin| cross_origin(origin, status)))
}
