//! Images that requests name by their addresses, in every dialect that does. The internet is a list of files.

use crate::support::{Answer, TestServer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strata_server::{Access, Budgets, FetchImages, Key, Settings};

/// Has `https://host/NAME`, whose bytes are the name; and counts who asks at the same time.
#[derive(Debug, Default)]
struct Internet {
    asked: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl FetchImages for Internet {
    fn fetch(&self, url: &str, longest: u64, by: Instant) -> Result<Vec<u8>, String> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(by > Instant::now() && by < Instant::now() + Duration::from_secs(60));
        let name = url.strip_prefix("https://host/").ok_or("host is away")?;
        if name == "slow" {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(50));
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
        if name.len() as u64 > longest {
            return Err(format!("host sent more than {longest} bytes"));
        }
        Ok(name.into())
    }
}

fn server(access: Access, allowed: bool) -> (TestServer, Arc<Internet>) {
    let internet = Arc::new(Internet::default());
    let settings = Settings {
        access,
        budgets: Budgets {
            image_fetches: 3,
            client_image_fetches: 2,
            image_urls: 4,
            body_bytes: 1 << 20,
            ..Budgets::SERVER
        },
        image_urls: allowed.then(|| Arc::clone(&internet) as Arc<dyn FetchImages>),
        ..Settings::default()
    };
    let server = TestServer::with_settings(settings, &["tale", "sees"], u64::MAX);
    (server, internet)
}

/// Routes, what comes before and after an address in a body, and the field that names it.
const DIALECTS: [(&str, &str, &str, &str); 7] = [
    (
        "/v1/chat/completions",
        r#"{"model":"sees","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":""#,
        r#""}}]}]}"#,
        "messages[0].content[0].image_url.url",
    ),
    (
        "/v1/chat/completions",
        r#"{"model":"sees","max_tokens":1,"messages":[{"role":"tool","tool_call_id":"1","content":[{"type":"image_url","image_url":""#,
        r#""}]}]}"#,
        "messages[0].content[0].image_url",
    ),
    (
        "/v1/responses",
        r#"{"model":"sees","max_output_tokens":16,"input":[{"role":"user","content":[{"type":"input_image","image_url":""#,
        r#""}]}]}"#,
        "input[0].content[0].image_url",
    ),
    (
        "/v1/messages",
        r#"{"model":"sees","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":""#,
        r#""}}]}]}"#,
        "messages[0].content[0].source.url",
    ),
    (
        "/v1/messages",
        r#"{"model":"sees","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"url","url":""#,
        r#""}}]}]}]}"#,
        "messages[0].content[0].content[0].source.url",
    ),
    (
        "/v1/messages/count_tokens",
        r#"{"model":"sees","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":""#,
        r#""}}]}]}"#,
        "messages[0].content[0].source.url",
    ),
    (
        "/apply-template",
        r#"{"model":"sees","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":""#,
        r#""}}]}]}"#,
        "messages[0].content[0].image_url.url",
    ),
];

fn ask(server: &TestServer, dialect: usize, url: &str) -> Answer {
    let (path, before, after, _) = DIALECTS[dialect];
    server.post(path, &format!("{before}{url}{after}"))
}

#[test]
fn every_dialect_has_images_fetched_where_that_is_allowed() {
    let (server, internet) = server(Access::default(), true);
    for (dialect, (path, _, _, field)) in DIALECTS.iter().enumerate() {
        let answer = ask(&server, dialect, "https://host/cat");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert_eq!(server.models.seen.take(), [b"cat"], "{path}");
        for (url, says) in [
            ("https://nobody/cat", "cannot be fetched: host is away"),
            ("https://host/", "has no bytes"),
        ] {
            let answer = ask(&server, dialect, url);
            assert_eq!(answer.status, 400, "{path}: {}", answer.body);
            let says = format!("{field}: {says}");
            assert!(answer.body.contains(&says), "{path}: {}", answer.body);
        }
        // What is not https is nobody's to ask for.
        let before = internet.asked.load(Ordering::SeqCst);
        for url in [
            "http://host/cat",
            "file:///etc/passwd",
            "ftp://host/cat",
            "cat",
        ] {
            let answer = ask(&server, dialect, url);
            assert_eq!(answer.status, 400, "{path}: {}", answer.body);
            let says = format!("{field}: must be a data: or an https: URL");
            assert!(answer.body.contains(&says), "{path}: {}", answer.body);
        }
        let long = format!("https://host/{}", "x".repeat(9000));
        assert_eq!(ask(&server, dialect, &long).status, 400, "{path}");
        assert_eq!(internet.asked.load(Ordering::SeqCst), before, "{path}");
        assert_eq!(server.models.seen.take().len(), 0, "{path}");
    }
}

#[test]
fn without_leave_nothing_is_fetched_and_the_flag_is_named() {
    let (server, _) = server(Access::default(), false);
    for (dialect, (path, _, _, field)) in DIALECTS.iter().enumerate() {
        let answer = ask(&server, dialect, "https://host/cat");
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        for says in [field, "--allow-image-urls"] {
            assert!(answer.body.contains(says), "{path}: {}", answer.body);
        }
    }
    assert_eq!(server.models.seen.take().len(), 0);
}

#[test]
fn a_model_that_does_not_see_has_nothing_fetched() {
    let (server, internet) = server(Access::default(), true);
    for (path, before, after, _) in DIALECTS {
        let body = format!("{before}https://host/cat{after}").replace("sees", "tale");
        let answer = server.post(path, &body);
        assert!(answer.status >= 400, "{path}: {}", answer.body);
        let says = "the model cannot see pictures";
        assert!(answer.body.contains(says), "{path}: {}", answer.body);
    }
    assert_eq!(internet.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn a_request_has_so_many_images_and_bytes_and_a_client_so_many_requests() {
    let keys = ["first-secret", "other-secret"].map(|secret| Key {
        name: secret.into(),
        secret: secret.into(),
        per_minute: None,
        models: Vec::new(),
        administers: false,
    });
    let (server, internet) = server(Access::new(keys.to_vec()), true);
    let ask = |secret: &str, names: &[&str]| {
        let image = |name: &&str| {
            format!(r#"{{"type":"image_url","image_url":{{"url":"https://host/{name}"}}}}"#)
        };
        let images: Vec<String> = names.iter().map(image).collect();
        let body = format!(
            r#"{{"model":"sees","max_tokens":1,"messages":[{{"role":"user","content":[{}]}}]}}"#,
            images.join(",")
        );
        let headers = format!("authorization: Bearer {secret}\r\n");
        server.ask("POST", "/v1/chat/completions", &headers, &body)
    };
    let answer = ask("first-secret", &["a", "b", "c", "d"]);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(server.models.seen.take(), [b"a", b"b", b"c", b"d"]);
    let before = internet.asked.load(Ordering::SeqCst);
    let answer = ask("first-secret", &["a", "b", "c", "d", "e"]);
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("5 images"), "{}", answer.body);
    assert_eq!(internet.asked.load(Ordering::SeqCst), before);

    let at_once = |secrets: &[&str]| {
        internet.most.store(0, Ordering::SeqCst);
        std::thread::scope(|scope| {
            for secret in secrets.repeat(4) {
                scope.spawn(move || assert_eq!(ask(secret, &["slow", "slow"]).status, 200));
            }
        });
        internet.most.load(Ordering::SeqCst)
    };
    assert_eq!(at_once(&["first-secret"]), 2);
    let both = at_once(&["first-secret", "other-secret"]);
    assert!((2..=3).contains(&both), "{both}");
}
