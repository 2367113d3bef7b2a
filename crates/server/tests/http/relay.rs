//! A relay in front of replicas, some of which break off.

use crate::support::{Answer, TestServer};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strata_chat::json::Json;
use strata_server::{Access, Key};

/// The same for every request that is compared: what is made up for an answer follows from it.
const STAMP: &str = "strata-stamp: 6e789e6aa1b965f4-6b49d200-5\r\n";

/// A way to a replica that breaks off after so many bytes of the first answers.
struct Cut {
    address: SocketAddr,
    cuts: Arc<AtomicUsize>,
}

impl Cut {
    /// Breaks off `times` answers after `after` bytes each; probes of readiness are left alone.
    fn new(replica: SocketAddr, after: usize, times: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), counted) = (client, Arc::clone(&counted)) else {
                    return;
                };
                std::thread::spawn(move || pass(client, replica, after, times, &counted));
            }
        });
        Self { address, cuts }
    }
}

fn pass(mut client: TcpStream, to: SocketAddr, after: usize, times: usize, cuts: &AtomicUsize) {
    let Ok(mut replica) = TcpStream::connect(to) else {
        return;
    };
    let mut piece = [0; 4096];
    let Ok(read) = client.read(&mut piece) else {
        return;
    };
    let probe = piece.starts_with(b"GET ");
    let cut = !probe && cuts.fetch_add(1, Ordering::SeqCst) < times;
    let mut left = if cut { after } else { usize::MAX };
    replica.write_all(&piece[..read]).unwrap();
    let (mut from, mut on) = (client.try_clone().unwrap(), replica.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut on);
        let _ = on.shutdown(Shutdown::Both);
    });
    while let Ok(read @ 1..) = replica.read(&mut piece) {
        let part = read.min(left);
        left -= part;
        if client.write_all(&piece[..part]).is_err() || left == 0 {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = replica.shutdown(Shutdown::Both);
}

/// What a client reads, without what is measured.
fn comparable(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.body);
    let measured = |line: &&str| {
        let keys = ["\"usage\":{", "\"timings\":{", "\"total_duration\":"];
        !keys.iter().any(|key| line.contains(key))
    };
    let lines = answer.body.lines().filter(measured);
    // Ollama's lines say when they were written.
    let lines = lines.map(|line| match line.split_once("\"created_at\":\"") {
        Some((before, after)) => [before, after.split_once('"').unwrap().1].concat(),
        None => line.to_owned(),
    });
    // Choices take turns as they come.
    let choice = |line: &String| {
        line.split("\"index\":")
            .nth(1)?
            .split(',')
            .next()
            .map(str::to_owned)
    };
    let mut lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.sort_by_key(choice);
    lines.join("\n")
}

const STREAMS: [(&str, &str); 5] = [
    (
        "/v1/chat/completions",
        r#"{"model":"tale","stream":true,"n":2,"max_tokens":24,"temperature":1,
            "messages":[{"role":"user","content":"Tell me of a fox"}],"stream_options":{"include_usage":true}}"#,
    ),
    (
        "/v1/completions",
        r#"{"model":"tale","stream":true,"max_tokens":24,"temperature":1,"prompt":["Once","Two"]}"#,
    ),
    (
        "/v1/responses",
        r#"{"model":"tale","stream":true,"max_output_tokens":24,"input":"Tell me of a fox"}"#,
    ),
    (
        "/v1/messages",
        r#"{"model":"tale","stream":true,"max_tokens":24,"messages":[{"role":"user","content":"A fox"}]}"#,
    ),
    (
        "/api/generate",
        r#"{"model":"tale","raw":true,"prompt":"Once upon a time","options":{"num_predict":24,"temperature":1}}"#,
    ),
];

