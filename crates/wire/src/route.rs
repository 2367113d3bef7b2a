//! Which path is whose: one table of all routes, for every server and for the OpenAPI document.

use crate::answer::{Framing, Reply, Stamp};
use crate::call::{Call, Recall};
use crate::summaries::summary;
use crate::{anthropic, llama_server, ollama, openai};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};

/// A request as it came over the wire.
#[derive(Copy, Clone, Debug)]
pub struct HttpRequest<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// The path, with its query.
    pub target: &'a str,
    /// The body, whole.
    pub body: &'a [u8],
}

/// Whose words a reply is in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain names")]
pub enum Dialect {
    OpenAi,
    Anthropic,
    Ollama,
    LlamaServer,
}

/// The routes that belong to no dialect, with their methods.
pub const OWN: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/health"),
    ("GET", "/v1/health"),
    ("GET", "/ready"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
];

/// All routes with their methods: `{id}` stands for a name.
pub fn routes() -> impl Iterator<Item = (Dialect, &'static str, &'static str)> {
    let own = OWN
        .iter()
        .map(|&(method, path)| (Dialect::LlamaServer, method, path));
    let tables = [
        (Dialect::OpenAi, openai::ROUTES),
        (Dialect::Anthropic, anthropic::ROUTES),
        (Dialect::Ollama, ollama::ROUTES),
        (Dialect::LlamaServer, llama_server::ROUTES),
    ];
    let others = tables.into_iter().flat_map(|(dialect, table)| {
        let routes = table.iter();
        routes.map(move |&(method, path)| (dialect, method, path))
    });
    own.chain(others)
}

impl Dialect {
    /// The dialect that a path belongs to; for unknown paths the one whose clients would ask for it.
    pub fn of_path(target: &str) -> Self {
        match pattern_of(path_of(target)) {
            Some((dialect, _)) => dialect,
            None if target.starts_with("/api/") => Self::Ollama,
            None if target.starts_with("/v1/") => Self::OpenAi,
            None => Self::LlamaServer,
        }
    }

    /// A fault in this dialect's words.
    pub fn fault(self, fault: &Fault, stamp: &Stamp) -> Reply {
        match self {
            Self::OpenAi => openai::fault(fault),
            Self::Anthropic => anthropic::fault(fault, stamp),
            Self::Ollama => ollama::fault(fault),
            Self::LlamaServer => llama_server::fault(fault),
        }
    }
}

/// Whether anyone may ask for a path without a key: only whether the server lives.
pub fn needs_no_key(path: &str) -> bool {
    matches!(path, "/health" | "/v1/health" | "/ready")
}

/// The route that a path belongs to, as it stands in the table.
pub fn pattern(path: &str) -> Option<&'static str> {
    pattern_of(path).map(|(_, pattern)| pattern)
}

fn pattern_of(path: &str) -> Option<(Dialect, &'static str)> {
    let found = routes().find(|(_, _, pattern)| matches(pattern, path));
    found.map(|(dialect, _, pattern)| (dialect, pattern))
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some("{id}"), Some(name)) if !name.is_empty() => {}
            (Some(a), Some(b)) if a == b => {}
            _ => return false,
        }
    }
}

fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// Reads a request; what cannot be read is a reply already.
pub fn open(
    request: &HttpRequest<'_>,
    stamp: &Stamp,
    recall: &mut dyn Recall,
) -> Result<Call, Reply> {
    let HttpRequest {
        method,
        target,
        body,
    } = *request;
    let path = path_of(target);
    let dialect = Dialect::of_path(target);
    // The head of what can be got; the server leaves the body out.
    let method = match method {
        "HEAD" if known(path).any(|known| known == "GET") => "GET",
        method => method,
    };
    let call = own(method, path)
        .or_else(|| anthropic::open(method, target, body, stamp))
        .or_else(|| ollama::open(method, target, body, stamp))
        .or_else(|| llama_server::open(method, target, body))
        .or_else(|| openai::open(method, target, body, stamp, recall))
        .unwrap_or_else(|| {
            let problem = format_args!("there is nothing at {path}");
            Err(Fault::new(FaultKind::NotFound, problem))
        });
    call.map_err(|fault| {
        let mut reply = dialect.fault(&fault, stamp);
        if fault.kind == FaultKind::Method {
            reply.headers.push(("allow", methods(path)));
        }
        reply
    })
}

fn own(method: &str, path: &str) -> Option<Result<Call, Fault>> {
    let call = match path {
        "/" => Call::Front,
        "/health" | "/v1/health" => Call::Health,
        "/ready" => Call::Ready,
        "/metrics" => Call::Metrics,
        "/openapi.json" => Call::OpenApi,
        _ => return None,
    };
    Some(match method {
        "GET" | "HEAD" => Ok(call),
        _ => {
            let problem = format_args!("{path} is not asked with {method}");
            Err(Fault::new(FaultKind::Method, problem))
        }
    })
}

fn known(path: &str) -> impl Iterator<Item = &'static str> {
    let listed = routes().filter(move |(_, _, pattern)| matches(pattern, path));
    listed.map(|(_, method, _)| method)
}

/// The methods of a path, for the `Allow` header.
fn methods(path: &str) -> String {
    let mut known: Vec<&str> = known(path).collect();
    known.dedup();
    known.join(", ")
}

