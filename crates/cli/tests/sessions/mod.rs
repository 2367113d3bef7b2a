//! Sessions over the socket of a server that runs: turns, forks, crashes, users.

pub(crate) mod client;
mod users;

use crate::program::strata;
use client::{Scratch, SocketServer, ask, streamed, text, wait_for};
use serde_json::{Value, json};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

/// A turn of a text that has one answer.
fn story(prompt: &str) -> Value {
    json!({"prompt": prompt, "max_tokens": 24, "temperature": 0})
}

#[test]
fn turns_forks_and_checkpoints_say_what_plain_requests_say() {
    let scratch = Scratch::new("turns");
    let server = SocketServer::start(&scratch.file("s"), &[]);
    let id = server.open(&json!({}));
    let first = server.turn(&id, &story("Once upon a time"));
    let plain = server.post("/v1/completions", &story("Once upon a time"));
    assert_eq!(first, text(&plain));
    server.post(
        &format!("/sessions/{id}/checkpoints"),
        &json!({"name": "one"}),
    );
    let tokens = server.get(&format!("/sessions/{id}"))["tokens"].clone();
    let second = server.turn(&id, &story(" The dog"));
    // The same as a plain run over the tokens so far.
    let dog = server.post(
        "/tokenize",
        &json!({"content": " The dog", "add_special": false}),
    );
    let all = [
        tokens.as_array().unwrap().clone(),
        dog["tokens"].as_array().unwrap().clone(),
    ];
    let plain = server.post(
        "/v1/completions",
        &story("")
            .as_object()
            .map(|fields| {
                let mut fields = fields.clone();
                fields.insert("prompt".into(), all.concat().into());
                fields
            })
            .into(),
    );
    assert_eq!(second, text(&plain));
    // From the checkpoint on, a fork and the session itself say it once more.
    let path = format!("/sessions/{id}/fork");
    let fork = server
        .ask("POST", &path, &json!({"checkpoint": "one"}))
        .ok();
    let fork = fork["id"].as_str().unwrap();
    assert_eq!(server.turn(fork, &story(" The dog")), second);
    let other = server.turn(fork, &story(" The cat"));
    server.post(
        &format!("/sessions/{id}/return"),
        &json!({"checkpoint": "one"}),
    );
    assert_eq!(server.get(&format!("/sessions/{id}"))["tokens"], tokens);
    assert_eq!(server.turn(&id, &story(" The dog")), second);
    assert_eq!(server.turn(&id, &story(" The cat")), other);
    let missing = server.ask("POST", &path, &json!({"checkpoint": "two"}));
    assert_eq!(missing.status, 404, "{}", missing.body);
    // A fork lives without what it was made of.
    server
        .ask("DELETE", &format!("/sessions/{id}"), &json!({}))
        .ok();
    assert_eq!(
        server
            .ask("GET", &format!("/sessions/{id}"), &json!({}))
            .status,
        404
    );
    assert_eq!(server.get("/sessions")["data"].as_array().unwrap().len(), 1);
}