#[test]
fn a_stream_that_breaks_off_goes_on_elsewhere() {
    let (first, second) = (TestServer::start(), TestServer::start());
    for (path, body) in STREAMS {
        let whole = comparable(&first.ask("POST", path, STAMP, body));
        assert!(whole.lines().count() > 12, "{whole}");
        for after in [1, 700, whole.len() / 2] {
            // Whichever is asked first breaks off; both do if both are asked.
            let cuts = [&first, &second].map(|server| Cut::new(server.address, after, 1));
            let relay =
                TestServer::relay(&cuts.each_ref().map(|cut| cut.address), Access::default());
            let relayed = comparable(&relay.ask("POST", path, STAMP, body));
            assert_eq!(relayed, whole, "{path} after {after}");
            let asked: usize = cuts.iter().map(|cut| cut.cuts.load(Ordering::SeqCst)).sum();
            assert!(asked >= 3, "{path} after {after}: {asked}");
        }
    }
}

#[test]
fn a_whole_answer_that_breaks_off_is_asked_for_again() {
    let (first, second) = (TestServer::start(), TestServer::start());
    let body = r#"{"model":"tale","max_tokens":16,"temperature":1,"messages":[{"role":"user","content":"Hi"}]}"#;
    let whole = first.ask("POST", "/v1/chat/completions", STAMP, body);
    let cuts = [&first, &second].map(|server| Cut::new(server.address, 300, 1));
    let relay = TestServer::relay(&cuts.each_ref().map(|cut| cut.address), Access::default());
    let relayed = relay.ask("POST", "/v1/chat/completions", STAMP, body);
    assert_eq!(relayed.content(), whole.content());
    assert_eq!(relayed.json().get("id"), whole.json().get("id"));
    let text = relay.get("/metrics").body;
    assert!(
        text.contains("strata:relay_requests_resent_total 2"),
        "{text}"
    );
    // What is wrong with a request is the replica's to say.
    let refused = relay.post("/v1/chat/completions", "{\"nonsense\":1}");
    assert_eq!(refused.status, 400, "{}", refused.body);
    let vectors = relay.post("/v1/models/none", "");
    assert_eq!(vectors.status, 405, "{}", vectors.body);
}

#[test]
fn stamps_decide_what_is_made_up() {
    let (first, second) = (TestServer::start(), TestServer::start());
    let body = r#"{"model":"tale","max_tokens":24,"temperature":1.5,"prompt":"Once"}"#;
    let ask = |server: &TestServer, headers: &str| {
        let answer = server.ask("POST", "/v1/completions", headers, body);
        let json = answer.json();
        let choices = json.get("choices").and_then(Json::as_array).unwrap();
        choices[0]
            .get("text")
            .and_then(Json::as_str)
            .unwrap()
            .to_owned()
    };
    assert_eq!(ask(&first, STAMP), ask(&second, STAMP));
    assert_ne!(ask(&first, ""), ask(&first, ""));
    let refused = first.ask("POST", "/v1/completions", "strata-stamp: 1-2\r\n", body);
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("strata-stamp"), "{}", refused.body);
}

