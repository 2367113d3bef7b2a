//! Two users of one machine. Only the superuser can be another, so others skip these tests.

use super::client::{Scratch, SocketServer, ask};
use super::story;
use crate::program::{command, finish};
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Somebody else.
const OTHER: u32 = 54_321;

/// Not a test: what [`as_other`] runs as another user.
#[test]
fn asks_as_another_user() {
    let Ok(words) = std::env::var("STRATA_TEST_ASK") else {
        return;
    };
    let words: Value = serde_json::from_str(&words).unwrap();
    let word = |at: usize| words[at].as_str().unwrap();
    let reply = ask(Path::new(word(0)), word(1), word(2), word(3));
    println!("\nREPLY {} {}", reply.status, reply.body);
}

/// What another user is answered.
fn as_other(server: &SocketServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let words = json!([
        server.socket.to_str().unwrap(),
        method,
        path,
        body.to_string()
    ]);
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sessions::users::asks_as_another_user",
            "--nocapture",
        ])
        .env("STRATA_TEST_ASK", words.to_string())
        .uid(OTHER)
        .gid(OTHER)
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let reply = said.lines().find_map(|line| line.strip_prefix("REPLY "));
    let reply =
        reply.unwrap_or_else(|| panic!("{said} {}", String::from_utf8_lossy(&output.stderr)));
    let (status, body) = reply.split_once(' ').unwrap();
    (
        status.parse().unwrap(),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

/// Whether this test can be another user: it is root, and the other can run this program.
fn can_be_another() -> bool {
    let root = strata_host::user_id() == Some(0);
    let program = std::env::current_exe().unwrap();
    let runs = root
        && Command::new(program)
            .args(["--exact", "nothing"])
            .uid(OTHER)
            .gid(OTHER)
            .current_dir("/")
            .output()
            .is_ok_and(|output| output.status.success());
    if !runs {
        eprintln!("skipped: only root can be another user");
    }
    runs
}

#[test]
fn a_user_has_sessions_of_its_own_and_takes_what_it_is_handed() {
    if !can_be_another() {
        return;
    }
    let scratch = Scratch::new("users");
    let (socket, cache) = (scratch.file("s"), scratch.file("cache"));
    let words = ["--socket-mode", "0666", "--cache", cache.to_str().unwrap()];
    let server = SocketServer::start(&socket, &words);
    let id = server.open(&json!({}));
    let first = server.turn(&id, &story("Once upon a time"));
    let own = format!("/sessions/{id}");
    for (method, path, body) in [
        ("GET", own.clone(), json!({})),
        ("DELETE", own.clone(), json!({})),
        ("GET", format!("{own}/answer"), json!({})),
        ("POST", format!("{own}/turns"), story("a")),
        ("POST", format!("{own}/fork"), json!({})),
        ("POST", format!("{own}/hand"), json!({"uid": OTHER})),
        (
            "POST",
            "/sessions/take".into(),
            json!({"token": format!("0.{id}.0")}),
        ),
        (
            "POST",
            "/sessions/take".into(),
            json!({"token": "nonsense"}),
        ),
    ] {
        let (status, reply) = as_other(&server, method, &path, &body);
        assert_eq!(status, 404, "{method} {path}: {reply}");
    }
    assert_eq!(
        as_other(&server, "GET", "/sessions", &json!({})).1["data"],
        json!([])
    );
    // What changes the server is for its administrators.
    assert_eq!(
        as_other(&server, "DELETE", "/api/delete", &json!({"model": "a"})).0,
        403
    );
    // A token is for one user, and once; a restart does not undo it.
    let handed = server.post(
        &format!("{own}/hand"),
        &json!({"uid": OTHER, "seconds": 600}),
    );
    let token = json!({"token": handed["token"]});
    assert_eq!(server.ask("POST", "/sessions/take", &token).status, 404);
    server.kill();
    let server = SocketServer::start(&socket, &words);
    let (status, taken) = as_other(&server, "POST", "/sessions/take", &token);
    assert_eq!((status, &taken["uid"]), (200, &json!(OTHER)), "{taken}");
    assert_eq!(as_other(&server, "POST", "/sessions/take", &token).0, 404);
    assert_eq!(server.ask("GET", &own, &json!({})).status, 404);
    let (_, answer) = as_other(&server, "GET", &format!("{own}/answer"), &json!({}));
    assert_eq!(answer["choices"][0]["text"], first.as_str());
    let (status, next) = as_other(&server, "POST", &format!("{own}/turns"), &story(" The dog"));
    assert_eq!(status, 200, "{next}");
    // The other's is accounted for the other, who sees nobody else's.
    let seen = as_other(&server, "GET", "/usage", &json!({})).1;
    let names = |usage: &Value| -> Vec<Value> {
        let users = usage["users"].as_array().unwrap().iter();
        users.map(|user| user["uid"].clone()).collect()
    };
    assert_eq!(names(&seen), [json!(OTHER)]);
    assert!(
        seen["users"][0]["completion_tokens"].as_u64() > Some(0),
        "{seen}"
    );
    assert!(seen["users"][0]["cache_bytes"].as_u64() > Some(0), "{seen}");
    server.open(&json!({}));
    let all = server.get("/usage");
    assert_eq!(names(&all), [json!(0), json!(OTHER)], "{all}");
    // `strata ps` shows them.
    let mut ps = command();
    ps.arg("ps")
        .env("STRATA_HOST", format!("unix:{}", socket.display()));
    let table = finish(ps).text();
    assert!(
        table.contains("TOKENS OUT") && table.contains(&format!("uid {OTHER}")),
        "{table}"
    );
    assert!(table.contains("root"), "{table}");
}

#[test]
fn the_sockets_mode_keeps_others_out() {
    if !can_be_another() {
        return;
    }
    let scratch = Scratch::new("mode");
    let server = SocketServer::start(&scratch.file("s"), &[]);
    let mut ps = command();
    ps.arg("ps")
        .env("STRATA_HOST", format!("unix:{}", server.socket.display()));
    ps.uid(OTHER).gid(OTHER).current_dir("/");
    let kept_out = finish(ps);
    assert_eq!(kept_out.code, Some(1));
    assert!(
        kept_out.err.to_lowercase().contains("permission denied"),
        "{}",
        kept_out.err
    );
}
