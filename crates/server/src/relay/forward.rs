//! A request on its way to replicas, as often as it takes, and its answer on the way back, once.

use super::Relay;
use super::affinity::{Beginnings, object};
use super::delivered::{Delivered, EventCutter, Replayed};
use super::replica::{Begun, Forwarded, Replica, State};
use crate::body::ReplyBody;
use crate::generate::WAITING;
use crate::http::{Answered, reply};
use crate::log::LogLevel;
use crate::observation::Observation;
use crate::state::Server;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};
use strata_wire::{Dialect, Framing, Role, Route, STAMP_HEADER, Stamp};
use tokio::sync::mpsc;

/// How often a request is sent at most: what kills every replica must not do so forever.
const ATTEMPTS: usize = 6;
/// How long a request waits for some replica to take it.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a whole answer at most.
const LONGEST: usize = 256 << 20;

/// What replicas learn of a client.
static PASSED_ON: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    header::AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("traceparent"),
];

/// What clients learn of a replica's reply.
static PASSED_BACK: [HeaderName; 6] = [
    header::CONTENT_TYPE,
    header::CACHE_CONTROL,
    header::RETRY_AFTER,
    header::ALLOW,
    header::WWW_AUTHENTICATE,
    HeaderName::from_static("x-accel-buffering"),
];

/// A request that the server has let in.
pub(crate) struct Asked<'a> {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    pub(crate) route: Option<&'static Route>,
    /// Whose it is.
    pub(crate) tenant: u64,
    pub(crate) stamp: &'a Stamp,
    pub(crate) dialect: &'static Dialect,
    pub(crate) observed: &'a Arc<Observation>,
}

/// What all attempts at a request share.
struct Request {
    server: Arc<Server>,
    forwarded: Forwarded,
    beginnings: Beginnings,
    /// The replica that keeps what the request is about.
    keeper: Option<usize>,
    /// Whether it may be sent again once a replica has begun with it.
    repeatable: bool,
    /// Replicas that failed since the answer last went on.
    failed: Vec<usize>,
    attempts: usize,
    stamp: Stamp,
    dialect: &'static Dialect,
    observed: Arc<Observation>,
}

/// Answers a request with what a replica answers.
pub(crate) async fn answer(server: &Arc<Server>, relay: &Arc<Relay>, asked: Asked<'_>) -> Answered {
    let fail = |fault: &Fault| reply(asked.dialect.fault(fault, asked.stamp));
    if let Some(route) = asked.route
        && route.role == Role::Administrator
    {
        let problem = "a relay does not change replicas: ask one of them";
        return fail(&Fault::new(FaultKind::Unsupported, problem));
    }
    let mut request = Request::new(server, relay, asked);
    match request.begin(relay).await {
        Ok(answered) => answered,
        Err(fault) => reply(request.dialect.fault(&fault, &request.stamp)),
    }
}

