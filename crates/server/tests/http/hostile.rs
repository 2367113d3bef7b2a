//! Clients that mean harm: each is refused or cut off, and the others hardly notice.

use crate::SAID;
use crate::support::{Answer, TestServer};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use strata_server::{Budgets, Settings};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn server(budgets: Budgets) -> TestServer {
    let settings = Settings {
        budgets,
        ..Settings::default()
    };
    TestServer::with_settings(settings, &["tale"], u64::MAX)
}

fn chat(server: &TestServer) -> Answer {
    let body = format!("{{{SAID},\"max_tokens\":4}}");
    server.post("/v1/chat/completions", &body)
}

/// Whether the server ends a connection within a time.
fn ends(stream: &mut TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_ok()
}

#[test]
fn sockets_that_say_nothing_are_closed() {
    let short = Duration::from_millis(300);
    let server = server(Budgets {
        first_byte: short,
        idle: short,
        head: short,
        ..Budgets::SERVER
    });
    // An empty SETTINGS frame and its acknowledgement make an HTTP/2 connection complete.
    let settled = [
        PREFACE,
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
        &[0, 0, 0, 4, 1, 0, 0, 0, 0],
    ]
    .concat();
    for said in [
        &b""[..],
        b"P",
        &PREFACE[..20],
        PREFACE,
        &settled,
        b"GET /",
        b"GET / HTTP/1.1\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(said).unwrap();
        let begun = Instant::now();
        assert!(ends(&mut stream, Duration::from_secs(20)), "{said:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{said:?}");
    }
}

#[test]
fn silent_sockets_keep_nobody_out() {
    let server = server(Budgets {
        connections: 24,
        address_connections: 24,
        ..Budgets::SERVER
    });
    let silent: Vec<TcpStream> = (0..60)
        .map(|i| {
            let mut stream = server.connect();
            stream.write_all(&PREFACE[..i % 24]).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..4 {
        let begun = Instant::now();
        assert_eq!(server.get("/health").status, 200);
        assert!(begun.elapsed() < Duration::from_secs(5));
        let answer = chat(&server);
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let metrics = server.get("/metrics").body;
    assert!(
        metrics.contains("strata:limit{name=\"connections\"} 24"),
        "{metrics}"
    );
    assert!(
        !metrics.contains("strata:connections_evicted_total 0"),
        "{metrics}"
    );
    drop(silent);
}

#[test]
fn health_has_room_of_its_own() {
    let server = server(Budgets {
        connections: 2,
        address_connections: 2,
        ..Budgets::SERVER
    });
    let body = format!("{{{SAID},\"max_tokens\":400,\"ignore_eos\":true,\"stream\":true}}");
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length";
    let busy: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = server.connect();
            let request = format!("{head}: {}\r\n\r\n{body}", body.len());
            stream.write_all(request.as_bytes()).unwrap();
            let mut some = [0; 20];
            stream.read_exact(&mut some).unwrap();
            stream
        })
        .collect();
    let (health, refused) = (server.get("/health"), server.get("/v1/models"));
    assert_eq!(health.status, 200, "{health:?}");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.head.contains("retry-after"), "{refused:?}");
    drop(busy);
}

#[test]
fn a_body_that_trickles_is_cut_off() {
    let server = server(Budgets {
        body_grace: Duration::from_millis(500),
        ..Budgets::SERVER
    });
    for path in ["/v1/chat/completions", "/api/blobs/sha256:00"] {
        let mut stream = server.connect();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let (begun, mut reply) = (Instant::now(), [0; 16]);
        while stream.read_exact(&mut reply).is_err() {
            let _ = stream.write_all(b" ");
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{path} is waited for"
            );
        }
        let reply = String::from_utf8_lossy(&reply);
        let refused = reply.starts_with("HTTP/1.1 408") || reply.starts_with("HTTP/1.1 400");
        assert!(refused, "{path}: {reply}");
    }
}

