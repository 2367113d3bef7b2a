//! From bytes of HTTP to a call, and from its outcome to bytes of HTTP.

use crate::access::{Client, Credentials};
use crate::body::ReplyBody;
use crate::encoding::Encoding;
use crate::observation::Observation;
use crate::page::{self, Asset};
use crate::state::Server;
use crate::trace::Context;
use crate::{call, library};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use strata_chat::{Fault, FaultKind};
use strata_wire::call::Call;
use strata_wire::dialect::{self, HttpRequest};
use strata_wire::{Dialect, Framing, Reply, RequestBody, Stamp, access};

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
}

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
pub(crate) async fn handle(server: Arc<Server>, request: Request<Incoming>) -> Answered {
    let route = route_of(request.uri().path());
    let origin = request.headers().get(header::ORIGIN).cloned();
    let stamp = server.stamp();
    let parent = request.headers().get("traceparent");
    let parent = parent.and_then(|value| Context::parse(value.to_str().ok()?));
    let asked = (request.method().as_str(), route);
    let observed = Observation::new(&server.observer, &stamp.id, asked, parent);
    let anthropic = request.headers().contains_key("anthropic-version");
    let dialect = Dialect::of(request.uri().path(), anthropic);
    let (name, id) = dialect.request_id(&stamp);
    let mut response = answer(&server, request, stamp, &observed).await;
    set_headers(&mut response, [(name, id.as_str())].into_iter());
    if let Some(origin) = origin.as_ref().and_then(|value| value.to_str().ok()) {
        let status = response.status().as_u16();
        set_headers(&mut response, access::cross_origin(origin, status));
    }
    observed.status(response.status());
    server
        .counts
        .count(route, response.status(), observed.start.elapsed());
    response
}

async fn answer(
    server: &Arc<Server>,
    request: Request<Incoming>,
    stamp: Stamp,
    observed: &Arc<Observation>,
) -> Answered {
    let (head, body) = request.into_parts();
    let target = head
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let anthropic = head.headers.contains_key("anthropic-version");
    let dialect = Dialect::of(target, anthropic);
    let fail = |fault: Fault| reply(dialect.fault(&fault, &stamp));
    let asset = wanted_asset(&head);
    // The page asks for a key itself where one is needed, and has nothing to hide.
    let open_to_all =
        dialect::needs_no_key(head.method.as_str(), head.uri.path()) || asset.is_some();
    let caller = credentials(&head.headers);
    let client = match server.settings.access.check(&caller) {
        Ok(client) => client,
        Err(fault) if open_to_all && fault.kind == FaultKind::Unauthenticated => Client::nobody(),
        Err(fault) => return fail(fault),
    };
    observed.client(client.name.as_deref());
    if head.method == Method::OPTIONS {
        let asked = text(&head.headers, header::ACCESS_CONTROL_REQUEST_HEADERS);
        return reply(access::preflight(asked));
    }
    if let Some(asset) = asset {
        return page(asset, &page::policy(head.uri.path(), head.uri.query()));
    }
    if server.is_draining() && !open_to_all {
        return fail(shutting_down());
    }
    let encoding = text(&head.headers, header::CONTENT_ENCODING);
    let encoding = match Encoding::parse(encoding) {
        Ok(encoding) => encoding,
        Err(fault) => return encoded(fail(fault)),
    };
    let route = dialect::route(head.method.as_str(), head.uri.path());
    if route.is_some_and(|route| route.body == RequestBody::Bytes) {
        if encoding != Encoding::Identity {
            return fail(Fault::new(
                FaultKind::Encoding,
                "blobs come as they are, not compressed",
            ));
        }
        return receive_blob(server, target, body, dialect, &stamp).await;
    }
    let body = match read(server, body, encoding).await {
        Ok(body) => body,
        Err(fault) => return fail(fault),
    };
    let asked = HttpRequest {
        method: head.method.as_str(),
        target,
        body: &body,
        anthropic,
    };
    let opened = {
        let mut stored = server.stored();
        let owner = client.owner();
        dialect::open(&asked, &stamp, &mut stored.of(&owner))
    };
    match opened {
        Ok(asked) => {
            let caller = Caller {
                client,
                wants_progress: wants_progress(&head.headers),
                stamp,
                observed: Arc::clone(observed),
                any_model: server.settings.any_model && dialect.allows_any_model(),
            };
            call::answer(server, &caller, asked, dialect).await
        }
        Err(refused) => reply(refused),
    }
}

/// A blob is as large as a model, so its bytes go to the disk as they come.
async fn receive_blob(
    server: &Arc<Server>,
    target: &str,
    body: Incoming,
    dialect: &Dialect,
    stamp: &Stamp,
) -> Answered {
    let asked = HttpRequest {
        method: "POST",
        target,
        body: &[],
        anthropic: false,
    };
    match dialect::open(&asked, stamp, &mut ()) {
        Ok(Call::BlobUpload(digest, write)) => match library::receive(server, digest, body).await {
            Ok(()) => reply(write(&())),
            Err(fault) => reply(dialect.fault(&fault, stamp)),
        },
        Ok(_) => {
            let fault = Fault::new(FaultKind::Internal, "the route does not take a blob");
            reply(dialect.fault(&fault, stamp))
        }
        Err(refused) => reply(refused),
    }
}

/// A refusal of an encoding, with those that are taken.
fn encoded(mut refused: Answered) -> Answered {
    set_headers(&mut refused, [("accept-encoding", "gzip")].into_iter());
    refused
}

async fn read(
    server: &Server,
    body: Incoming,
    encoding: Encoding,
) -> Result<hyper::body::Bytes, Fault> {
    let most = server.settings.max_body;
    let collected = Limited::new(body, most).collect();
    match tokio::time::timeout(server.settings.read_timeout, collected).await {
        Ok(Ok(body)) => encoding.decode(body.to_bytes(), most),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Fault::new(
            FaultKind::TooLarge,
            format_args!("the body is larger than {most} bytes"),
        )),
        Ok(Err(_)) => Err(Fault::bad_request("the body could not be read")),
        Err(_) => Err(Fault::new(
            FaultKind::Timeout,
            "the body did not arrive in time",
        )),
    }
}

fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let api_key = HeaderName::from_static("x-api-key");
    Credentials {
        authorization: text(headers, header::AUTHORIZATION),
        api_key: text(headers, api_key),
        host: text(headers, header::HOST),
        origin: text(headers, header::ORIGIN),
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
