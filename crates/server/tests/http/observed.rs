//! What is told of requests: lines in the log and spans for a collector.

use crate::support::TestServer;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strata_chat::json::Json;
use strata_server::{Access, Key, Log, LogFormat, LogLevel, Settings};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The lines about a route, once there are so many.
    fn about(&self, route: &str, count: usize) -> Vec<Json> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let text = self.text();
            let lines = text
                .lines()
                .map(|line| Json::parse(line.as_bytes()).unwrap());
            let of_route = |line: &Json| {
                line.get("route")
                    .and_then(Json::as_str)
                    .is_some_and(|r| r == route)
            };
            let found: Vec<Json> = lines.filter(of_route).collect();
            if found.len() >= count || Instant::now() > end {
                assert_eq!(found.len(), count, "{text}");
                return found;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

const SAID: &str = r#"{"model":"tale","max_tokens":6,"ignore_eos":true,"messages":[{"role":"user","content":"a private matter"}]"#;

#[test]
fn a_request_is_a_line_without_what_was_said() {
    let lines = Lines::default();
    let key = Key {
        name: "ada".into(),
        secret: "open-sesame".into(),
        per_minute: None,
        models: Vec::new(),
        administers: false,
    };
    let settings = Settings {
        access: Access::new(vec![key]),
        log: Log::new(LogFormat::Json, LogLevel::Info, lines.clone()).unwrap(),
        ..Settings::default()
    };
    let server = TestServer::with_settings(settings, &["tale"], u64::MAX);
    let (path, key) = (
        "/v1/chat/completions",
        "authorization: Bearer open-sesame\r\n",
    );
    assert_eq!(
        server.ask("POST", path, key, &format!("{SAID}}}")).status,
        200
    );
    let stream = format!("{SAID},\"stream\":true}}");
    assert_eq!(server.ask("POST", path, key, &stream).status, 200);
    assert_eq!(server.ask("POST", path, key, "{").status, 400);
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get("/v1/models").status, 401);
    let told = lines.about(path, 3);
    let number = |line: &Json, key: &str| match line.get(key) {
        Some(Json::Int(n)) => *n as f64,
        Some(Json::Float(x)) => *x,
        other => panic!("{key}: {other:?} in {line}"),
    };
    let text = |line: &Json, key: &str| line.get(key).and_then(Json::as_str).map(String::from);
    for line in &told[..2] {
        assert_eq!(text(line, "client").as_deref(), Some("ada"));
        assert_eq!(text(line, "model").as_deref(), Some("tale"));
        assert_eq!(text(line, "level").as_deref(), Some("info"));
        assert_eq!(text(line, "id").unwrap().len(), 16);
        assert_eq!(number(line, "status"), 200.0);
        assert_eq!(number(line, "completion_tokens"), 6.0, "{line}");
        assert!(number(line, "prompt_tokens") > 3.0);
        assert!(number(line, "first_token_ms") > 0.0);
        assert!(number(line, "ms") >= number(line, "first_token_ms"));
    }
    assert!(number(&told[1], "cached_tokens") > 0.0);
    assert_eq!(text(&told[2], "level").as_deref(), Some("warn"));
    assert!(told[2].get("model").is_none());
    assert_eq!(number(&lines.about("/v1/models", 1)[0], "status"), 401.0);
    let all = lines.text();
    assert!(!all.contains("private") && !all.contains("sesame"), "{all}");
    assert!(!all.contains("/health"), "{all}");
}

#[test]
fn a_client_that_goes_away_is_told_so() {
    let lines = Lines::default();
    let settings = Settings {
        log: Log::new(LogFormat::Json, LogLevel::Info, lines.clone()).unwrap(),
        ..Settings::default()
    };
    let server = TestServer::with_settings(settings, &["tale"], u64::MAX);
    let body = SAID.replace("\"max_tokens\":6", "\"max_tokens\":400,\"stream\":true");
    let body = format!("{body}}}");
    let mut stream = server.connect();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut read = String::new();
    while !read.contains("\"content\":\"") {
        let mut piece = [0; 256];
        let bytes = stream.read(&mut piece).unwrap();
        read.push_str(&String::from_utf8_lossy(&piece[..bytes]));
    }
    drop(stream);
    let line = &lines.about("/v1/chat/completions", 1)[0];
    let tokens = line.get("completion_tokens");
    assert!(matches!(tokens, Some(Json::Int(1..400))), "{line}");
    assert_eq!(
        line.get("ended").and_then(Json::as_str),
        Some("canceled"),
        "{line}"
    );
}