#[test]
fn requests_that_could_take_gigabytes_are_refused_and_others_answered_meanwhile() {
    let server = server(Budgets {
        requests: 512,
        ..Budgets::SERVER
    });
    assert_eq!(chat(&server).status, 200);
    let text = "once upon a time ".repeat(1 << 20);
    let message = r#"{"role":"user","content":""}"#;
    let messages = vec![message; 340_000].join(",");
    let numbers = "0,".repeat(9 << 20);
    let requests = [
        ("/tokenize", format!("{{\"content\":\"{text}\"}}"), 413),
        ("/completion", format!("{{\"prompt\":\"{text}\"}}"), 400),
        (
            "/v1/chat/completions",
            format!("{{\"model\":\"tale\",\"messages\":[{messages}]}}"),
            413,
        ),
        (
            "/v1/embeddings",
            format!("{{\"model\":\"tale\",\"input\":[{numbers}0]}}"),
            400,
        ),
        (
            "/v1/embeddings",
            format!("{{\"model\":\"tale\",\"input\":\"{text}\"}}"),
            400,
        ),
    ];
    std::thread::scope(|scope| {
        let asked: Vec<_> = requests
            .iter()
            .map(|(path, body, status)| {
                let server = &server;
                scope.spawn(move || (path, status, server.post(path, body)))
            })
            .collect();
        while asked.iter().any(|asked| !asked.is_finished()) {
            let begun = Instant::now();
            assert_eq!(server.get("/health").status, 200);
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "{:?}",
                begun.elapsed()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        for asked in asked {
            let (path, status, answer) = asked.join().unwrap();
            assert_eq!(answer.status, *status, "{path}: {}", answer.body);
            assert!(
                answer.body.len() < 8 << 10,
                "{path} says {} bytes",
                answer.body.len()
            );
        }
    });
}

#[test]
fn a_request_is_for_one_server_and_from_one_page() {
    let server = TestServer::start();
    let ask = |lines: &str| {
        let reply = server.raw(format!("GET {lines}\r\nconnection: close\r\n\r\n").as_bytes());
        let status = reply.split(' ').nth(1).unwrap_or("none").to_owned();
        (status, reply.to_ascii_lowercase())
    };
    for (lines, status) in [
        ("/v1/models HTTP/1.1\r\nhost: localhost", "200"),
        ("/v1/models HTTP/1.1\r\nhost: 127.0.0.1:80", "200"),
        (
            "http://localhost/v1/models HTTP/1.1\r\nhost: localhost",
            "200",
        ),
        (
            "http://evil.example/v1/models HTTP/1.1\r\nhost: evil.example",
            "403",
        ),
        (
            "http://evil.example/v1/models HTTP/1.1\r\nhost: localhost",
            "400",
        ),
        (
            "http://localhost/v1/models HTTP/1.1\r\nhost: evil.example",
            "400",
        ),
        (
            "/v1/models HTTP/1.1\r\nhost: localhost\r\nhost: localhost",
            "400",
        ),
        (
            "/v1/models HTTP/1.1\r\nhost: localhost\r\nhost: evil.example",
            "400",
        ),
        ("/v1/models HTTP/1.1\r\nhost: \u{e9}vil.example", "400"),
        ("/v1/models HTTP/1.1\r\nhost:", "400"),
        ("/v1/models HTTP/1.1\r\naccept: */*", "400"),
        ("/v1/models HTTP/1.0\r\naccept: */*", "400"),
        (
            "/v1/models HTTP/1.1\r\nhost: localhost\r\norigin: http://\u{e9}vil.example",
            "400",
        ),
        (
            "/v1/models HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\norigin: http://evil.example",
            "400",
        ),
        (
            "/v1/models HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example",
            "403",
        ),
    ] {
        let (told, reply) = ask(lines);
        assert_eq!(told, status, "{lines:?}: {reply}");
        let reflected = reply.contains("access-control-allow-origin");
        assert!(!reflected || told == "200", "{lines:?}: {reply}");
    }
}

#[test]
fn http_2_has_an_authority_that_counts() {
    let server = TestServer::start();
    // HPACK (RFC 7541): `:method GET`, `:scheme http` and `:path /` are indexed, `:authority` is written out.
    let ask = |authority: &str| {
        let mut block = vec![0x82, 0x86, 0x84, 0x41, authority.len() as u8];
        block.extend_from_slice(authority.as_bytes());
        let mut bytes = PREFACE.to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
        bytes.extend_from_slice(&block);
        let mut stream = server.connect();
        stream.write_all(&bytes).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).unwrap();
            let mut frame = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            stream.read_exact(&mut frame).unwrap();
            if head[3] == 1 {
                // 0x88 is 200; other statuses that the table has not are written out as three characters.
                return if frame[0] == 0x88 {
                    "200".to_owned()
                } else {
                    String::from_utf8_lossy(&frame[..6]).into_owned()
                };
            }
        }
    };
    assert_eq!(ask("localhost"), "200");
    assert_ne!(ask("evil.example"), "200");
}