#[test]
fn chats_go_on_and_formats_and_limits_hold() {
    let scratch = Scratch::new("chats");
    let server = SocketServer::start(&scratch.file("s"), &[]);
    let say = |content: &str| json!({"messages": [{"role": "user", "content": content}], "max_tokens": 12, "temperature": 0});
    let id = server.open(&json!({}));
    let first = server.turn(&id, &say("Once"));
    let second = server.turn(&id, &say("And then"));
    let whole = json!({"max_tokens": 12, "temperature": 0, "messages": [
        {"role": "user", "content": "Once"},
        {"role": "assistant", "content": first},
        {"role": "user", "content": "And then"},
    ]});
    assert_eq!(second, text(&server.post("/v1/chat/completions", &whole)));
    let told = server.get(&format!("/sessions/{id}"));
    assert_eq!(
        (&told["kind"], &told["length"]),
        (&json!("chat"), &json!(4))
    );
    // A session's format is every turn's.
    let picky = server.open(&json!({"guided_regex": "(yes|no)"}));
    let answer = server.turn(&picky, &story("Is it? "));
    assert!(answer == "yes" || answer == "no", "{answer:?}");
    let turns = |id: &str| format!("/sessions/{id}/turns");
    let mut other = story("Is it? ");
    other["guided_regex"] = "maybe".into();
    for (id, body, status) in [
        (&picky, other, 400),
        (&id, story("a text"), 400),
        (&id, json!({}), 400),
        (&id, json!({"prompt": "a", "n": 2}), 400),
        (&id, json!({"prompt": ["a", "b"]}), 400),
        (&picky, json!({"prompt": "a", "echo": true}), 400),
        (&picky, json!({"prompt": "a", "model": "other"}), 400),
        (&"0123".to_owned(), story("a"), 404),
    ] {
        let refused = server.ask("POST", &turns(id), &body);
        assert_eq!(refused.status, status, "{body}: {}", refused.body);
    }
    // What does not fit the memory or the time of a session is refused, and the session stays as it was.
    let small = server.open(&json!({"memory": 1024}));
    assert_eq!(
        server.ask("POST", &turns(&small), &story("Once")).status,
        400
    );
    assert_eq!(server.get(&format!("/sessions/{small}"))["length"], 0);
    let hasty = server.open(&json!({"deadline_ms": 1}));
    let mut long = story("Once");
    long["max_tokens"] = 400.into();
    let late = server.ask("POST", &turns(&hasty), &long);
    assert!(late.status >= 400, "{}", late.body);
    for wrong in [
        json!({"memory": -1}),
        json!({"model": "nobody"}),
        json!({"color": 1}),
        json!([]),
    ] {
        let refused = server.ask("POST", "/sessions", &wrong);
        assert!(
            (400..500).contains(&refused.status),
            "{wrong}: {}",
            refused.body
        );
    }
}

#[test]
fn an_answer_goes_on_without_its_client_and_after_a_crash_of_the_server() {
    let scratch = Scratch::new("crash");
    let (socket, cache) = (scratch.file("s"), scratch.file("cache"));
    let words = ["--cache", cache.to_str().unwrap()];
    let server = SocketServer::start(&socket, &words);
    let turn = json!({"prompt": "Once upon a time", "max_tokens": 300, "temperature": 1, "stream": true, "seed": 5, "ignore_eos": true});
    let quiet = json!({"prompt": "Once upon a time", "max_tokens": 300, "temperature": 1, "seed": 5, "ignore_eos": true});
    let expected = text(&server.post("/v1/completions", &quiet));
    // A client that leaves gets all of its answer later, and the rest from any byte on.
    let id = server.open(&json!({}));
    let head = server.leave(&id, &turn, 600);
    let again = server
        .ask("GET", &format!("/sessions/{id}/answer"), &json!({}))
        .body;
    assert_eq!(streamed(&again), expected);
    let rest = server
        .ask(
            "GET",
            &format!("/sessions/{id}/answer?from=200"),
            &json!({}),
        )
        .body;
    assert_eq!(rest, again[200..]);
    assert!(head.contains(&again[..100]), "{head}");
    let beyond = server.ask(
        "GET",
        &format!("/sessions/{id}/answer?from=99999999"),
        &json!({}),
    );
    assert_eq!(beyond.status, 400);
    let tokens = server.get(&format!("/sessions/{id}"))["tokens"].clone();
    // The server is killed while it answers: the next one gives the same bytes.
    let cut = server.open(&json!({}));
    let head = server.leave(&cut, &turn, 600);
    server.kill();
    let server = SocketServer::start(&socket, &words);
    let again = server
        .ask("GET", &format!("/sessions/{cut}/answer"), &json!({}))
        .body;
    assert_eq!(streamed(&again), expected);
    assert!(head.contains(&again[..100]), "{head}\n{again}");
    // What was complete is there as it was, and goes on.
    assert_eq!(server.get(&format!("/sessions/{id}"))["tokens"], tokens);
    assert_eq!(
        server.turn(&id, &story(" But")),
        server.turn(&cut, &story(" But"))
    );
    // A turn can be ended, and leaves nothing.
    let length = server.get(&format!("/sessions/{id}"))["length"].clone();
    let mut endless = turn.clone();
    endless["prompt"] = " Then".into();
    endless["max_tokens"] = 100.into();
    server.leave(&id, &endless, 300);
    let path = format!("/sessions/{id}/answer");
    let canceled = server.ask("DELETE", &path, &json!({})).ok();
    assert_eq!(canceled["state"], "idle");
    if canceled["answer"]["status"] == "canceled" {
        assert_eq!(canceled["length"], length);
    }
}

