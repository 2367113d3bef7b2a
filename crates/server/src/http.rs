//! From bytes of HTTP to a call, and from its outcome to bytes of HTTP.

use crate::access::{Client, Credentials};
use crate::body::{ReplyBody, SentBody};
use crate::encoding::Encoding;
use crate::observation::Observation;
use crate::page::{self, Asset};
use crate::places::Room;
use crate::pulse::RequestInFlight;
use crate::request_body::{LargePlace, check_length, drain};
use crate::state::Server;
use crate::trace::Context;
use crate::{call, library, relay, request_body};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use strata_chat::json::Json;
use strata_chat::{Constraints, Fault, FaultKind, Message};
use strata_wire::access::Site;
use strata_wire::call::{Call, Recall};
use strata_wire::dialect::{self, HttpRequest};
use strata_wire::{Dialect, Framing, Reply, RequestBody, STAMP_HEADER, Stamp, access};

/// Who asks, and what the answer is called and seen by.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    /// Whether it wants to know where its request stands before the first token.
    pub(crate) wants_progress: bool,
    pub(crate) stamp: Stamp,
    pub(crate) observed: Arc<Observation>,
    /// A model that nobody knows means the first.
    pub(crate) any_model: bool,
    /// Its place among the large requests, if it is one.
    pub(crate) large: LargePlace,
    /// What its session holds it to, if it is of one.
    pub(crate) constraints: Option<Arc<Constraints>>,
}

/// Bytes of a body that is parsed where it was read.
const SHORT: usize = 16 << 10;

/// A reply on its way out.
pub(crate) type Answered = Response<ReplyBody>;

/// An answer that is sent as its dialect says.
pub(crate) fn answered(framing: Framing, body: ReplyBody) -> Answered {
    let mut response = Response::new(body);
    set_headers(&mut response, framing.headers());
    response
}

/// A whole reply of a dialect as HTTP.
pub(crate) fn reply(reply: Reply) -> Answered {
    let mut response = Response::new(ReplyBody::whole(Vec::new()));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    set_headers(&mut response, reply.all_headers());
    *response.body_mut() = ReplyBody::whole(reply.body);
    response
}

fn set_headers<'h>(
    response: &mut Answered,
    headers: impl Iterator<Item = (&'static str, &'h str)>,
) {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            let name = HeaderName::from_static(name);
            response.headers_mut().insert(name, value);
        }
    }
}

/// Answers one request.
pub(crate) async fn handle(
    server: Arc<Server>,
    in_flight: RequestInFlight,
    (room, user): (Room, Option<u32>),
    request: Request<Incoming>,
) -> Response<SentBody> {
    let route = route_of(request.uri().path());
    let stamp = brought_stamp(request.headers()).flatten();
    let stamp = stamp.unwrap_or_else(|| server.stamp());
    let parent = request.headers().get("traceparent");
    let parent = parent.and_then(|value| Context::parse(value.to_str().ok()?));
    let asked = (request.method().as_str(), route);
    let observed = Observation::new(&server.observer, &stamp.id, asked, parent);
    let anthropic = request.headers().contains_key("anthropic-version");
    let dialect = Dialect::of(request.uri().path(), anthropic);
    let (name, id) = dialect.request_id(&stamp);
    let origin = request.headers().get(header::ORIGIN).cloned();
    let admitted = admit(&server, &request);
    // Whoever may not call must not read why.
    let origin = origin.filter(|_| admitted.is_ok());
    let counted = server.count();
    let (head, body) = request.into_parts();
    let keyless = dialect::needs_no_key(head.method.as_str(), head.uri.path());
    let crowded = (room == Room::Health || counted.is_none()) && !keyless;
    let answering = Answering {
        server: &server,
        dialect,
        stamp,
        observed: &observed,
        in_flight: &in_flight,
        user,
    };
    let mut response = match admitted {
        Err(fault) => answering.refuse(&fault, body),
        Ok(()) if crowded => {
            server.crowded.fetch_add(1, Ordering::Relaxed);
            answering.refuse(&no_room(), body)
        }
        Ok(()) => answering.answer(head, body).await,
    };
    if room == Room::Health {
        set_headers(&mut response, [("connection", "close")].into_iter());
    }
    set_headers(&mut response, [(name, id.as_str())].into_iter());
    if let Some(origin) = origin.as_ref().and_then(|value| value.to_str().ok()) {
        let status = response.status().as_u16();
        set_headers(&mut response, access::cross_origin(origin, status));
    }
    observed.status(response.status());
    server
        .counts
        .count(route, response.status(), observed.start.elapsed());
    response.map(|body| SentBody::new(body, in_flight, counted))
}

