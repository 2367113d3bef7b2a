//! Who may do what: every route, with every kind of key, for models of one's own and of others.

use crate::support::{Answer, TestServer};
use std::sync::atomic::Ordering;
use strata_server::{Access, Key};
use strata_wire::{Role, dialect};

const ADMIN: &str = "the-key-of-the-administrator";
const OWN: &str = "the-key-for-tale";
const OTHER: &str = "the-key-for-other";

fn key(secret: &str, models: &[&str], administers: bool) -> Key {
    Key {
        name: secret.into(),
        secret: secret.into(),
        per_minute: None,
        models: models.iter().map(|&model| model.into()).collect(),
        administers,
    }
}

fn start() -> TestServer {
    let access = Access::new(vec![
        key(ADMIN, &[], true),
        key(OWN, &["tale:latest"], false),
        key(OTHER, &["other"], false),
    ]);
    TestServer::with(access, &["tale", "other"], u64::MAX)
}

fn ask(server: &TestServer, secret: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = match secret {
        "" => String::new(),
        secret => format!("authorization: Bearer {secret}\r\n"),
    };
    server.ask(method, path, &headers, body)
}

#[test]
fn every_route_asks_for_its_role() {
    let server = start();
    let mut administrative = 0;
    for (_, route) in dialect::routes() {
        let id = if route.path == "/v1/models/{id}" {
            "tale"
        } else {
            "0"
        };
        let path = route.path.replace("{id}", id);
        administrative += usize::from(route.role == Role::Administrator);
        for (secret, has) in [
            ("", Role::Anyone),
            ("not-a-key-at-all", Role::Anyone),
            (OWN, Role::Client),
            (ADMIN, Role::Administrator),
        ] {
            let answer = ask(&server, secret, route.method, &path, "{}");
            let told = (route.method, route.path, secret, answer.status);
            match has {
                _ if route.role <= has => assert!(![401, 403].contains(&answer.status), "{told:?}"),
                Role::Anyone => assert_eq!(answer.status, 401, "{told:?}"),
                _ => assert_eq!(answer.status, 403, "{told:?}"),
            }
        }
    }
    // What changes the server or its store.
    assert_eq!(administrative, 10);
    for (method, path) in [
        ("POST", "/api/create"),
        ("POST", "/api/pull"),
        ("POST", "/api/push"),
        ("POST", "/api/copy"),
        ("DELETE", "/api/delete"),
        ("HEAD", "/api/blobs/0"),
        ("POST", "/api/blobs/0"),
        ("POST", "/props"),
        ("POST", "/slots/0"),
        ("POST", "/lora-adapters"),
    ] {
        assert_eq!(ask(&server, OWN, method, path, "{}").status, 403, "{path}");
    }
}

#[test]
fn a_key_is_for_its_models_and_those_of_others_are_not_even_loaded() {
    let server = start();
    let said = r#""messages":[{"role":"user","content":"a"}]"#;
    let routes = [
        (
            "/v1/chat/completions",
            format!("{{\"model\":\"$\",{said},\"max_tokens\":1}}"),
        ),
        (
            "/v1/messages",
            format!("{{\"model\":\"$\",{said},\"max_tokens\":1}}"),
        ),
        (
            "/v1/messages/count_tokens",
            format!("{{\"model\":\"$\",{said}}}"),
        ),
        (
            "/v1/completions",
            r#"{"model":"$","prompt":"a","max_tokens":1}"#.into(),
        ),
        (
            "/v1/responses",
            r#"{"model":"$","input":"a","max_output_tokens":1}"#.into(),
        ),
        ("/v1/embeddings", r#"{"model":"$","input":"a"}"#.into()),
        (
            "/api/chat",
            format!("{{\"model\":\"$\",{said},\"options\":{{\"num_predict\":1}}}}"),
        ),
        (
            "/api/generate",
            r#"{"model":"$","prompt":"a","options":{"num_predict":1}}"#.into(),
        ),
        ("/api/generate", r#"{"model":"$"}"#.into()),
        ("/api/embed", r#"{"model":"$","input":"a"}"#.into()),
        ("/api/show", r#"{"model":"$"}"#.into()),
        ("/lessons/prompt", r#"{"model":"$","prompt":"a"}"#.into()),
        (
            "/lessons/pages",
            r#"{"model":"$","texts":["a"],"max_tokens":1}"#.into(),
        ),
    ];
    for (path, body) in &routes {
        for model in ["other", "nobody"] {
            let answer = ask(&server, OWN, "POST", path, &body.replace('$', model));
            assert_eq!(answer.status, 403, "{path} {model}: {}", answer.body);
        }
    }
    assert_eq!(server.models.loads.load(Ordering::SeqCst), 0);
    for (path, body) in &routes {
        let answer = ask(&server, OWN, "POST", path, &body.replace('$', "tale"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    // The default model is the first, which is not this client's.
    for (method, path, body) in [
        ("POST", "/tokenize", r#"{"content":"a"}"#),
        ("POST", "/completion", r#"{"prompt":"a","n_predict":1}"#),
        ("GET", "/tokenizer_info", ""),
        ("GET", "/lora-adapters", ""),
        ("GET", "/v1/models/tale", ""),
        ("GET", "/props", ""),
    ] {
        let answer = ask(&server, OTHER, method, path, body);
        assert_eq!(answer.status, 403, "{path}: {}", answer.body);
    }
    // Unloading takes a model from everyone.
    let unload = r#"{"model":"tale","keep_alive":0}"#;
    assert_eq!(
        ask(&server, OWN, "POST", "/api/generate", unload).status,
        403
    );
    assert_eq!(
        ask(&server, ADMIN, "POST", "/api/generate", unload).status,
        200
    );
}

#[test]
fn lists_show_a_key_its_own_models() {
    let server = start();
    for model in ["tale", "other"] {
        let body = format!("{{\"model\":\"{model}\"}}");
        assert_eq!(
            ask(&server, ADMIN, "POST", "/api/generate", &body).status,
            200
        );
    }
    for path in ["/api/ps", "/metrics", "/api/tags", "/v1/models"] {
        let shown = |secret| ask(&server, secret, "GET", path, "").body;
        let (own, other, all) = (shown(OWN), shown(OTHER), shown(ADMIN));
        let has = |text: &str, model: &str| text.contains(&format!("\"{model}"));
        assert!(has(&own, "tale") && !has(&own, "other"), "{path}: {own}");
        assert!(
            has(&other, "other") && !has(&other, "tale"),
            "{path}: {other}"
        );
        assert!(has(&all, "tale") && has(&all, "other"), "{path}: {all}");
    }
    let slots = |secret| {
        ask(&server, secret, "GET", "/slots", "")
            .body
            .matches("\"id\"")
            .count()
    };
    assert_eq!((slots(OWN), slots(ADMIN)), (8, 16));
}

#[test]
fn the_only_key_there_is_may_do_everything() {
    let server = TestServer::with(Access::new(vec![key(OWN, &[], false)]), &["tale"], u64::MAX);
    let scaled = ask(
        &server,
        OWN,
        "POST",
        "/lora-adapters",
        "[{\"id\":0,\"scale\":0.0}]",
    );
    assert_eq!(scaled.status, 200, "{}", scaled.body);
}
