//! Ollama's dialect, from the bytes of a request to the bytes of its answer.

mod requests;

use crate::pairs::mutants::{Random, mutant, strangers};
use crate::pairs::{Tested, events, script};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};
use strata_wire::ollama;

static OLLAMA: Tested = Tested {
    folder: "ollama",
    dialect: &ollama::DIALECT,
};

/// Bodies that use as much as they can of each route.
const RICH: &[(&str, &str, &str)] = &[
    ("POST", "/api/chat", include_str!("rich.json")),
    (
        "POST",
        "/api/generate",
        r#"{"model":"m","prompt":"p","system":"s","images":["aGk="],"context":[1,2],"format":"json","options":{"seed":1},"keep_alive":5,"template":"","raw":false,"think":true,"logprobs":true,"top_logprobs":1,"truncate":false}"#,
    ),
    (
        "POST",
        "/api/embed",
        r#"{"model":"m","input":["a","b"],"dimensions":3,"truncate":true,"options":{"num_ctx":512,"temperature":0},"keep_alive":"-1"}"#,
    ),
    (
        "POST",
        "/api/embeddings",
        r#"{"model":"m","prompt":"a","options":{"num_ctx":512},"keep_alive":1.5}"#,
    ),
    ("POST", "/api/show", r#"{"model":"m","verbose":true}"#),
    (
        "POST",
        "/api/create",
        r#"{"model":"m","from":"n","files":{"m.gguf":"sha256:0000000000000000000000000000000000000000000000000000000000000000"},"adapters":{},"template":"t","license":"l","system":"s","parameters":{"stop":["x"]},"messages":[{"role":"user","content":"u"}],"quantize":"q8_0","stream":false}"#,
    ),
    (
        "POST",
        "/api/pull",
        r#"{"model":"m","insecure":true,"stream":true}"#,
    ),
    ("POST", "/api/push", r#"{"name":"m","stream":false}"#),
    ("POST", "/api/copy", r#"{"source":"a","destination":"b"}"#),
    ("DELETE", "/api/delete", r#"{"model":"m"}"#),
];

/// Objects whose fields are the client's own.
const FREE: &[&str] = &[
    "format",
    "parameters",
    "arguments",
    "files",
    "adapters",
    "options",
];

#[test]
fn recorded_pairs_hold() {
    OLLAMA.check_pairs();
}

#[test]
fn rich_requests_are_taken() {
    for (method, path, body) in RICH {
        let opened = OLLAMA.open(method, path, body.as_bytes()).unwrap();
        assert_eq!(opened.err(), None, "{path}");
    }
}

#[test]
fn every_unknown_field_is_named() {
    let mut checked = 0;
    for (method, path, body) in RICH {
        let body = Json::parse(body.as_bytes()).unwrap();
        for (place, changed) in strangers(&body, FREE) {
            let text = changed.text();
            let opened = OLLAMA.open(method, path, text.as_bytes()).unwrap();
            let fault = opened
                .err()
                .unwrap_or_else(|| panic!("{path}: {place} was taken"));
            assert_eq!(fault.field.as_deref(), Some(&*place), "{path}");
            let reply = Json::parse(&OLLAMA.fault(&fault).body).unwrap();
            let error = reply.get("error").and_then(Json::as_str).unwrap();
            assert!(error.contains(&place), "{error}");
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}

#[test]
fn mutants_are_answered_or_refused() {
    let mut random = Random::new(0x11a3a);
    let mut refused = 0;
    for (method, path, body) in RICH {
        let body = Json::parse(body.as_bytes()).unwrap();
        for _ in 0..2000 {
            let body = mutant(&body, &mut random);
            let got = OLLAMA.run(method, path, &body, &script("tools"));
            assert!(matches!(got.status, 200 | 400), "{}", got.status);
            if got.status == 400 {
                refused += 1;
                let error = Json::parse(&got.body).unwrap();
                assert!(error.get("error").and_then(Json::as_str).is_some());
            }
        }
    }
    assert!(refused > 5000, "{refused}");
}

/// What a client makes of a stream: the texts joined, the calls gathered, all else from the last line.
fn joined(body: &[u8]) -> Json {
    let lines = events(body);
    let (last, others) = lines.split_last().unwrap();
    let mut texts = [String::new(), String::new()];
    let mut calls = Vec::new();
    let mut logprobs = Vec::new();
    for line in &lines {
        let part = line.get("message").unwrap_or(line);
        let text = part.get("content").or(part.get("response"));
        texts[0] += text.and_then(Json::as_str).unwrap_or("");
        texts[1] += part.get("thinking").and_then(Json::as_str).unwrap_or("");
        let list = |value: Option<&Json>| value.and_then(Json::as_array).unwrap_or(&[]).to_vec();
        calls.extend(list(part.get("tool_calls")));
        logprobs.extend(list(line.get("logprobs")));
    }
    assert!(
        others
            .iter()
            .all(|line| line.get("done") == Some(&false.into()))
    );
    Json::array([
        texts[0].as_str().into(),
        texts[1].as_str().into(),
        Json::Array(calls),
        Json::Array(logprobs),
        last.get("done_reason").cloned().into(),
        last.get("context").cloned().into(),
        last.get("eval_count").cloned().into(),
        last.get("total_duration").cloned().into(),
    ])
}

#[test]
fn streams_add_up_to_the_whole() {
    for (path, body) in [
        ("/api/chat", r#""messages":[{"role":"user","content":"x"}]"#),
        ("/api/generate", r#""prompt":"x""#),
    ] {
        for name in ["plain", "thinking", "tools", "length", "logprobs", "tokens"] {
            let run = |stream: bool| {
                let body = format!(r#"{{"model":"m","logprobs":true,"stream":{stream},{body}}}"#);
                OLLAMA.run("POST", path, body.as_bytes(), &script(name))
            };
            let (streamed, whole) = (run(true), run(false));
            assert!(streamed.stream && !whole.stream);
            let mut line = whole.body.clone();
            line.push(b'\n');
            assert_eq!(joined(&streamed.body), joined(&line), "{path} {name}");
        }
    }
}

#[test]
fn each_kind_of_fault_has_its_status() {
    let retry_after = std::time::Duration::from_secs(3);
    for (kind, status) in [
        (FaultKind::BadRequest, 400),
        (FaultKind::Unauthenticated, 401),
        (FaultKind::NotFound, 404),
        (FaultKind::Unsupported, 400),
        (FaultKind::RateLimited { retry_after }, 429),
        (FaultKind::Overloaded { retry_after }, 503),
        (FaultKind::Internal, 500),
    ] {
        let reply = OLLAMA.fault(&Fault::new(kind, "what was wrong"));
        assert_eq!(reply.status, status);
        assert_eq!(reply.body, br#"{"error":"what was wrong"}"#);
        let wait = reply.headers.contains(&("retry-after", "3".into()));
        assert_eq!(wait, matches!(status, 429 | 503));
    }
}

#[test]
fn other_paths_are_left_to_others_and_other_methods_refused() {
    for path in [
        "/api/",
        "/api/blobs/",
        "/api/blobs/a/b",
        "/apix",
        "/v1/models",
        "/api/me",
    ] {
        assert!(OLLAMA.open("GET", path, b"").is_none(), "{path}");
    }
    for path in ollama::DIALECT.routes.iter().map(|route| route.path) {
        let opened = OLLAMA.open("PATCH", path, b"{}").unwrap();
        assert_eq!(opened.err().unwrap().kind, FaultKind::Method, "{path}");
    }
    for path in ["/api/tags", "/api/version"] {
        assert!(OLLAMA.open("HEAD", path, b"").unwrap().is_ok());
    }
}