/// A collector that hands on the bodies that it is sent.
fn collector() -> (String, mpsc::Receiver<Json>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (bodies, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20) {
            let mut stream = stream.unwrap();
            let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
            let body = loop {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    assert!(head.starts_with("POST /v1/traces "), "{head}");
                    let length = head.to_ascii_lowercase();
                    let length = length.split("content-length: ").nth(1).unwrap();
                    let length: usize = length.lines().next().unwrap().parse().unwrap();
                    if body.len() >= length {
                        break body.to_owned();
                    }
                }
                let read = stream.read(&mut piece).unwrap();
                bytes.extend_from_slice(&piece[..read]);
            };
            let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            let _ = stream.write_all(reply);
            if bodies.send(Json::parse(body.as_bytes()).unwrap()).is_err() {
                return;
            }
        }
    });
    (address, received)
}

fn spans(document: &Json) -> Vec<Json> {
    let first = |json: &Json, key: &str| json.get(key).and_then(Json::as_array).unwrap()[0].clone();
    let scope = first(&first(document, "resourceSpans"), "scopeSpans");
    scope
        .get("spans")
        .and_then(Json::as_array)
        .unwrap()
        .to_vec()
}

#[test]
fn a_request_is_a_span_with_its_phases() {
    let (address, received) = collector();
    let settings = Settings {
        traces: Some(address.parse().unwrap()),
        ..Settings::default()
    };
    let server = TestServer::with_settings(settings, &["tale"], u64::MAX);
    let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    let body = format!("{SAID},\"stream\":true}}");
    assert_eq!(
        server
            .ask("POST", "/v1/chat/completions", parent, &body)
            .status,
        200
    );
    let document = received.recv_timeout(Duration::from_secs(20)).unwrap();
    let spans = spans(&document);
    let text = |span: &Json, key: &str| span.get(key).and_then(Json::as_str).unwrap().to_owned();
    let names: Vec<_> = spans.iter().map(|span| text(span, "name")).collect();
    assert_eq!(
        names,
        ["chat tale", "queue", "prefill", "decode"],
        "{document}"
    );
    assert_eq!(text(&spans[0], "parentSpanId"), "b7ad6b7169203331");
    let own = text(&spans[0], "spanId");
    let time = |span: &Json, key: &str| text(span, key).parse::<u128>().unwrap();
    for span in &spans {
        assert_eq!(text(span, "traceId"), "0af7651916cd43dd8448eb211c80319c");
        assert!(time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"));
        assert!(time(span, "endTimeUnixNano") <= time(&spans[0], "endTimeUnixNano"));
    }
    for pair in spans[1..].windows(2) {
        assert_eq!(text(&pair[0], "parentSpanId"), own);
        let (end, start) = (
            time(&pair[0], "endTimeUnixNano"),
            time(&pair[1], "startTimeUnixNano"),
        );
        assert_eq!(end, start);
    }
    let attributes = spans[0].get("attributes").unwrap().text();
    for part in [
        r#"{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}"#,
        r#"{"key":"gen_ai.request.model","value":{"stringValue":"tale"}}"#,
        r#"{"key":"gen_ai.usage.output_tokens","value":{"intValue":"6"}}"#,
        r#"{"key":"http.response.status_code","value":{"intValue":"200"}}"#,
    ] {
        assert!(attributes.contains(part), "{part} in {attributes}");
    }
    assert!(!document.text().contains("private"));
}

#[test]
fn a_collector_that_is_not_there_disturbs_nobody() {
    let settings = Settings {
        traces: Some("http://127.0.0.1:9".parse().unwrap()),
        ..Settings::default()
    };
    let server = TestServer::with_settings(settings, &["tale"], u64::MAX);
    for _ in 0..3 {
        assert_eq!(server.get("/v1/models").status, 200);
    }
    let end = Instant::now() + Duration::from_secs(20);
    while !server
        .get("/metrics")
        .body
        .contains("strata:spans_lost_total 3")
    {
        assert!(Instant::now() < end, "{}", server.get("/metrics").body);
        std::thread::sleep(Duration::from_millis(50));
    }
}