#[test]
fn what_must_never_be_on_a_disk_is_not() {
    let scratch = Scratch::new("private");
    let (socket, cache) = (scratch.file("s"), scratch.file("cache"));
    let slots = scratch.file("slots");
    let words = [
        "--cache",
        cache.to_str().unwrap(),
        "--slot-save-path",
        slots.to_str().unwrap(),
    ];
    // Long enough for whole pages, and for a name in a file.
    let prompt = "Once upon a time there was a xylophone named Quetzalcoatl. ".repeat(4);
    let run = |private: bool| {
        let server = SocketServer::start(&socket, &words);
        let id = server.open(&json!({"never_to_disk": private}));
        server.turn(&id, &story(&prompt));
        let told = server.post(
            &format!("/sessions/{id}/checkpoints"),
            &json!({"name": "Quetzalcoatl"}),
        );
        assert_eq!(told["kept"], if private { "memory" } else { "disk" });
        let saved = server.ask("POST", "/slots/0?action=save", &json!({"filename": "a"}));
        assert_eq!(saved.status == 200, !private, "{}", saved.body);
        let cached = server.post("/v1/completions", &story(&prompt));
        let cached = cached["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert_eq!(cached.unwrap_or(0) > 0, !private);
        id
    };
    let private = run(true);
    assert!(!scratch.holds(b"Quetzalcoatl"));
    let server = SocketServer::start(&socket, &words);
    assert_eq!(
        server
            .ask("GET", &format!("/sessions/{private}"), &json!({}))
            .status,
        404
    );
    drop(server);
    // The test would see it.
    run(false);
    assert!(scratch.holds(b"Quetzalcoatl"));
}

#[test]
fn what_must_never_leave_the_machine_is_not_told_of() {
    let scratch = Scratch::new("local");
    let events = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = events.local_addr().unwrap();
    drop(events);
    let listen = format!("tcp://{address}");
    let server = SocketServer::start(
        &scratch.file("s"),
        &[
            "--kv-events",
            &listen,
            "--slot-save-path",
            scratch.file("slots").to_str().unwrap(),
        ],
    );
    let mut subscriber = Subscriber::new(address);
    let prompt = "Once upon a time there was a dog. ".repeat(12);
    let id = server.open(&json!({"never_off_machine": true}));
    server.turn(&id, &story(&prompt));
    // Told after it, so that all that is told of it has come by then.
    server.post(
        "/v1/completions",
        &story(&"A cat sat on a mat. ".repeat(12)),
    );
    let heard = subscriber.until(b"BlockStored");
    let tokens = server.get(&format!("/sessions/{id}"))["tokens"].clone();
    let cat = server.post(
        "/tokenize",
        &json!({"content": "A cat sat on a mat. A cat sat"}),
    );
    let told = |tokens: &Value| {
        let packed = packed(&tokens.as_array().unwrap()[1..8]);
        heard.windows(packed.len()).any(|found| found == packed)
    };
    assert!(told(&cat["tokens"]) && !told(&tokens), "{heard:?}");
}

/// Tokens as the events have them: MessagePack's numbers of one and of four bytes.
fn packed(tokens: &[Value]) -> Vec<u8> {
    let tokens = tokens.iter().map(|token| token.as_u64().unwrap() as u32);
    let pack = |token: u32| match token {
        0..0x80 => vec![token as u8],
        _ => [&[0xce], &token.to_be_bytes()[..]].concat(),
    };
    tokens.flat_map(pack).collect()
}

#[test]
fn sockets_of_others_and_wrong_ones_are_refused_and_stale_ones_replaced() {
    let scratch = Scratch::new("stale");
    let path = scratch.file("s");
    drop(UnixListener::bind(&path).unwrap());
    let server = SocketServer::start(&path, &[]);
    let second = strata(&[
        "serve",
        "tale",
        "--socket",
        path.to_str().unwrap(),
        "--socket-only",
    ]);
    assert_eq!(second.code, Some(1));
    assert!(
        second.err.contains("another server listens there"),
        "{}",
        second.err
    );
    // Bytes that are no HTTP, and a client that says nothing, harm nobody.
    let _silent = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let reply = ask(&path, "GET", "/sessions/x/nothing", "");
    assert_eq!(reply.status, 404);
    let reply = ask(&path, "POST", "/sessions", "{");
    assert_eq!(reply.status, 400);
    assert_eq!(server.get("/sessions")["data"], json!([]));
    server.kill();
    assert!(path.exists(), "a server that was killed leaves its socket");
    let server = SocketServer::start(&path, &["--sessions-per-user", "2"]);
    server.open(&json!({}));
    server.open(&json!({}));
    let third = server.ask("POST", "/sessions", &json!({}));
    assert_eq!(third.status, 429, "{}", third.body);
    std::fs::write(scratch.file("plain"), "").unwrap();
    let plain = scratch.file("plain");
    for words in [
        vec!["--socket", plain.to_str().unwrap()],
        vec!["--socket", "s", "--socket-mode", "0777"],
        vec!["--socket-only"],
        vec!["--socket", "s", "--socket-only", "--port", "1"],
    ] {
        let wrong = strata(&[&["serve", "tale"][..], &words].concat());
        assert!(wrong.code.is_some_and(|code| code != 0), "{words:?}");
    }
}

/// systemd's way of passing a socket: descriptor 3, and two variables.
#[test]
fn a_passed_socket_is_listened_at_and_nothing_else() {
    let scratch = Scratch::new("passed");
    let path = scratch.file("s");
    let listener = UnixListener::bind(&path).unwrap();
    let mut command = std::process::Command::new("sh");
    command.args([
        "-c",
        "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"",
        "sh",
    ]);
    command.arg(env!("CARGO_BIN_EXE_strata"));
    command.args([
        "serve",
        "tale",
        "--threads",
        "2",
        "--ctx",
        "512",
        "--host",
        "0.0.0.0:1",
    ]);
    // No key: it must not listen at that address.
    command.arg("--insecure-no-auth");
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
    let server = SocketServer::spawn(command, &path);
    let id = server.open(&json!({}));
    assert!(!server.turn(&id, &story("Once")).is_empty());
    assert!(std::net::TcpStream::connect("127.0.0.1:1").is_err());
    server.kill();
    assert!(path.exists(), "the file is systemd's");
}

/// Hears what is published of pages.
struct Subscriber(std::net::TcpStream);

impl Subscriber {
    fn new(address: std::net::SocketAddr) -> Self {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(60)))
            .unwrap();
        // ZMTP 3.0: greeting, READY, a subscription to everything.
        let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0];
        greeting.extend_from_slice(b"NULL");
        greeting.resize(64, 0);
        stream.write_all(&greeting).unwrap();
        let ready = b"\x05READY\x0bSocket-Type\0\0\0\x03SUB";
        stream.write_all(&[4, ready.len() as u8]).unwrap();
        stream.write_all(ready).unwrap();
        stream.write_all(&[0, 1, 1]).unwrap();
        let mut head = [0; 64];
        stream.read_exact(&mut head).unwrap();
        // The subscription is read before what is published next.
        wait_for("a moment", {
            let begin = std::time::Instant::now();
            move || begin.elapsed().as_millis() > 200
        });
        Self(stream)
    }

    /// Everything up to a message with this word, and what follows it at once.
    fn until(&mut self, word: &[u8]) -> Vec<u8> {
        use std::io::Read;
        let mut all = Vec::new();
        let mut piece = [0; 65536];
        while let Ok(read @ 1..) = self.0.read(&mut piece) {
            all.extend_from_slice(&piece[..read]);
            if all.windows(word.len()).any(|found| found == word) {
                let soon = std::time::Duration::from_millis(500);
                self.0.set_read_timeout(Some(soon)).unwrap();
            }
        }
        all
    }
}