impl Request {
    fn new(server: &Arc<Server>, relay: &Arc<Relay>, asked: Asked<'_>) -> Self {
        let Asked { head, body, .. } = asked;
        let mut headers = HeaderMap::new();
        let anthropic = head
            .headers
            .keys()
            .filter(|name| name.as_str().starts_with("anthropic-"));
        for name in PASSED_ON.iter().chain(anthropic) {
            for value in head.headers.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        if let Ok(stamp) = HeaderValue::from_str(&asked.stamp.header()) {
            headers.insert(STAMP_HEADER, stamp);
        }
        let path = asked.route.map_or("", |route| route.path);
        // Kept objects are where they were made. All else has the same answer everywhere, and leaves nothing behind.
        let about_kept = path.contains("{id}") && path != "/v1/models/{id}";
        let keeps = path == "/v1/conversations"
            || path == "/v1/responses"
            || path == "/v1/chat/completions";
        let keeper = if about_kept {
            let (before, after) = path.split_once("{id}").unwrap_or((path, ""));
            let id = head.uri.path().strip_prefix(before);
            let id = id.map(|id| id.strip_suffix(after).unwrap_or(id));
            let id = id.and_then(|id| id.split('/').next());
            id.and_then(|id| relay.affinity().get(object(id)))
        } else {
            keeps.then(|| keeper_of(relay, &body)).flatten()
        };
        let target = head.uri.path_and_query();
        Self {
            server: Arc::clone(server),
            beginnings: Beginnings::read(&body, asked.tenant),
            keeper,
            repeatable: (!about_kept && path != "/v1/conversations") || head.method == Method::GET,
            failed: Vec::new(),
            attempts: 0,
            stamp: asked.stamp.clone(),
            dialect: asked.dialect,
            observed: Arc::clone(asked.observed),
            forwarded: Forwarded {
                target: target.map_or("/", |target| target.as_str()).into(),
                method: head.method,
                headers,
                body,
            },
        }
    }

    /// Sends the request until a replica answers it.
    async fn send(&mut self, relay: &Relay) -> Result<(Arc<Replica>, Begun), Fault> {
        let since = Instant::now();
        let mut refused = None;
        while self.attempts < ATTEMPTS && since.elapsed() < PATIENCE {
            let up = |at: &usize| relay.replicas[*at].state() == State::Up;
            let chosen = match self.keeper {
                Some(keeper) => Some(keeper).filter(up),
                None => relay.choose(&self.beginnings, &self.failed),
            };
            let Some(at) = chosen else {
                // Those that failed may have come back.
                self.failed.clear();
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            self.attempts += 1;
            let replica = Arc::clone(&relay.replicas[at]);
            replica.given.fetch_add(1, Ordering::Relaxed);
            match replica.send(self.forwarded.clone()).await {
                Ok(begun) if begun.response.status() == StatusCode::SERVICE_UNAVAILABLE => {
                    refused = Some((Arc::clone(&replica), begun));
                    self.failed.push(at);
                }
                Ok(begun) => {
                    relay.affinity().insert(object(&self.stamp.id), at);
                    return Ok((replica, begun));
                }
                Err(_) => {
                    replica.close();
                    self.failed.push(at);
                    if !self.repeatable {
                        break;
                    }
                }
            }
            self.again(&relay.resent, &replica, "a request is sent again");
        }
        // What a replica says of why it is busy says more than we know.
        refused.ok_or_else(|| {
            let kind = FaultKind::Unavailable {
                retry_after: Duration::from_secs(2),
            };
            Fault::new(kind, "no replica answers")
        })
    }

    fn again(&self, count: &AtomicU64, replica: &Replica, message: &str) {
        count.fetch_add(1, Ordering::Relaxed);
        let pairs = [
            ("id", self.stamp.id.as_str().into()),
            ("replica", replica.host.as_str().into()),
        ];
        self.server
            .observer
            .log
            .say(LogLevel::Warn, message, &pairs);
    }

    async fn begin(&mut self, relay: &Arc<Relay>) -> Result<Answered, Fault> {
        loop {
            let (replica, begun) = self.send(relay).await?;
            let (status, headers) = (begun.response.status(), begun.response.headers().clone());
            let body = match framing(&headers) {
                Framing::Whole => match whole(&replica, begun).await {
                    Some(bytes) => ReplyBody::whole(bytes),
                    None if self.repeatable && self.attempts < ATTEMPTS => {
                        self.failed.extend(relay.place(&replica));
                        self.again(&relay.resent, &replica, "a request is sent again");
                        continue;
                    }
                    None => {
                        let problem = "the replica broke off";
                        return Err(Fault::new(FaultKind::Internal, problem));
                    }
                },
                framing => {
                    let (sender, receiver) = mpsc::channel(WAITING);
                    let stream = Stream {
                        request: self.take(),
                        relay: Arc::clone(relay),
                        framing,
                        sender,
                        delivered: Delivered::default(),
                    };
                    tokio::spawn(stream.run(replica, begun));
                    ReplyBody::Stream(receiver)
                }
            };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            for name in &PASSED_BACK {
                if let Some(value) = headers.get(name) {
                    response.headers_mut().insert(name, value.clone());
                }
            }
            return Ok(response);
        }
    }

    /// The request, for the task that delivers its answer.
    fn take(&mut self) -> Self {
        Self {
            server: Arc::clone(&self.server),
            forwarded: self.forwarded.clone(),
            beginnings: std::mem::take(&mut self.beginnings),
            keeper: self.keeper,
            repeatable: self.repeatable,
            failed: Vec::new(),
            attempts: self.attempts,
            stamp: self.stamp.clone(),
            dialect: self.dialect,
            observed: Arc::clone(&self.observed),
        }
    }
}

impl Relay {
    fn place(&self, replica: &Arc<Replica>) -> Option<usize> {
        self.replicas
            .iter()
            .position(|other| Arc::ptr_eq(other, replica))
    }
}

/// The replica that keeps what a request goes on from.
fn keeper_of(relay: &Relay, body: &[u8]) -> Option<usize> {
    let json = Json::parse(body).ok()?;
    let conversation = json.get("conversation");
    let conversation = conversation.and_then(|value| value.as_str().or(value.get("id")?.as_str()));
    let previous = json.get("previous_response_id").and_then(Json::as_str);
    relay.affinity().get(object(previous.or(conversation)?))
}

fn framing(headers: &HeaderMap) -> Framing {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|value| value.to_str().ok()).unwrap_or("");
    let is = |framing: Framing| kind.starts_with(framing.content_type());
    if is(Framing::Events) {
        Framing::Events
    } else if is(Framing::Lines) {
        Framing::Lines
    } else {
        Framing::Whole
    }
}

/// The whole body of an answer; `None` if it breaks off.
async fn whole(replica: &Replica, mut begun: Begun) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        match next(replica, &mut begun).await {
            Piece::Bytes(piece) if bytes.len() + piece.len() <= LONGEST => {
                bytes.extend_from_slice(&piece);
            }
            Piece::End => return Some(bytes),
            Piece::Bytes(_) | Piece::Cut => return None,
        }
    }
}