#[test]
fn lengths_are_answered_before_bodies_and_framing_must_be_clear() {
    let server = TestServer::start();
    let post = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n";
    let long = format!(
        "GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "x".repeat(9 << 10)
    );
    for (request, status) in [
        // No byte of the body ever comes.
        (format!("{post}content-length: 99999999\r\n\r\n"), "413"),
        (
            format!("{post}content-length: 99999999\r\nexpect: 100-continue\r\n\r\n"),
            "413",
        ),
        (
            format!("{post}content-encoding: br\r\ncontent-length: 9\r\n\r\n"),
            "415",
        ),
        (long, "414"),
        (
            format!("{post}transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
            "400",
        ),
        (
            format!(
                "{post}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            "400",
        ),
        (format!("{post}x: y\ncontent-length: 0\r\n\r\n"), "400"),
        ("GET /health HTTP/1.1\nhost: localhost\n\n".into(), "400"),
        (
            "GET /health HTTP/1.1\r\nhost: localhost\r\n\n".into(),
            "400",
        ),
    ] {
        let begun = Instant::now();
        let reply = server.raw(request.as_bytes());
        let told = reply.split(' ').nth(1).unwrap_or("none");
        assert_eq!(
            told,
            status,
            "{}: {reply}",
            &request[..request.len().min(120)]
        );
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_request_that_is_sent_ahead_must_be_clear_too() {
    let server = TestServer::start();
    let clear = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let closing = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let unclear = "GET /health HTTP/1.1\r\nhost: localhost\nconnection: close\r\n\r\n";
    let answers = |second: &str| {
        let reply = server.raw(format!("{clear}{second}").as_bytes());
        reply.matches("HTTP/1.1 200").count()
    };
    assert_eq!(answers(closing), 2);
    assert!(answers(unclear) < 2);
}

#[test]
fn an_error_never_echoes_what_was_sent() {
    let server = TestServer::start();
    let long = "x".repeat(500_000);
    for (path, body) in [
        (
            "/v1/chat/completions",
            format!(
                "{{\"model\":\"{long}\",\"messages\":[{{\"role\":\"user\",\"content\":\"a\"}}]}}"
            ),
        ),
        ("/v1/chat/completions", format!("{{{SAID},\"{long}\":1}}")),
        (
            "/v1/messages",
            format!("{{{SAID},\"max_tokens\":1,\"role\":\"{long}\"}}"),
        ),
        (
            "/api/chat",
            format!("{{\"model\":\"{long}\",\"messages\":[]}}"),
        ),
        (
            "/completion",
            format!("{{\"prompt\":\"a\",\"grammar\":\"{long}\"}}"),
        ),
    ] {
        let answer = server.post(path, &body);
        assert!(
            (400..500).contains(&answer.status),
            "{path}: {}",
            answer.status
        );
        assert!(
            answer.body.len() < 16 << 10,
            "{path}: {} bytes",
            answer.body.len()
        );
    }
}