/// The OpenAPI document: the routes, what they take and what they give.
pub fn openapi() -> Json {
    let mut paths: Vec<(String, Json)> = Vec::new();
    for (dialect, method, path) in routes() {
        let operation = operation(dialect, method, path);
        let method = method.to_ascii_lowercase();
        match paths.iter_mut().find(|(known, _)| known == path) {
            Some((_, methods)) => methods.push(&method, operation),
            None => paths.push((path.into(), Json::object([(&*method, operation)]))),
        }
    }
    Json::object([
        ("openapi", "3.1.0".into()),
        (
            "info",
            Json::object([
                ("title", "Strata".into()),
                ("version", env!("CARGO_PKG_VERSION").into()),
            ]),
        ),
        ("paths", Json::Object(paths)),
        (
            "components",
            Json::object([(
                "securitySchemes",
                Json::object([(
                    "key",
                    Json::object([("type", "http".into()), ("scheme", "bearer".into())]),
                )]),
            )]),
        ),
    ])
}

/// The media type of an answer that comes piece by piece.
fn streams(path: &str) -> Option<&'static str> {
    let framing = match path {
        "/v1/chat/completions"
        | "/v1/completions"
        | "/v1/responses"
        | "/v1/messages"
        | "/completion"
        | "/completions"
        | "/infill" => Framing::Events,
        "/api/chat" | "/api/generate" | "/api/pull" | "/api/push" | "/api/create" => Framing::Lines,
        _ => return None,
    };
    Some(framing.content_type())
}

fn operation(dialect: Dialect, method: &str, path: &str) -> Json {
    let tag = match (OWN.iter().any(|&(_, own)| own == path), dialect) {
        (true, _) => "server",
        (_, Dialect::OpenAi) => "OpenAI",
        (_, Dialect::Anthropic) => "Anthropic",
        (_, Dialect::Ollama) => "Ollama",
        (_, Dialect::LlamaServer) => "llama-server",
    };
    let object = || Json::object([("schema", Json::object([("type", "object".into())]))]);
    let media = || Json::object([("application/json", object())]);
    let answer = |text: &str| Json::object([("description", text.into()), ("content", media())]);
    let mut given = media();
    if let Some(kind) = streams(path) {
        given.push(kind, object());
    }
    let given = Json::object([("description", "The answer.".into()), ("content", given)]);
    let responses = Json::object([
        ("200", given),
        ("default", answer("What is wrong, in this dialect's shape.")),
    ]);
    let mut operation = Json::object([
        ("tags", Json::array([tag.into()])),
        ("summary", summary(method, path).into()),
        ("operationId", format!("{method} {path}").into()),
        ("responses", responses),
    ]);
    if path.contains("{id}") {
        let id = Json::object([
            ("name", "id".into()),
            ("in", "path".into()),
            ("required", true.into()),
            ("schema", Json::object([("type", "string".into())])),
        ]);
        operation.push("parameters", Json::array([id]));
    }
    if path == "/api/blobs/{id}" && method == "POST" {
        let bytes = Json::object([("application/octet-stream", Json::Object(Vec::new()))]);
        operation.push("requestBody", Json::object([("content", bytes)]));
    } else if method == "POST" || path == "/api/delete" {
        operation.push("requestBody", Json::object([("content", media())]));
    }
    if !needs_no_key(path) {
        let key = Json::object([("key", Json::Array(Vec::new()))]);
        operation.push("security", Json::array([key]));
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, target: &str) -> Result<Call, Reply> {
        let stamp = Stamp {
            id: "x".into(),
            unix_seconds: 0,
            nanoseconds: 0,
        };
        let request = HttpRequest {
            method,
            target,
            body: b"{}",
        };
        open(&request, &stamp, &mut ())
    }

    /// A request of any listed route is understood or its body refused; none is unknown.
    #[test]
    fn every_listed_route_is_answered() {
        for (_, method, pattern) in routes() {
            let target = pattern.replace("{id}", "0");
            match ask(method, &target) {
                Ok(_) => {}
                Err(reply) => assert!(
                    ![404, 405].contains(&reply.status),
                    "{method} {pattern}: {}",
                    String::from_utf8_lossy(&reply.body)
                ),
            }
        }
    }

    #[test]
    fn what_is_not_there_is_said_in_the_nearest_dialect() {
        let unknown = ask("GET", "/v1/nothing").err().unwrap();
        assert_eq!(unknown.status, 404);
        assert!(Json::parse(&unknown.body).unwrap().get("error").is_some());
        let error = |target: &str| {
            let reply = ask("GET", target).err().unwrap();
            assert_eq!(reply.status, 404, "{target}");
            Json::parse(&reply.body).unwrap().get("error").cloned()
        };
        assert!(error("/api/nothing").unwrap().as_str().is_some());
        let code = error("/nothing").and_then(|error| error.get("code").cloned());
        assert_eq!(code, Some(Json::Int(404)));
        let wrong = ask("PATCH", "/v1/messages").err().unwrap();
        assert_eq!(wrong.status, 405);
        assert!(wrong.headers.contains(&("allow", "POST".into())));
        let wrong = ask("PATCH", "/lora-adapters").err().unwrap();
        assert!(wrong.headers.contains(&("allow", "GET, POST".into())));
        for path in ["/api/version", "/", "/v1/models", "/slots"] {
            assert!(ask("HEAD", path).is_ok(), "{path}");
        }
        assert_eq!(ask("HEAD", "/api/chat").err().unwrap().status, 405);
    }

    #[test]
    fn the_document_lists_what_there_is() {
        let document = openapi();
        let paths = document.get("paths").unwrap();
        for (_, method, path) in routes() {
            let listed = paths
                .get(path)
                .and_then(|p| p.get(&method.to_ascii_lowercase()));
            let said = listed.and_then(|operation| operation.get("summary")?.as_str());
            assert!(said.is_some(), "{method} {path}");
        }
    }
}
