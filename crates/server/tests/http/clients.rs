//! What clients bring besides their requests: origins, encodings, versions; and what they look for in replies.

use crate::SAID;
use crate::support::{Answer, TestServer};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::sync::atomic::Ordering;
use strata_chat::json::Json;
use strata_server::{Access, Key};

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut lines = answer.head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn a_browser_on_another_origin_may_ask_without_a_key_and_send_what_it_asks_for() {
    let mut access = Access::new(vec![Key {
        name: "k".into(),
        secret: "a-long-secret-key".into(),
        per_minute: None,
        models: Vec::new(),
        administers: false,
    }]);
    access.origins.push("https://app.example".into());
    let server = TestServer::with(access, &["tale"], u64::MAX);
    let asked =
        "authorization,content-type,x-stainless-lang,anthropic-dangerous-direct-browser-access";
    let preflight = |origin: &str| {
        let headers = format!(
            "origin: {origin}\r\naccess-control-request-method: POST\r\naccess-control-request-headers: {asked}\r\n"
        );
        server.ask("OPTIONS", "/v1/messages", &headers, "")
    };
    let allowed = preflight("https://app.example");
    assert_eq!(allowed.status, 204);
    assert_eq!(
        header(&allowed, "access-control-allow-origin"),
        Some("https://app.example")
    );
    let echoed = header(&allowed, "access-control-allow-headers").unwrap();
    assert_eq!(echoed.replace(", ", ","), asked);
    let refused = preflight("https://evil.example");
    assert_eq!(refused.status, 403);
    assert_eq!(header(&refused, "access-control-allow-origin"), None);
    // The call itself needs the key.
    let body = format!("{{{SAID},\"max_tokens\":4}}");
    let call = |key: &str| {
        let headers = format!("origin: https://app.example\r\n{key}");
        server.ask("POST", "/v1/chat/completions", &headers, &body)
    };
    assert_eq!(call("").status, 401);
    let answer = call("authorization: Bearer a-long-secret-key\r\n");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let exposed = header(&answer, "access-control-expose-headers").unwrap();
    assert!(exposed.contains("x-request-id"), "{exposed}");
}

#[test]
fn every_reply_names_its_request() {
    let server = TestServer::start();
    let body = format!("{{{SAID},\"max_tokens\":4}}");
    let streamed = format!("{{{SAID},\"max_tokens\":4,\"stream\":true}}");
    let mut seen = Vec::new();
    for (path, body, name) in [
        ("/v1/chat/completions", &body, "x-request-id"),
        ("/v1/chat/completions", &streamed, "x-request-id"),
        ("/v1/messages", &body, "request-id"),
        ("/v1/messages", &streamed, "request-id"),
        ("/api/chat", &body, "x-request-id"),
        ("/v1/nothing", &body, "x-request-id"),
        ("/v1/messages/nothing", &body, "request-id"),
    ] {
        let answer = server.post(path, body);
        let id = header(&answer, name).unwrap_or_else(|| panic!("{path}: {}", answer.head));
        assert!(
            id.starts_with("req_") && !seen.contains(&id.to_owned()),
            "{id}"
        );
        seen.push(id.to_owned());
    }
}

#[test]
fn anthropics_clients_hear_of_what_is_missing_in_their_own_words() {
    let server = TestServer::start();
    let said = SAID.replace("tale", "nobody");
    let body = format!("{{{said},\"max_tokens\":4}}");
    let version = "anthropic-version: 2023-06-01\r\n";
    for (method, path, headers) in [
        ("POST", "/v1/messages", ""),
        ("POST", "/v1/messages/count_tokens", ""),
        ("GET", "/v1/messages/batches", ""),
        ("GET", "/v1/models/nobody", version),
        ("GET", "/v1/files", version),
    ] {
        let answer = server.ask(method, path, headers, &body);
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        let json = answer.json();
        assert_eq!(json.get("type"), Some(&"error".into()), "{path}");
        let kind = json
            .get("error")
            .and_then(|error| error.get("type")?.as_str());
        assert_eq!(kind, Some("not_found_error"), "{path}");
        let id = json.get("request_id").and_then(Json::as_str).unwrap();
        assert_eq!(header(&answer, "request-id"), Some(id), "{path}");
    }
}

#[test]
fn bodies_may_be_compressed_within_limits() {
    let server = TestServer::start();
    let gzip = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let post = |encoding: &str, body: &[u8]| {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-encoding: {encoding}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let text = server.raw(&[head.as_bytes(), body].concat());
        let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        (status.unwrap_or(0), text.to_ascii_lowercase())
    };
    let body = format!("{{{SAID},\"max_tokens\":4}}");
    assert_eq!(post("gzip", &gzip(&body)).0, 200);
    assert_eq!(post("identity", body.as_bytes()).0, 200);
    // Smaller than the limit as it comes, and larger once it is unpacked.
    let padded = format!("{{{SAID},\"user\":\"{}\"}}", " ".repeat(4 << 20));
    assert_eq!(post("gzip", &gzip(&padded)).0, 413);
    assert_eq!(post("gzip", body.as_bytes()).0, 400);
    assert_eq!(post("gzip", &gzip(&body)[..20]).0, 400);
    for unknown in ["br", "zstd", "gzip, gzip"] {
        let (status, text) = post(unknown, body.as_bytes());
        assert_eq!(status, 415, "{unknown}");
        assert!(text.contains("accept-encoding: gzip"), "{text}");
    }
}

#[test]
fn a_larger_context_is_loaded_where_it_fits() {
    let server = TestServer::with(Access::default(), &["tale"], 1 << 40);
    let ask = |context: usize| {
        let body = format!(
            r#"{{"model":"tale","prompt":"Hello","stream":false,"options":{{"num_ctx":{context},"num_predict":4}}}}"#
        );
        server.post("/api/generate", &body)
    };
    let context = || {
        let models = server.get("/api/ps").json();
        let models = models.get("models").and_then(Json::as_array).unwrap();
        models[0].get("context_length").cloned()
    };
    let loads = || server.models.loads.load(Ordering::SeqCst);
    assert_eq!(ask(256).status, 200);
    assert_eq!((context(), loads()), (Some(Json::Int(512)), 1));
    let answer = ask(1024);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!((context(), loads()), (Some(Json::Int(1024)), 2));
    // Those who need less use what is there.
    assert_eq!(ask(300).status, 200);
    assert_eq!(
        server
            .post(
                "/v1/chat/completions",
                &format!("{{{SAID},\"max_tokens\":4}}")
            )
            .status,
        200
    );
    assert_eq!(loads(), 2);
    // Many at once: nobody is refused, and it is loaded once.
    std::thread::scope(|scope| {
        let asked: Vec<_> = [600, 1500, 100, 1500]
            .map(|context| scope.spawn(move || ask(context).status))
            .into();
        for status in asked {
            assert_eq!(status.join().unwrap(), 200);
        }
    });
    assert_eq!((context(), loads()), (Some(Json::Int(1500)), 3));
    let refused = ask(4 << 20);
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("4194304"), "{}", refused.body);
    assert_eq!((ask(10).status, loads()), (200, 3));
}