/// Looks at what a request's head says of its target, its site and its body, before anything else.
fn admit(server: &Server, request: &Request<Incoming>) -> Result<(), Fault> {
    let headers = request.headers();
    let values = |name: HeaderName| headers.get_all(name).into_iter().map(HeaderValue::as_bytes);
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str());
    let site = Site::read(authority, values(header::HOST), values(header::ORIGIN))?;
    server.settings.access.check_site(site)?;
    let target = request.uri().path_and_query();
    let most = server.settings.budgets.target_bytes;
    if target.is_some_and(|target| target.as_str().len() > most) {
        let problem = format_args!("the target is longer than {most} bytes");
        return Err(Fault::new(FaultKind::TargetTooLong, problem));
    }
    let mut encodings = values(header::TRANSFER_ENCODING);
    let clear = match (encodings.next(), encodings.next()) {
        (None, _) => true,
        (Some(encoding), None) => encoding.eq_ignore_ascii_case(b"chunked"),
        _ => false,
    };
    if !clear {
        let problem = "the body's length is not given in one clear way";
        return Err(Fault::bad_request(problem));
    }
    if brought_stamp(headers) == Some(None) {
        let problem = "the header strata-stamp is not ID-SECONDS-NANOSECONDS in hexadecimal";
        return Err(Fault::bad_request(problem));
    }
    Ok(())
}

/// The stamp that a request brings, if it brings one, and if that is one.
fn brought_stamp(headers: &HeaderMap) -> Option<Option<Stamp>> {
    let value = headers.get(STAMP_HEADER)?;
    Some(value.to_str().ok().and_then(Stamp::parse))
}

/// A request on its way to an answer.
struct Answering<'a> {
    server: &'a Arc<Server>,
    dialect: &'static Dialect,
    stamp: Stamp,
    observed: &'a Arc<Observation>,
    in_flight: &'a RequestInFlight,
    /// The user of this machine who asks, where the system says so.
    user: Option<u32>,
}

impl Answering<'_> {
    fn fail(&self, fault: &Fault) -> Answered {
        reply(self.dialect.fault(fault, &self.stamp))
    }

    /// Refuses a request whose body has not been read, and ends its connection.
    fn refuse(&self, fault: &Fault, body: Incoming) -> Answered {
        let mut refused = self.fail(fault);
        if !body.is_end_stream() {
            set_headers(&mut refused, [("connection", "close")].into_iter());
            drain(body);
        }
        refused
    }

    async fn answer(self, head: Parts, body: Incoming) -> Answered {
        let server = self.server;
        let (method, path) = (head.method.as_str(), head.uri.path());
        let asset = wanted_asset(&head);
        // The page asks for a key itself where one is needed, and has nothing to hide.
        let open_to_all = dialect::needs_no_key(method, path) || asset.is_some();
        let access = &server.settings.access;
        let checked = match self.user {
            Some(uid) => Ok(access.user(uid)),
            None => access.check(&credentials(&head.headers)),
        };
        let client = match checked {
            Ok(client) => client,
            Err(fault) if open_to_all && fault.kind == FaultKind::Unauthenticated => {
                Client::nobody()
            }
            Err(fault) => return self.refuse(&fault, body),
        };
        self.observed.client(client.name.as_deref());
        if head.method == Method::OPTIONS {
            let asked = text(&head.headers, header::ACCESS_CONTROL_REQUEST_HEADERS);
            return reply(access::preflight(asked));
        }
        if let Some(asset) = asset {
            return page(asset, &page::policy(path, head.uri.query()));
        }
        if server.is_draining() && !open_to_all {
            return self.refuse(&shutting_down(), body);
        }
        let route = dialect::route(method, path);
        if let Some(route) = route
            && let Err(fault) = client.may_act_as(route.role)
        {
            return self.refuse(&fault, body);
        }
        let encoding = text(&head.headers, header::CONTENT_ENCODING);
        let encoding = match Encoding::parse(encoding) {
            Ok(encoding) => encoding,
            Err(fault) => return encoded(self.refuse(&fault, body)),
        };
        if route.is_some_and(|route| route.body == RequestBody::Bytes) {
            if encoding != Encoding::Identity {
                let problem = "blobs come as they are, not compressed";
                return self.refuse(&Fault::new(FaultKind::Encoding, problem), body);
            }
            return self.receive_blob(&head, body).await;
        }
        if let Err(fault) = check_length(server, &body) {
            return self.refuse(&fault, body);
        }
        let (bytes, large) = match request_body::read(server, self.in_flight, body, encoding).await
        {
            Ok(read) => read,
            Err(fault) => {
                let mut refused = self.fail(&fault);
                set_headers(&mut refused, [("connection", "close")].into_iter());
                return refused;
            }
        };
        if let Some(relay) = &server.relay
            && !is_answered_by_relay(head.uri.path())
        {
            // Replicas read it next, each in its turn.
            large.release();
            let asked = relay::Asked {
                head,
                body: bytes,
                route,
                tenant: client.number,
                stamp: &self.stamp,
                dialect: self.dialect,
                observed: self.observed,
            };
            return relay::answer(server, relay, asked).await;
        }
        let caller = Caller {
            wants_progress: wants_progress(&head.headers),
            any_model: server.settings.any_model && self.dialect.allows_any_model(),
            stamp: self.stamp.clone(),
            observed: Arc::clone(self.observed),
            client,
            large,
            constraints: None,
        };
        match self.open(head, bytes, &caller).await {
            Ok(Ok(asked)) => call::answer(server, &caller, asked, self.dialect).await,
            Ok(Err(refused)) => reply(refused),
            Err(fault) => self.fail(&fault),
        }
    }

    /// Reads what a request asks for; a long one on a thread that may take its time.
    async fn open(
        &self,
        head: Parts,
        body: Bytes,
        caller: &Caller,
    ) -> Result<Result<Call, Reply>, Fault> {
        let (server, stamp) = (Arc::clone(self.server), self.stamp.clone());
        let (owner, effort) = (caller.client.owner(), caller.large.effort());
        let short = body.len() <= SHORT;
        let open = move || {
            let asked = HttpRequest {
                method: head.method.as_str(),
                target: target(&head),
                body: &body,
                anthropic: head.headers.contains_key("anthropic-version"),
            };
            let mut recall = KeptByOwner {
                server: &server,
                owner,
            };
            Ok(dialect::open(&asked, &stamp, &mut recall))
        };
        if short {
            return open();
        }
        self.server.preparation.run(effort, open).await
    }

    /// A blob is as large as a model, so its bytes go to the disk as they come.
    async fn receive_blob(&self, head: &Parts, body: Incoming) -> Answered {
        let asked = HttpRequest {
            method: "POST",
            target: target(head),
            body: &[],
            anthropic: false,
        };
        match dialect::open(&asked, &self.stamp, &mut ()) {
            Ok(Call::BlobUpload(digest, write)) => {
                match library::receive(self.server, self.in_flight, digest, body).await {
                    Ok(()) => reply(write(&())),
                    Err(fault) => {
                        let mut refused = self.fail(&fault);
                        set_headers(&mut refused, [("connection", "close")].into_iter());
                        refused
                    }
                }
            }
            Ok(_) => self.fail(&Fault::new(
                FaultKind::Internal,
                "the route does not take a blob",
            )),
            Err(refused) => {
                drain(body);
                reply(refused)
            }
        }
    }
}