#[test]
fn a_conversation_stays_where_it_was() {
    let replicas = [
        TestServer::start(),
        TestServer::start(),
        TestServer::start(),
    ];
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let relay = TestServer::relay(&addresses, Access::default());
    let ask = |turns: &str| {
        let body = format!(
            r#"{{"model":"tale","max_tokens":1,"messages":[{{"role":"system","content":"Be kind to all who ask you."}},{turns}]}}"#
        );
        assert_eq!(relay.post("/v1/chat/completions", &body).status, 200);
    };
    for turn in 1..=4 {
        for talk in 0..6 {
            let turns: Vec<String> = (0..turn)
                .map(|n| format!(r#"{{"role":"user","content":"Part {n} of talk {talk}"}}"#))
                .collect();
            ask(&turns.join(r#",{"role":"assistant","content":"Yes."},"#));
        }
    }
    let text = relay.get("/metrics").body;
    assert!(
        text.contains("strata:relay_conversations_known_total 18"),
        "{text}"
    );
    assert!(
        text.contains("strata:relay_conversations_unknown_total 6"),
        "{text}"
    );
    for replica in &replicas {
        let asked = replica.metric("vllm:prompt_tokens_total");
        assert!(asked > 0.0, "each has its share");
    }
    // What a replica keeps is found on it.
    let kept = r#"{"model":"tale","max_output_tokens":2,"input":"Remember me"}"#;
    let kept = relay.post("/v1/responses", kept).json();
    let id = kept.get("id").and_then(Json::as_str).unwrap();
    assert_eq!(relay.get(&format!("/v1/responses/{id}")).status, 200);
    let next = format!(
        r#"{{"model":"tale","max_output_tokens":2,"previous_response_id":"{id}","input":"And?"}}"#
    );
    assert_eq!(relay.post("/v1/responses", &next).status, 200);
}

#[test]
fn a_relay_asks_for_keys_and_changes_nothing() {
    let key = |name: &str, secret: &str| Key {
        name: name.into(),
        secret: secret.into(),
        per_minute: None,
        models: Vec::new(),
        administers: true,
    };
    let keys = || Access::new(vec![key("a", "key-of-ada"), key("b", "key-of-bob")]);
    let replica = TestServer::with(keys(), &["tale"], u64::MAX);
    let relay = TestServer::relay(&[replica.address], keys());
    assert_eq!(relay.get("/v1/models").status, 401);
    let ada = "authorization: Bearer key-of-ada\r\n";
    let listed = relay.ask("GET", "/v1/models", ada, "");
    assert!(
        listed.status == 200 && listed.body.contains("tale"),
        "{}",
        listed.body
    );
    let open = TestServer::relay(&[replica.address], Access::default());
    assert_eq!(open.get("/v1/models").status, 401, "the replica asks too");
    let refused = relay.ask("DELETE", "/api/delete", ada, r#"{"model":"tale"}"#);
    assert!(
        refused.status >= 400 && refused.body.contains("ask one of them"),
        "{}",
        refused.body
    );
    assert_eq!(relay.get("/health").status, 200);
}

#[test]
fn a_relay_without_replicas_says_so() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let relay = TestServer::relay(&[address], Access::default());
    let since = Instant::now();
    while relay.get("/ready").status != 503 {
        assert!(since.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(relay.get("/health").status, 200);
}

#[test]
fn another_answer_is_never_glued_on() {
    // A replica that answers something else, and says that it is ready.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || lie(client));
        }
    });
    let honest = TestServer::start();
    let cut = Cut::new(honest.address, 2500, usize::MAX);
    let (path, body) = STREAMS[0];
    let relay = TestServer::relay(&[cut.address, other], Access::default());
    let answer = relay.ask("POST", path, STAMP, body);
    assert!(
        answer.body.contains("answers differently"),
        "{}",
        answer.body
    );
    assert!(!answer.body.contains("[DONE]"), "{}", answer.body);
}

fn lie(mut client: TcpStream) {
    let mut piece = [0; 8192];
    let read = client.read(&mut piece).unwrap_or(0);
    let body = if piece[..read].starts_with(b"GET ") {
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
    } else {
        let chunk = r#"data: {"choices":[{"index":0,"delta":{"content":"No."}}]}"#;
        let chunks = format!("{chunk}\n\n").repeat(40);
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{chunks}",
            chunks.len()
        )
    };
    let _ = client.write_all(body.as_bytes());
}

#[test]
fn a_client_that_goes_away_stops_the_replica() {
    let replica = TestServer::start();
    let relay = TestServer::relay(&[replica.address], Access::default());
    let body =
        r#"{"model":"tale","stream":true,"max_tokens":400,"ignore_eos":true,"prompt":"Once"}"#;
    let mut client = relay.connect();
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    let mut piece = [0; 512];
    assert!(client.read(&mut piece).unwrap() > 0);
    drop(client);
    let since = Instant::now();
    while replica.metric("vllm:num_requests_running") > 0.0 {
        assert!(since.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(replica.metric("vllm:generation_tokens_total") < 400.0);
}
