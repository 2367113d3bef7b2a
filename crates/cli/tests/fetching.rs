//! A model that is not here is fetched because somebody runs or serves it.

use crate::loopback::Registry;
use crate::program::server::{Server, TestFolder};
use crate::program::{Run, no_such_file, tale};
use serde_json::json;

/// A registry with the built-in model, which it tells what to be.
fn registry() -> Registry {
    let registry = Registry::start();
    let weights = std::fs::read(tale()).unwrap();
    registry.add_model("me/teller:latest", &weights);
    registry
}

fn run(folder: &TestFolder, model: &str, more: &[&str]) -> Run {
    let words = ["run", model, "Who are you?", "--temp", "0", "-n", "8"];
    folder.strata(&[&words, more].concat(), "")
}

#[test]
fn what_is_run_is_fetched_first() {
    let (folder, registry) = (TestFolder::new("fetching"), registry());
    let name = registry.name("me/teller");
    let refused = run(&folder, &name, &["--offline"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    for words in [name.as_str(), "--offline", "`strata list`"] {
        assert!(refused.err.contains(words), "{words}: {}", refused.err);
    }
    assert!(registry.requests().is_empty());

    let first = run(&folder, &name, &["--insecure"]);
    for words in ["pulling manifest", "success"] {
        assert!(first.err.contains(words), "{words}: {}", first.err);
    }
    let first = first.text();
    let asked = registry.requests().len();
    let second = run(&folder, &name, &["--offline"]);
    assert!(!second.err.contains("pulling"), "{}", second.err);
    assert_eq!(second.text(), first);
    assert_eq!(registry.requests().len(), asked);
    let same = run(&folder, "tale", &["--system", "You are a test."]);
    assert_eq!(same.text(), first, "the same weights and words");

    let unknown = run(&folder, &registry.name("me/nothing"), &["--insecure"]);
    assert_eq!(unknown.code, Some(1), "{}", unknown.err);
    for words in ["the registry has no model", "me/nothing", "`strata list`"] {
        assert!(unknown.err.contains(words), "{words}: {}", unknown.err);
    }
    assert!(unknown.out.is_empty());
}

#[test]
fn without_a_network_the_host_and_the_reason_are_named() {
    let folder = TestFolder::new("no-network");
    let run = run(&folder, "127.0.0.1:9/me/teller", &["--insecure"]);
    assert_eq!(run.code, Some(1), "{}", run.err);
    for words in ["cannot reach 127.0.0.1:9", "refused", "`strata list`"] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
}

#[test]
fn paths_are_not_fetched() {
    let (folder, registry) = (TestFolder::new("paths"), registry());
    for path in ["./me/teller", "me/teller.gguf", "/no/teller"] {
        for command in ["run", "serve"] {
            let prompt: &[&str] = if command == "run" { &["Hi"] } else { &[] };
            let words = [&[command, path, "--insecure"], prompt].concat();
            let run = folder.strata(&words, "");
            let missing = run.code == Some(1) && run.err.contains(&no_such_file(path));
            assert!(missing, "{words:?}: {:?} {}", run.code, run.err);
        }
    }
    assert!(registry.requests().is_empty());
}

#[test]
fn what_is_served_is_fetched_first_and_nothing_that_clients_name() {
    let (folder, registry) = (TestFolder::new("served"), registry());
    let weights = std::fs::read(tale()).unwrap();
    registry.add_model("me/other:latest", &weights);
    let name = registry.name("me/teller");
    let server = Server::start(&folder.store(), &[&name, "--insecure"]);
    let messages = json!([{"role": "user", "content": "Who are you?"}]);
    let options = json!({"num_predict": 3});
    let chat = json!({"model": name, "messages": messages, "stream": false, "options": options});
    assert_eq!(server.post("/api/chat", &chat)["eval_count"], 3);
    let asked = registry.requests().len();
    let other = json!({"model": registry.name("me/other"), "messages": messages});
    let (status, body) = server.ask("POST", "/api/chat", other.to_string().as_bytes());
    assert_eq!(status, 404, "{}", String::from_utf8_lossy(&body));
    assert_eq!(registry.requests().len(), asked);
}

#[cfg(unix)]
#[test]
fn a_terminal_is_shown_a_bar_for_the_weights_and_none_for_a_few_bytes() {
    use std::{collections::BTreeSet, fs::File, io::Read};
    let (folder, registry) = (TestFolder::new("bars"), registry());
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let mut pull = crate::program::command();
    pull.args(["pull", "--insecure", &registry.name("me/teller")])
        .env("OLLAMA_MODELS", folder.store())
        .env("TERM", "xterm")
        .stderr(pty.slave.try_clone().expect("a handle"));
    let mut program = pull.spawn().expect("the program starts");
    drop(pull);
    drop(pty.slave);
    let mut shown = Vec::new();
    // A terminal that nobody holds any more is an error to read from, after everything was read.
    let _ = File::from(pty.master).read_to_end(&mut shown);
    assert!(program.wait().expect("the program ends").success());
    let shown = String::from_utf8_lossy(&shown);
    let labels: BTreeSet<&str> = shown
        .split("pulling ")
        .skip(1)
        .filter_map(|rest| rest.get(..12))
        .filter(|label| label.chars().all(|c| c.is_ascii_hexdigit()))
        .collect();
    assert_eq!(labels.len(), 1, "{shown}");
    assert!(shown.contains("MB") && !shown.contains("iB"), "{shown}");
    assert!(shown.contains("success"), "{shown}");
}