/// Whether a relay speaks for itself there.
fn is_answered_by_relay(path: &str) -> bool {
    matches!(
        path,
        "/" | "/health" | "/v1/health" | "/ready" | "/metrics" | "/openapi.json" | "/usage"
    ) || path.starts_with("/sessions")
}

/// The path of a request, with its query.
fn target(head: &Parts) -> &str {
    let target = head.uri.path_and_query();
    target.map_or("/", |target| target.as_str())
}

/// What a client kept, found when a request names it: nothing is locked while its body is parsed.
struct KeptByOwner<'s> {
    server: &'s Server,
    owner: String,
}

impl Recall for KeptByOwner<'_> {
    fn recall(&mut self, id: &str) -> Option<Vec<Message>> {
        self.server.stored().of(&self.owner).recall(id)
    }

    fn document(&mut self, id: &str) -> Option<Json> {
        self.server.stored().of(&self.owner).document(id)
    }

    fn conversation(&mut self, id: &str) -> Option<Vec<Json>> {
        self.server.stored().of(&self.owner).conversation(id)
    }
}

/// Why a request has to come back later.
fn no_room() -> Fault {
    let kind = FaultKind::Unavailable {
        retry_after: Duration::from_secs(1),
    };
    Fault::new(kind, "the server has as many clients as it can look after")
}

/// A refusal of an encoding, with those that are taken.
fn encoded(mut refused: Answered) -> Answered {
    set_headers(&mut refused, [("accept-encoding", "gzip")].into_iter());
    refused
}

fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let api_key = HeaderName::from_static("x-api-key");
    Credentials {
        authorization: text(headers, header::AUTHORIZATION),
        api_key: text(headers, api_key),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a client reads comments among server-sent events that say where its request stands.
fn wants_progress(headers: &HeaderMap) -> bool {
    let asked = headers.get("strata-progress");
    asked.is_some_and(|value| value == "comments")
}

/// The part of the page that a browser asks for.
fn wanted_asset(head: &Parts) -> Option<Asset> {
    if head.method != Method::GET && head.method != Method::HEAD {
        return None;
    }
    let accept = head
        .headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    match head.uri.path() {
        "/" => page::is_wanted(accept).then(page::index),
        path => page::asset(path),
    }
}

fn page(asset: Asset, policy: &str) -> Answered {
    let mut response = Response::new(ReplyBody::whole(asset.bytes));
    let headers = [
        ("content-type", asset.content_type),
        ("content-security-policy", policy),
        ("cache-control", "no-cache"),
        ("x-content-type-options", "nosniff"),
        ("vary", "accept"),
    ];
    set_headers(&mut response, headers.into_iter());
    response
}

/// Why a server that is told to stop takes no request.
pub(crate) fn shutting_down() -> Fault {
    let kind = FaultKind::Unavailable {
        retry_after: Duration::from_secs(5),
    };
    Fault::new(kind, "the server is shutting down")
}

/// A path for the metrics: one of ours, so that strangers cannot make up labels.
fn route_of(path: &str) -> &'static str {
    match dialect::pattern(path) {
        Some(pattern) => pattern,
        None if page::asset(path).is_some() => "page",
        None => "other",
    }
}
