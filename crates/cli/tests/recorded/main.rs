//! Recorded requests must get the recorded answers, to the bit: from a cold server and from a warm one, one at a time and
//! eight at once, on every instruction set. `cargo xtask test-boot` sends those tagged `boot` to the unikernel.
//!
//! The requests are in `recording.txt`, in the format of [`recording`]. They go through the command line and HTTP only.
//! To record all answers again: `STRATA_RECORD=1 cargo test -p strata-cli --test recorded`.

mod models;
#[path = "../program/mod.rs"]
mod program;
mod recording;

use models::Models;
use program::server::Server;
use program::{finish, instruction_sets};
use recording::Recorded;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Concurrent clients.
const CLIENTS: usize = 8;
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/recording.txt");

/// Tags requests for a server with an 8-bit KV cache.
const KV8: &str = "kv8";
/// Tags requests for every instruction set. They are short: the scalar kernels take 20 times as long.
const ISA: &str = "isa";

fn read_recording() -> Vec<Recorded> {
    recording::parse(&std::fs::read_to_string(FILE).expect("the recording exists"))
}

fn is_recording() -> bool {
    std::env::var_os("STRATA_RECORD").is_some()
}

/// A server for each KV cache type.
struct Servers {
    f16: Server,
    q8_0: Server,
}

impl Servers {
    fn start(models: &Models, threads: &str, isa: Option<&str>) -> Self {
        let start = |kv| models.serve(&["--threads", threads, "--kv", kv], isa);
        Self {
            f16: start("f16"),
            q8_0: start("q8_0"),
        }
    }

    fn post(&self, path: &str, recorded: &Recorded) -> String {
        let server = if recorded.has_tag(KV8) {
            &self.q8_0
        } else {
            &self.f16
        };
        let (status, body) = server.ask("POST", path, recorded.body.as_bytes());
        let body = String::from_utf8(body).expect("answers are UTF-8");
        recording::answer(status, &body)
    }
}

/// Runs a recorded command.
fn run(models: &Models, recorded: &Recorded, isa: Option<&str>) -> String {
    let arguments: Vec<String> = serde_json::from_str(&recorded.body).expect("a list of arguments");
    let mut command = models.command(isa);
    command.args(arguments);
    let run = finish(command);
    assert_eq!(run.code, Some(0), "{}: {}", recorded.name, run.err);
    let text = String::from_utf8(run.out).expect("output is UTF-8");
    recording::answer(0, &text)
}

/// The answers that differ from the recorded ones.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, recorded: &Recorded, answer: &str) {
        if recorded.answer != answer {
            self.0.push(format!(
                "{}: {}\nrecorded: {}\nnow: {answer}",
                recorded.name, recorded.body, recorded.answer
            ));
        }
    }

    #[track_caller]
    fn expect_none(&self, how: &str) {
        let count = self.0.len();
        let list = self.0.join("\n\n");
        assert!(count == 0, "{count} answers differ {how}:\n\n{list}");
    }
}

#[test]
fn one_at_a_time_cold_and_warm() {
    let mut recording = read_recording();
    let models = Models::new("one-at-a-time");
    let servers = Servers::start(&models, "1", None);
    let answer = |recorded: &Recorded| match recorded.path() {
        Some(path) => servers.post(path, recorded),
        None => run(&models, recorded, None),
    };
    if is_recording() {
        for recorded in &mut recording {
            recorded.answer = answer(recorded);
            let succeeded = ["0\n", "200\n"]
                .iter()
                .any(|s| recorded.answer.starts_with(s));
            assert!(succeeded, "{}: {}", recorded.name, recorded.answer);
        }
        let older = std::fs::read_to_string(FILE).expect("the recording exists");
        std::fs::write(FILE, recording::write(&older, &recording)).expect("writable sources");
        return;
    }
    let mut differences = Differences::default();
    for recorded in &recording {
        differences.compare(recorded, &answer(recorded));
    }
    differences.expect_none("on a cold server");
    for recorded in &recording {
        if let Some(path) = recorded.path() {
            differences.compare(recorded, &servers.post(path, recorded));
        }
    }
    differences.expect_none("on a warm server");
}

#[test]
fn eight_at_once() {
    if is_recording() {
        return;
    }
    let recording = read_recording();
    let models = Models::new("eight-at-once");
    let servers = Servers::start(&models, "2", None);
    // Load each model first, so that requests meet in batches and do not wait for the files.
    let mut loaded = HashSet::new();
    for recorded in &recording {
        if let Some(path) = recorded.path()
            && loaded.insert((recorded.model(), recorded.has_tag(KV8)))
        {
            servers.post(path, recorded);
        }
    }
    let next = AtomicUsize::new(0);
    let differences = Mutex::new(Differences::default());
    let client = || {
        while let Some(recorded) = recording.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(path) = recorded.path() {
                let answer = servers.post(path, recorded);
                differences.lock().unwrap().compare(recorded, &answer);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(client);
        }
    });
    differences.into_inner().unwrap().expect_none("in batches");
}

#[test]
fn on_every_instruction_set() {
    if is_recording() {
        return;
    }
    let recording = read_recording();
    let models = Models::new("instruction-sets");
    for isa in instruction_sets() {
        let servers = Servers::start(&models, "1", Some(&isa));
        let mut differences = Differences::default();
        for recorded in recording.iter().filter(|recorded| recorded.has_tag(ISA)) {
            let answer = match recorded.path() {
                Some(path) => servers.post(path, recorded),
                None => run(&models, recorded, Some(&isa)),
            };
            differences.compare(recorded, &answer);
        }
        differences.expect_none(&format!("on {isa}"));
    }
}

#[test]
fn the_recording_has_what_it_promises() {
    let recording = read_recording();
    let names: HashSet<&str> = recording.iter().map(|recorded| &*recorded.name).collect();
    assert_eq!(names.len(), recording.len(), "names are unique");
    let count = |tag| recording.iter().filter(|r| r.has_tag(tag)).count();
    assert!(recording.len() >= 200 && count("boot") >= 30 && count(ISA) >= 50 && count(KV8) >= 5);
    let size = Path::new(FILE)
        .metadata()
        .expect("the recording exists")
        .len();
    assert!(size < 300_000, "{size} bytes");
}