enum Piece {
    Bytes(Bytes),
    End,
    /// The answer ends before its end.
    Cut,
}

async fn next(replica: &Replica, begun: &mut Begun) -> Piece {
    let body = begun.response.body_mut();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = replica.lost() => return Piece::Cut,
        };
        match frame {
            None => return Piece::End,
            Some(Err(_)) => return Piece::Cut,
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Piece::Bytes(data);
                }
            }
        }
    }
}

/// A streamed answer on its way to a client.
struct Stream {
    request: Request,
    relay: Arc<Relay>,
    framing: Framing,
    sender: mpsc::Sender<Bytes>,
    /// What the client has.
    delivered: Delivered,
}

/// How a replica's part of a stream ended.
enum Ended {
    /// With the answer.
    Whole,
    /// Before it.
    Cut,
    /// The client has gone, or does not listen.
    Unheard,
    /// The replica tells another story.
    Differs,
}

impl Stream {
    async fn run(mut self, mut replica: Arc<Replica>, mut begun: Begun) {
        // The first answer is the one to compare with.
        let mut replayed = None;
        loop {
            match self.pass_on(&replica, begun, replayed).await {
                Ended::Whole | Ended::Unheard => return,
                Ended::Differs => {
                    let problem = "the answer broke off, and another replica answers differently";
                    let host = replica.host.as_str().into();
                    let pairs = [
                        ("id", self.request.stamp.id.as_str().into()),
                        ("replica", host),
                    ];
                    self.request
                        .server
                        .observer
                        .log
                        .say(LogLevel::Error, problem, &pairs);
                    return self.fail(&Fault::new(FaultKind::Internal, problem)).await;
                }
                Ended::Cut => {}
            }
            self.request.failed.extend(self.relay.place(&replica));
            self.request
                .again(&self.relay.resumed, &replica, "a stream goes on elsewhere");
            let sending = self.request.send(&self.relay);
            let sent = tokio::select! {
                sent = sending => sent,
                () = self.sender.closed() => return,
            };
            (replica, begun) = match sent {
                Ok((replica, begun)) if framing(begun.response.headers()) == self.framing => {
                    (replica, begun)
                }
                Ok(_) => {
                    let problem = "the answer broke off, and no other replica can go on";
                    return self.fail(&Fault::new(FaultKind::Internal, problem)).await;
                }
                Err(fault) => return self.fail(&fault).await,
            };
            replayed = Some(Delivered::default());
        }
    }

    /// Passes on what one replica sends. `replayed` is what came of the answer again, until it is new.
    async fn pass_on(
        &mut self,
        replica: &Replica,
        mut begun: Begun,
        mut replayed: Option<Delivered>,
    ) -> Ended {
        let mut cutter = EventCutter::new(self.framing);
        loop {
            let piece = tokio::select! {
                piece = next(replica, &mut begun) => piece,
                () = self.sender.closed() => return Ended::Unheard,
            };
            let bytes = match piece {
                Piece::Bytes(bytes) => bytes,
                Piece::End => {
                    let behind = replayed.is_some_and(|again| !again.covers(&self.delivered));
                    return if behind { Ended::Differs } else { Ended::Whole };
                }
                Piece::Cut => return Ended::Cut,
            };
            if cutter.push(&bytes).is_err() {
                return Ended::Cut;
            }
            let mut out = Vec::new();
            while let Some(event) = cutter.next() {
                let told = match &mut replayed {
                    None => {
                        self.delivered.note(&event);
                        Replayed::Deliver
                    }
                    Some(again) => again.replay(&event, &mut self.delivered),
                };
                match told {
                    Replayed::Skip => {}
                    Replayed::Deliver => out.extend_from_slice(&event),
                    Replayed::Differs => return Ended::Differs,
                }
            }
            if !out.is_empty() && !self.deliver(out.into()).await {
                return Ended::Unheard;
            }
        }
    }

    async fn deliver(&self, bytes: Bytes) -> bool {
        let stall = self.request.server.settings.budgets.stall;
        let sent = tokio::time::timeout(stall, self.sender.send(bytes)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Ends the stream with a fault, in the words of its dialect.
    async fn fail(&self, fault: &Fault) {
        self.request.observed.failed();
        let document = self.request.dialect.fault(fault, &self.request.stamp).body;
        let (before, after): (&[u8], &[u8]) = match self.framing {
            Framing::Events => (b"event: error\ndata: ", b"\n\n"),
            Framing::Whole | Framing::Lines => (b"", b"\n"),
        };
        self.deliver([before, &document, after].concat().into())
            .await;
    }
}
