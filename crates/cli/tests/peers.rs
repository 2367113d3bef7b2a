//! A model over several processes: the same bytes as one, at every door, and what happens when one of them goes.

use crate::program::server::{Server, TestFolder};
use crate::program::{command, finish, strata};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const KEY: &str = "a key for these tests";

/// A process with some of the layers.
struct Peer {
    program: Child,
    address: String,
}

impl Peer {
    fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    fn start_at(address: &str) -> Self {
        let mut command = command();
        let mut program = command
            .args(["peer", "tale", "--threads", "2", "--listen", address])
            .env("STRATA_PEER_KEY", KEY)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(program.stderr.take().unwrap()).lines();
        let line = lines.next().expect("it says where it listens").unwrap();
        let address = line.strip_prefix("listening on ").expect(&line);
        let address = address.split(',').next().unwrap().to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Self { program, address }
    }

    fn kill(&mut self) {
        self.program.kill().unwrap();
        self.program.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn with_key(words: &[&str]) -> crate::program::Run {
    let mut command = command();
    command.args(words).env("STRATA_PEER_KEY", KEY);
    finish(command)
}

#[test]
fn an_answer_of_three_processes_has_the_bytes_of_one() {
    let (first, second) = (Peer::start(), Peer::start());
    let peers = format!("{},{}", first.address, second.address);
    let asked = [
        "run",
        "tale",
        "Tell me a story about a fox.",
        "--seed",
        "7",
        "-n",
        "48",
    ];
    let alone = strata(&asked).text();
    let spread = [&asked[..], &["--peers", &peers]].concat();
    assert_eq!(with_key(&spread).text(), alone);
    // Drafts that are wrong are taken back on all machines; keys and values in 8 bits; another way to share.
    let more = ["--speculate=4", "--kv", "q8_0"];
    let alone = strata(&[&asked[..], &more].concat()).text();
    let layers = layers();
    let shares = format!("1,1,{}", layers - 2);
    let shared = [&spread[..], &more, &["--peer-layers", &shares, "--verbose"]].concat();
    let run = with_key(&shared);
    assert!(
        run.err.contains("layer 0 here") && run.err.contains("layer 1 on"),
        "{}",
        run.err
    );
    assert_eq!(run.text(), alone);
}

fn layers() -> usize {
    let json: Value = serde_json::from_str(&strata(&["inspect", "tale", "--json"]).text()).unwrap();
    let metadata = json["metadata"].as_object().unwrap();
    let count = metadata
        .iter()
        .find(|(key, _)| key.ends_with(".block_count"));
    count.unwrap().1.as_u64().unwrap() as usize
}

#[test]
fn a_plan_says_what_each_machine_takes() {
    let peer = Peer::start();
    let plan = |words: &[&str]| {
        let words = [&["plan", "tale", "--json"], words].concat();
        serde_json::from_str::<Value>(&with_key(&words).text()).unwrap()
    };
    let (alone, spread) = (plan(&[]), plan(&["--peers", &peer.address]));
    let other = &spread["peers"][0];
    assert_eq!(other["address"], peer.address.as_str());
    for bytes in ["weights_bytes", "kv_bytes"] {
        let sum = spread[bytes].as_u64().unwrap() + other[bytes].as_u64().unwrap();
        assert_eq!(sum, alone[bytes].as_u64().unwrap(), "{bytes}");
        assert!(other[bytes].as_u64().unwrap() > 0, "{bytes}");
    }
    let layers = spread["layers"].as_u64().unwrap();
    assert_eq!(other["first_layer"].as_u64().unwrap(), layers);
    assert!(other["limit_bytes"].as_u64() > other["total_bytes"].as_u64());
    let text = with_key(&["plan", "tale", "--peers", &peer.address]).text();
    assert!(text.contains("this machine: layers 0 to "), "{text}");
    assert!(
        text.contains(&format!("peer {}: layers ", peer.address)),
        "{text}"
    );
}

#[test]
fn what_is_wrong_with_peers_is_said_before_anything_is_loaded() {
    let peer = Peer::start();
    let peers = peer.address.as_str();
    let keyless = strata(&["run", "tale", "x", "--peers", peers]);
    assert_eq!(keyless.code, Some(2));
    assert!(keyless.err.contains("need a key"), "{}", keyless.err);
    let short = strata(&["peer", "tale", "--peer-key", "short"]);
    assert_eq!(short.code, Some(2));
    assert!(short.err.contains("at least 8 characters"), "{}", short.err);
    let other = strata(&[
        "run",
        "tale",
        "x",
        "--peers",
        peers,
        "--peer-key",
        "another key",
    ]);
    assert_eq!(other.code, Some(2));
    assert!(
        other.err.contains("keys of the two sides differ"),
        "{}",
        other.err
    );
    let says = |words: &[&str], what: &str| {
        let run = with_key(words);
        assert!(run.code != Some(0) && run.err.contains(what), "{}", run.err);
    };
    says(
        &["run", "tale", "x", "--peers", "127.0.0.1:1"],
        "connection refused",
    );
    says(
        &["run", "tale", "x", "--peers", "no such host:"],
        "no such host",
    );
    let shares = ["run", "tale", "x", "--peers", peers, "--peer-layers", "1,1"];
    says(&shares, "add up to 2");
    says(
        &["run", "tale", "x", "--peers", peers, "--lora", "a.gguf"],
        "adapters",
    );
    let golden = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/golden/llama.gguf"
    );
    let model = ["plan", golden, "--peers", peers];
    says(&model, "has another model");
    // A port that something else listens on.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = server.local_addr().unwrap().to_string();
    says(&["peer", "tale", "--listen", &taken], "cannot listen on");
    says(
        &["peer", "tale", "--listen", "nowhere:x"],
        "invalid address",
    );
}

#[test]
fn a_server_outlives_its_peer_and_goes_on_when_it_is_back() {
    let mut peer = Peer::start();
    let address = peer.address.clone();
    let folder = TestFolder::new("peers");
    let mut command = command();
    let flags = [
        "serve",
        "tale",
        "--threads",
        "2",
        "--ctx",
        "512",
        "--parallel",
        "2",
    ];
    command.args(flags).args(["--peers", &address]);
    command
        .env("STRATA_PEER_KEY", KEY)
        .env("OLLAMA_MODELS", folder.store());
    let server = Server::spawn(command);
    let alone = Server::start(&folder.store(), &["tale"]);
    let body =
        json!({ "prompt": "Once upon a time there was a fox", "max_tokens": 24, "temperature": 0 });
    let text = |server: &Server| {
        let answer = server.post("/v1/completions", &body);
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let expected = text(&alone);
    assert_eq!(text(&server), expected);
    // From the cache, whose pages are on both machines.
    assert_eq!(text(&server), expected);
    let health = || {
        let (status, body) = server.ask("GET", "/health", b"");
        assert_eq!(status, 200);
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["status"], "ok");
        json["peers"][0].clone()
    };
    let ready = || server.ask("GET", "/ready", b"").0;
    assert_eq!(
        (health()["reachable"].as_bool(), ready()),
        (Some(true), 200)
    );

    // Mid-stream: the stream ends with an error, and does not hang.
    let long = json!({ "prompt": "Once upon a time", "max_tokens": 400, "temperature": 0, "stream": true });
    let cut = std::thread::scope(|scope| {
        let cut = scope.spawn(|| server.post_text("/v1/completions", &long));
        std::thread::sleep(Duration::from_millis(300));
        peer.kill();
        cut.join().unwrap()
    });
    // A fast machine may have been done already.
    assert!(
        cut.contains("cannot be reached") || cut.contains("[DONE]"),
        "{cut}"
    );
    let (status, refused) = server.ask("POST", "/v1/completions", body.to_string().as_bytes());
    assert_eq!(status, 503);
    let refused = String::from_utf8(refused).unwrap();
    assert!(refused.contains("cannot be reached"), "{refused}");
    assert_eq!(
        (health()["reachable"].as_bool(), ready()),
        (Some(false), 503)
    );
    assert!(!health()["error"].as_str().unwrap().is_empty());

    let peer = Peer::start_at(&address);
    let start = Instant::now();
    while ready() != 200 {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", health());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(text(&server), expected);
    drop(peer);
}

#[cfg(unix)]
#[test]
fn a_session_that_may_not_leave_the_machine_is_refused_where_peers_compute() {
    use crate::sessions::client::{Scratch, SocketServer};
    let (peer, scratch) = (Peer::start(), Scratch::new("peers"));
    let words = ["--peers", &peer.address, "--peer-key", KEY];
    let server = SocketServer::start(&scratch.file("s"), &words);
    let refused = server.ask("POST", "/sessions", &json!({"never_off_machine": true}));
    assert_eq!(refused.status, 501, "{}", refused.body);
    assert!(refused.body.contains("other machines"), "{}", refused.body);
    server.open(&json!({"never_to_disk": true}));
}
