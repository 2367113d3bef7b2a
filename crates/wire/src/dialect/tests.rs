use super::*;
use crate::openapi;
use strata_chat::json::Json;

fn ask(method: &str, target: &str) -> Result<Call, Reply> {
    ask_as(method, target, false)
}

fn ask_as(method: &str, target: &str, anthropic: bool) -> Result<Call, Reply> {
    let stamp = Stamp {
        id: "x".into(),
        unix_seconds: 0,
        nanoseconds: 0,
    };
    let request = HttpRequest {
        method,
        target,
        body: b"{}",
        anthropic,
    };
    open(&request, &stamp, &mut ())
}

/// A request of any listed route is understood or its body refused; none is unknown.
#[test]
fn every_listed_route_is_answered() {
    for (_, route) in routes() {
        let target = route.path.replace("{id}", "0");
        match ask(route.method, &target) {
            Ok(_) => {}
            Err(reply) => assert!(
                ![404, 405].contains(&reply.status),
                "{} {}: {}",
                route.method,
                route.path,
                String::from_utf8_lossy(&reply.body)
            ),
        }
    }
}

#[test]
fn no_route_is_there_twice() {
    let all: Vec<_> = routes().map(|(_, r)| (r.method, r.path)).collect();
    for (i, route) in all.iter().enumerate() {
        assert!(!all[..i].contains(route), "{route:?}");
    }
}

#[test]
fn what_is_not_there_is_said_in_the_nearest_dialect() {
    let unknown = ask("GET", "/v1/nothing").err().unwrap();
    assert_eq!(unknown.status, 404);
    assert!(Json::parse(&unknown.body).unwrap().get("error").is_some());
    let error = |target: &str| {
        let reply = ask("GET", target).err().unwrap();
        assert_eq!(reply.status, 404, "{target}");
        Json::parse(&reply.body).unwrap().get("error").cloned()
    };
    assert!(error("/api/nothing").unwrap().as_str().is_some());
    let code = error("/nothing").and_then(|error| error.get("code").cloned());
    assert_eq!(code, Some(Json::Int(404)));
    let wrong = ask("PATCH", "/v1/messages").err().unwrap();
    assert_eq!(wrong.status, 405);
    assert!(wrong.headers.contains(&("allow", "POST".into())));
    let wrong = ask("PATCH", "/lora-adapters").err().unwrap();
    assert!(wrong.headers.contains(&("allow", "GET, POST".into())));
    let wrong = ask("PATCH", "/props").err().unwrap();
    assert!(wrong.headers.contains(&("allow", "GET".into())));
    for path in ["/api/version", "/", "/v1/models", "/slots"] {
        assert!(ask("HEAD", path).is_ok(), "{path}");
    }
    assert_eq!(ask("HEAD", "/api/chat").err().unwrap().status, 405);
}

#[test]
fn names_of_models_may_have_slashes_and_other_names_not() {
    match ask("GET", "/v1/models/hf.co/me/x:q8_0") {
        Ok(Call::Model(Some(name), _)) => assert_eq!(name, "hf.co/me/x:q8_0"),
        _ => panic!("it is a model's name"),
    }
    for path in ["/slots/1/2", "/v1/responses/a/b", "/v1/models/", "/slots/"] {
        assert_eq!(ask("GET", path).err().unwrap().status, 404, "{path}");
    }
}

#[test]
fn only_what_tells_that_the_server_lives_needs_no_key() {
    for (_, route) in routes() {
        let lives = ["/health", "/v1/health", "/ready"].contains(&route.path);
        assert_eq!(
            needs_no_key(route.method, route.path),
            lives,
            "{}",
            route.path
        );
        // Browsers bring no key when they ask whether a page may call.
        assert!(needs_no_key("OPTIONS", route.path), "{}", route.path);
    }
}

#[test]
fn the_document_lists_what_there_is() {
    let document = openapi::document();
    let paths = document.get("paths").unwrap();
    for (_, route) in routes() {
        let method = route.method.to_ascii_lowercase();
        let listed = paths.get(route.path).and_then(|path| path.get(&method));
        let said = listed.and_then(|operation| operation.get("summary")?.as_str());
        assert_eq!(said.is_some(), route.listed, "{method} {}", route.path);
    }
}

#[test]
fn anthropics_clients_hear_of_unknown_paths_in_their_own_words() {
    for (target, anthropic) in [
        ("/v1/messages/batches", false),
        ("/v1/messages/nothing", false),
        ("/v1/files", true),
        ("/v1/organizations/me", true),
    ] {
        let reply = ask_as("GET", target, anthropic).err().unwrap();
        assert_eq!(reply.status, 404, "{target}");
        let document = Json::parse(&reply.body).unwrap();
        assert_eq!(document.get("type"), Some(&"error".into()), "{target}");
    }
    let of = |target, anthropic| Dialect::of(target, anthropic).name;
    assert_eq!(of("/v1/models/nothing", true), "Anthropic");
    assert_eq!(of("/v1/models/nothing", false), "OpenAI");
    assert_eq!(of("/v1/chat/completions", true), "OpenAI");
}
