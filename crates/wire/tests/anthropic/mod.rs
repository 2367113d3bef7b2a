//! Anthropic's dialect, from the bytes of a request to the bytes of its answer.

mod requests;

use crate::pairs::mutants::{Random, mutant, strangers};
use crate::pairs::{Tested, events, script};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};
use strata_wire::anthropic;

static ANTHROPIC: Tested = Tested {
    folder: "anthropic",
    dialect: &anthropic::DIALECT,
};

const RICH: &str = include_str!("rich.json");

/// Objects whose fields are the client's own, or that only inform.
const FREE: &[&str] = &[
    "input_schema",
    "schema",
    "input",
    "cache_control",
    "metadata",
    "edits",
];

#[test]
fn recorded_pairs_hold() {
    ANTHROPIC.check_pairs();
}

#[test]
fn every_unknown_field_is_named() {
    let body = Json::parse(RICH.as_bytes()).unwrap();
    let all = strangers(&body, FREE);
    assert!(all.len() > 15);
    for (place, changed) in all {
        let body = changed.text();
        let opened = ANTHROPIC
            .open("POST", "/v1/messages", body.as_bytes())
            .unwrap();
        let fault = opened.err().unwrap_or_else(|| panic!("{place} was taken"));
        assert_eq!(fault.field.as_deref(), Some(&*place), "{}", fault.message);
    }
}

#[test]
fn mutants_are_answered_or_refused() {
    let body = Json::parse(RICH.as_bytes()).unwrap();
    let mut random = Random::new(0xa11ce);
    let mut refused = 0;
    for _ in 0..2000 {
        let body = mutant(&body, &mut random);
        let got = ANTHROPIC.run("POST", "/v1/messages", &body, &script("tools"));
        assert!(matches!(got.status, 200 | 400), "{}", got.status);
        if got.status == 400 {
            refused += 1;
            let error = Json::parse(&got.body).unwrap();
            assert_eq!(error.get("type").and_then(Json::as_str), Some("error"));
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn streams_add_up_to_the_whole() {
    for name in ["plain", "thinking", "tools", "length", "stop_text"] {
        let run = |stream: bool| {
            let body = format!(
                r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"x"}}],"stream":{stream}}}"#
            );
            ANTHROPIC
                .run("POST", "/v1/messages", body.as_bytes(), &script(name))
                .body
        };
        let whole = Json::parse(&run(false)).unwrap();
        assert_eq!(joined(&run(true)), whole, "{name}");
    }
}

/// What a client makes of a stream.
fn joined(body: &[u8]) -> Json {
    let mut message = Json::Null;
    let mut blocks: Vec<Vec<(String, Json)>> = Vec::new();
    let mut arguments = String::new();
    for event in events(body) {
        let data = event.get("data").unwrap();
        assert_eq!(event.get("event"), data.get("type"));
        match data.get("type").and_then(Json::as_str).unwrap() {
            "message_start" => message = data.get("message").unwrap().clone(),
            "content_block_start" => {
                assert_eq!(data.get("index"), Some(&blocks.len().into()));
                blocks.push(
                    data.get("content_block")
                        .unwrap()
                        .as_object()
                        .unwrap()
                        .into(),
                );
                arguments.clear();
            }
            "content_block_delta" => {
                let pairs = data.get("delta").unwrap().as_object().unwrap();
                let (key, more) = &pairs[1];
                let more = more.as_str().unwrap();
                if key == "partial_json" {
                    arguments.push_str(more);
                    continue;
                }
                let slot = blocks
                    .last_mut()
                    .unwrap()
                    .iter_mut()
                    .find(|(name, _)| name == key);
                let slot = &mut slot.unwrap().1;
                *slot = format!("{}{more}", slot.as_str().unwrap()).into();
            }
            "content_block_stop" if !arguments.is_empty() => {
                blocks.last_mut().unwrap()[3].1 = Json::parse(arguments.as_bytes()).unwrap();
            }
            "message_delta" => {
                let Json::Object(pairs) = &mut message else {
                    panic!("a message before its end");
                };
                for (key, value) in pairs {
                    let new = data.get("delta").unwrap().get(key).or(data.get(key));
                    match key.as_str() {
                        "type" => {}
                        "content" => {
                            *value = Json::array(blocks.iter().cloned().map(Json::Object));
                        }
                        _ => *value = new.unwrap_or(value).clone(),
                    }
                }
            }
            _ => {}
        }
    }
    message
}

#[test]
fn each_kind_of_fault_has_its_status_and_type() {
    let retry_after = std::time::Duration::from_secs(3);
    for (kind, status, word) in [
        (FaultKind::BadRequest, 400, "invalid_request_error"),
        (FaultKind::Unauthenticated, 401, "authentication_error"),
        (FaultKind::Forbidden, 403, "permission_error"),
        (FaultKind::NotFound, 404, "not_found_error"),
        (FaultKind::TooLarge, 413, "request_too_large"),
        (
            FaultKind::RateLimited { retry_after },
            429,
            "rate_limit_error",
        ),
        (
            FaultKind::Overloaded { retry_after },
            529,
            "overloaded_error",
        ),
        (FaultKind::Internal, 500, "api_error"),
    ] {
        let reply = ANTHROPIC.fault(&Fault::new(kind, "what was wrong"));
        assert_eq!(reply.status, status);
        let body = Json::parse(&reply.body).unwrap();
        let error = body.get("error").unwrap();
        assert_eq!(error.get("type").and_then(Json::as_str), Some(word));
        assert_eq!(
            body.get("request_id").and_then(Json::as_str),
            Some("req_0123abcd")
        );
    }
}
