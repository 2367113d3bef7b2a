//! `strata relay` from the command line: what it refuses before it listens. `cargo xtask test-fleet` has the rest.

use crate::program::strata;

#[test]
fn a_relay_needs_servers_and_a_key_beyond_loopback() {
    let missing = strata(&["relay"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("--to"), "{}", missing.err);
    for url in ["https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1"] {
        let wrong = strata(&["relay", "--to", url]);
        assert_eq!(wrong.code, Some(2), "{url}");
        assert!(wrong.err.contains("http://HOST:PORT"), "{}", wrong.err);
    }
    let open = strata(&["relay", "--to", "http://127.0.0.1:1", "--host", "0.0.0.0:0"]);
    assert_eq!(open.code, Some(2));
    assert!(open.err.contains("without an API key"), "{}", open.err);
}

#[test]
fn cache_events_are_not_published_to_other_machines() {
    let open = strata(&["serve", "tale", "--kv-events", "tcp://0.0.0.0:0"]);
    assert_eq!(open.code, Some(2));
    assert!(
        open.err.contains("refusing to publish prompts"),
        "{}",
        open.err
    );
    for words in [
        ["--kv-events", "127.0.0.1:1"],
        ["--kv-events-to", "ipc://a"],
        ["--kv-events-name", "a"],
    ] {
        let wrong = strata(&[&["serve", "tale"], &words[..]].concat());
        assert_eq!(wrong.code, Some(2), "{words:?}");
    }
}
