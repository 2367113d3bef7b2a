//! The server over real sockets, as clients meet it.

mod clients;
mod hostile;
mod image_urls;
mod lessons;
mod observed;
mod openai;
mod progress;
mod relay;
mod roles;
mod slots;
mod speech;
mod support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};
use strata_chat::json::Json;
use strata_server::{Access, Key};
use support::{Answer, TestServer};

const SAID: &str = r#""model":"tale","messages":[{"role":"user","content":"Hello"}]"#;

fn chat(server: &TestServer, more: &str) -> Answer {
    server.post("/v1/chat/completions", &format!("{{{SAID},{more}}}"))
}

#[test]
fn a_stream_is_the_whole_in_pieces() {
    let server = TestServer::start();
    let whole = chat(&server, r#""temperature":0,"max_tokens":24"#);
    assert_eq!(whole.status, 200, "{}", whole.body);
    let streamed = chat(&server, r#""temperature":0,"max_tokens":24,"stream":true"#);
    assert!(streamed.head.contains("text/event-stream"));
    let mut text = String::new();
    for line in streamed
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
    {
        if line == "[DONE]" {
            break;
        }
        let chunk = Json::parse(line.as_bytes()).unwrap();
        let choices = chunk.get("choices").and_then(Json::as_array).unwrap();
        let delta = choices
            .first()
            .and_then(|c| c.get("delta")?.get("content")?.as_str().map(String::from));
        text.push_str(&delta.unwrap_or_default());
    }
    assert_eq!(text, whole.content());
    assert!(streamed.body.ends_with("data: [DONE]\n\n"));
}

#[test]
fn a_prompt_can_be_repeated_with_its_probabilities() {
    let server = TestServer::start();
    let body =
        r#"{"model":"tale","prompt":"Once upon a time","max_tokens":0,"echo":true,"logprobs":2}"#;
    let answer = server.post("/v1/completions", body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let json = answer.json();
    let choice = &json.get("choices").and_then(Json::as_array).unwrap()[0];
    assert_eq!(
        choice.get("text").and_then(Json::as_str),
        Some("Once upon a time")
    );
    let logprobs = choice.get("logprobs").unwrap();
    let values = logprobs
        .get("token_logprobs")
        .and_then(Json::as_array)
        .unwrap();
    assert!(values.len() > 2 && values[0].is_null(), "{}", answer.body);
    assert!(
        values[1..]
            .iter()
            .all(|value| matches!(value, Json::Float(v) if *v <= 0.0))
    );
}

#[test]
fn adapters_change_only_the_requests_that_ask_for_them() {
    let server = TestServer::start();
    let ask = |lora: &str| {
        let body =
            format!("{{\"prompt\":\"Once upon a time\",\"n_predict\":12,\"temperature\":0{lora}}}");
        let answer = server.post("/completion", &body);
        let json = answer.json();
        let content = json.get("content").and_then(Json::as_str);
        content
            .unwrap_or_else(|| panic!("{}", answer.body))
            .to_owned()
    };
    let base = ask("");
    let adapted = ask(",\"lora\":[{\"id\":0,\"scale\":1.0}]");
    assert_ne!(base, adapted);
    assert_eq!(ask(""), base);
    assert_eq!(ask(",\"lora\":[{\"id\":0,\"scale\":0.0}]"), base);
    let listed = server.get("/lora-adapters").body;
    assert!(listed.contains("test.gguf"), "{listed}");
    let set = server.post("/lora-adapters", "[{\"id\":0,\"scale\":1.0}]");
    assert_eq!(set.status, 200, "{}", set.body);
    assert_eq!(ask(""), adapted);
    assert_eq!(
        server
            .post("/lora-adapters", "[{\"id\":9,\"scale\":1.0}]")
            .status,
        400
    );
}

#[test]
fn browsers_get_the_page_and_other_clients_a_line() {
    let server = TestServer::start();
    let page = server.ask("GET", "/", "accept: text/html\r\n", "");
    assert!(page.body.starts_with("<!") && page.head.contains("content-security-policy"));
    assert_eq!(server.get("/").body, "Ollama is running");
    assert_eq!(server.get("/app.js").status, 200);
}

#[test]
fn routes_methods_and_bodies_that_do_not_exist() {
    let server = TestServer::start();
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get("/nothing").status, 404);
    let refused = server.ask("PUT", "/v1/chat/completions", "", "");
    assert_eq!(refused.status, 405);
    assert_eq!(server.post("/v1/chat/completions", "{").status, 400);
    assert_eq!(server.get("/").body, "Ollama is running");
    let large = format!("{{\"model\":\"{}\"}}", "x".repeat(2 << 20));
    assert_eq!(server.post("/v1/chat/completions", &large).status, 413);
    let unknown = server.post(
        "/v1/chat/completions",
        &format!("{{{}}}", SAID.replace("tale", "nobody")),
    );
    assert_eq!(unknown.status, 404, "{}", unknown.body);
}

#[test]
fn malformed_http_gets_a_4xx_or_a_closed_connection_and_others_go_on() {
    let server = TestServer::start();
    for bytes in [
        &b"\x00\x01\x02\r\n\r\n"[..],
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: x\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let reply = server.raw(bytes);
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 4"), "{reply}");
    }
    let heads = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "y".repeat(1 << 20)
    );
    let mut stream = server.connect();
    let _ = stream.write_all(heads.as_bytes());
    drop(stream);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_slow_client_is_not_waited_for() {
    let server = TestServer::start();
    let start = Instant::now();
    let mut stream = server.connect();
    stream
        .write_all(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{",
        )
        .unwrap();
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply);
    assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn keys_guard_everything_but_health() {
    let key = Key {
        name: "ada".into(),
        secret: "open-sesame".into(),
        per_minute: None,
        models: vec!["tale".into()],
        administers: false,
    };
    let server = TestServer::with(Access::new(vec![key]), &["tale", "other"], u64::MAX);
    assert_eq!(server.get("/health").status, 200);
    for path in ["/", "/v1/models", "/metrics", "/openapi.json"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    let with = |path: &str| server.ask("GET", path, "authorization: Bearer open-sesame\r\n", "");
    assert_eq!(with("/metrics").status, 200);
    let models = with("/v1/models").body;
    assert!(
        models.contains("tale") && !models.contains("other"),
        "{models}"
    );
    let wrong = server.ask("GET", "/v1/models", "x-api-key: open-sesam\r\n", "");
    assert_eq!(wrong.status, 401);
}

#[test]
fn pages_and_names_of_other_sites_are_refused() {
    let server = TestServer::start();
    let crossed = server.ask("GET", "/v1/models", "origin: https://evil.example\r\n", "");
    assert_eq!(crossed.status, 403);
    let rebound =
        server.raw(b"GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
}

#[test]
fn a_client_that_goes_away_frees_its_work() {
    let server = TestServer::start();
    for _ in 0..3 {
        let body = format!("{{{SAID},\"max_tokens\":400,\"ignore_eos\":true,\"stream\":true}}");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = server.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut some = [0; 300];
        assert!(stream.read(&mut some).unwrap() > 0);
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.metric("vllm:num_requests_running") > 0.0 {
        assert!(
            Instant::now() < deadline,
            "the requests of clients that have gone still run"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.metric("strata:requests_canceled_total") >= 1.0);
}

#[test]
fn many_clients_at_once_get_the_answer_that_one_gets() {
    let server = TestServer::start();
    let fields = r#""temperature":0,"max_tokens":6"#;
    let alone = chat(&server, fields).content();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..64)
            .map(|_| scope.spawn(|| chat(&server, fields)))
            .collect();
        for client in clients {
            let answer = client.join().unwrap();
            match answer.status {
                200 => assert_eq!(answer.content(), alone),
                // A full queue says when to come back.
                status => assert!(
                    [429, 503].contains(&status) && answer.head.contains("retry-after"),
                    "{answer:?}"
                ),
            }
        }
    });
}

#[test]
fn models_take_turns_in_memory_and_never_answer_for_each_other() {
    let server = TestServer::with(Access::default(), &["tale", "other", "broken"], 1);
    let ask = |model: &str| {
        let body = format!(
            "{{{},\"temperature\":0,\"max_tokens\":12}}",
            SAID.replace("tale", model)
        );
        server.post("/v1/chat/completions", &body)
    };
    let (tale, other) = (ask("tale").content(), ask("other").content());
    assert_ne!(tale, other);
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8)
            .map(|i| {
                let model = if i % 2 == 0 { "tale" } else { "other" };
                scope.spawn(move || (model, ask(model).content()))
            })
            .collect();
        for answer in asked {
            let (model, text) = answer.join().unwrap();
            assert_eq!(text, if model == "tale" { &*tale } else { &*other });
        }
    });
    assert!(
        server
            .models
            .loads
            .load(std::sync::atomic::Ordering::SeqCst)
            >= 2
    );
    let broken = ask("broken");
    assert_eq!(broken.status, 500, "{}", broken.body);
    assert!(broken.body.contains("the model is broken"));
}

#[test]
fn a_server_that_stops_lets_its_requests_end() {
    let mut server = TestServer::start();
    let fields = r#""temperature":0,"max_tokens":40,"ignore_eos":true,"stream":true"#;
    let body = format!("{{{SAID},{fields}}}");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = server.connect();
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0; 16];
    stream.read_exact(&mut first).unwrap();
    server.begin_to_stop();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("data: [DONE]"), "{rest}");
}

/// Parameters of every kind of wrongness: a 4xx that names something, or an answer; never a 5xx, never silence.
#[test]
fn random_parameters_never_break_the_server() {
    let server = TestServer::start();
    let names = [
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "n",
        "max_tokens",
        "stop",
        "seed",
        "logprobs",
        "top_logprobs",
        "frequency_penalty",
        "presence_penalty",
        "logit_bias",
        "stream",
        "tools",
        "tool_choice",
        "response_format",
        "messages",
        "model",
        "user",
        "mirostat",
        "grammar",
    ];
    let values = [
        "null",
        "true",
        "-1",
        "0",
        "1",
        "2",
        "1e308",
        "-1e308",
        "18446744073709551615",
        "0.5",
        "\"\"",
        "\"x\"",
        "[]",
        "[1]",
        "[\"a\"]",
        "{}",
        "{\"a\":1}",
        "[[]]",
        "\"auto\"",
        "\"required\"",
        "{\"0\":5}",
    ];
    let mut state = 7_u64;
    let mut next = |most: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % most
    };
    let mut stream = server.connect();
    for _ in 0..5000 {
        let mut body = format!("{{{SAID}");
        for _ in 0..=next(3) {
            let (name, value) = (names[next(names.len())], values[next(values.len())]);
            body.push_str(&format!(",\"{name}\":{value}"));
        }
        // The last one of a name counts.
        body.push_str(",\"max_tokens\":1}");
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let status = support::read_reply(&mut stream);
        assert!(
            status == 200 || (400..500).contains(&status),
            "{status}: {body}"
        );
    }
}
