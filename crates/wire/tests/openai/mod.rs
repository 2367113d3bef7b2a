//! OpenAI's dialect, from the bytes of a request to the bytes of its answer.

mod audio;
mod requests;
mod responses;

use crate::pairs::mutants::{Random, mutant, strangers};
use crate::pairs::{Tested, events, script};
use strata_chat::json::Json;
use strata_chat::{Event, Fault, FaultKind};
use strata_wire::{RequestBody, openai};

static OPENAI: Tested = Tested {
    folder: "openai",
    dialect: &openai::DIALECT,
};

/// Bodies that use as much as they can of each route.
const RICH: &[(&str, &str)] = &[
    ("/v1/chat/completions", include_str!("rich/chat.json")),
    ("/v1/completions", include_str!("rich/completion.json")),
    (
        "/v1/embeddings",
        r#"{"model":"m","input":["a"],"encoding_format":"float","dimensions":4,"user":"u"}"#,
    ),
    (
        "/v1/rerank",
        r#"{"model":"m","query":"q","documents":["a",{"text":"b"}],"top_n":1}"#,
    ),
    ("/v1/responses", include_str!("rich/response.json")),
];

/// Objects whose fields are the client's own, or that only inform.
const FREE: &[&str] = &[
    "schema",
    "parameters",
    "metadata",
    "logit_bias",
    "prediction",
    "cache_control",
    "arguments",
    "annotations",
];

#[test]
fn recorded_pairs_hold() {
    OPENAI.check_pairs();
}

#[test]
fn rich_requests_are_taken() {
    for (path, body) in RICH {
        let opened = OPENAI.open("POST", path, body.as_bytes()).unwrap();
        assert_eq!(opened.err(), None, "{path}");
    }
}

#[test]
fn every_unknown_field_is_named() {
    let mut checked = 0;
    for (path, body) in RICH {
        let body = Json::parse(body.as_bytes()).unwrap();
        for (place, changed) in strangers(&body, FREE) {
            let text = changed.text();
            let opened = OPENAI.open("POST", path, text.as_bytes()).unwrap();
            let fault = opened
                .err()
                .unwrap_or_else(|| panic!("{path}: {place} was taken"));
            assert_eq!(
                fault.field.as_deref(),
                Some(&*place),
                "{path}: {}",
                fault.message
            );
            let reply = OPENAI.fault(&fault);
            let reply = Json::parse(&reply.body).unwrap();
            let param = reply.get("error").and_then(|error| error.get("param"));
            assert_eq!(param.and_then(Json::as_str), Some(&*place));
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn mutants_are_answered_or_refused() {
    let mut random = Random::new(0x5eed);
    let mut refused = 0;
    for round in 0..2000 {
        let (path, body) = RICH[round % RICH.len()];
        let body = mutant(&Json::parse(body.as_bytes()).unwrap(), &mut random);
        let got = OPENAI.run("POST", path, &body, &script("plain"));
        assert!(matches!(got.status, 200 | 400 | 404), "{}", got.status);
        if got.status != 200 {
            refused += 1;
            let error = Json::parse(&got.body).unwrap();
            assert!(error.get("error").unwrap().get("message").is_some());
        }
    }
    assert!(refused > 500, "{refused}");
}

/// The pieces of a stream put together: text, thinking, arguments of the calls.
fn joined(body: &[u8], choice: i64) -> [String; 3] {
    let mut all: [String; 3] = Default::default();
    let mut add = |slot: usize, value: Option<&Json>| {
        all[slot].push_str(value.and_then(Json::as_str).unwrap_or(""));
    };
    for event in events(body) {
        if let Some(data) = event.get("data") {
            let slot = match event.get("event").and_then(Json::as_str) {
                Some("response.output_text.delta") => 0,
                Some("response.reasoning_text.delta") => 1,
                Some("response.function_call_arguments.delta") => 2,
                _ => continue,
            };
            add(slot, data.get("delta"));
            continue;
        }
        let choices = event.get("choices").and_then(Json::as_array);
        for part in choices.unwrap_or(&[]) {
            if part.get("index") != Some(&Json::Int(choice)) {
                continue;
            }
            add(0, part.get("text"));
            let Some(delta) = part.get("delta") else {
                continue;
            };
            add(0, delta.get("content"));
            add(1, delta.get("reasoning_content"));
            assert_eq!(delta.get("reasoning_content"), delta.get("reasoning"));
            let calls = delta.get("tool_calls").and_then(Json::as_array);
            for call in calls.unwrap_or(&[]) {
                add(2, call.get("function").unwrap().get("arguments"));
            }
        }
    }
    all
}

/// The same of a document.
fn whole(body: &[u8], choice: usize) -> [String; 3] {
    let document = Json::parse(body).unwrap();
    let string = |value: Option<&Json>| value.and_then(Json::as_str).unwrap_or("").to_string();
    let list = |value: Option<&Json>| value.and_then(Json::as_array).unwrap_or(&[]).to_vec();
    if let Some(output) = document.get("output") {
        let mut all: [String; 3] = Default::default();
        for item in output.as_array().unwrap() {
            for part in list(item.get("content")) {
                let slot = usize::from(part.get("type") == Some(&"reasoning_text".into()));
                all[slot] += &string(part.get("text"));
            }
            all[2] += &string(item.get("arguments"));
        }
        return all;
    }
    let choice = &document.get("choices").unwrap().as_array().unwrap()[choice];
    let Some(message) = choice.get("message") else {
        return [string(choice.get("text")), String::new(), String::new()];
    };
    let calls = list(message.get("tool_calls"));
    let arguments = calls
        .iter()
        .map(|call| string(call.get("function").unwrap().get("arguments")));
    [
        string(message.get("content")),
        string(message.get("reasoning_content")),
        arguments.collect(),
    ]
}

#[test]
fn streams_add_up_to_the_whole() {
    for (path, body) in [
        (
            "/v1/chat/completions",
            r#""messages":[{"role":"user","content":"x"}]"#,
        ),
        ("/v1/completions", r#""prompt":"x""#),
        ("/v1/responses", r#""input":"x""#),
    ] {
        for name in [
            "plain", "thinking", "tools", "length", "logprobs", "choices",
        ] {
            let several = path != "/v1/responses";
            if name == "choices" && !several || path == "/v1/completions" && name == "tools" {
                continue;
            }
            let n = if several { r#""n":2,"# } else { "" };
            let run = |more: &str| {
                let body = format!("{{{more}{n}{body}}}");
                OPENAI.run("POST", path, body.as_bytes(), &script(name))
            };
            let (streamed, document) = (run(r#""stream":true,"#), run(""));
            assert!(streamed.stream && !document.stream);
            for choice in 0..if name == "choices" { 2 } else { 1 } {
                let joined = joined(&streamed.body, choice as i64);
                assert_eq!(joined, whole(&document.body, choice), "{path} {name}");
                assert!(!joined.concat().is_empty(), "{path} {name}");
            }
        }
    }
}

#[test]
fn each_kind_of_fault_has_its_status_and_words() {
    let after = std::time::Duration::from_millis(1500);
    for (kind, status, code) in [
        (FaultKind::BadRequest, 400, None),
        (FaultKind::Unauthenticated, 401, Some("invalid_api_key")),
        (FaultKind::NotFound, 404, Some("not_found")),
        (FaultKind::Unsupported, 400, Some("unsupported")),
        (
            FaultKind::RateLimited { retry_after: after },
            429,
            Some("rate_limit_exceeded"),
        ),
        (
            FaultKind::Overloaded { retry_after: after },
            503,
            Some("overloaded"),
        ),
        (FaultKind::Internal, 500, Some("internal_error")),
        (
            FaultKind::ContextExceeded {
                prompt_tokens: 9,
                context: 8,
            },
            400,
            Some("context_length_exceeded"),
        ),
    ] {
        let reply = OPENAI.fault(&Fault::new(kind, "what was wrong"));
        assert_eq!(reply.status, status);
        let body = Json::parse(&reply.body).unwrap();
        let error = body.get("error").unwrap();
        assert_eq!(error.get("code").and_then(Json::as_str), code, "{kind:?}");
        let message = error.get("message").and_then(Json::as_str).unwrap();
        let known = "This model's maximum context length is 8 tokens. However, ";
        let too_long = code == Some("context_length_exceeded");
        assert_eq!(message.starts_with(known), too_long, "{message}");
        let wait = reply
            .headers
            .iter()
            .any(|(name, value)| *name == "retry-after" && value == "2");
        assert_eq!(wait, matches!(status, 429 | 503));
    }
}

#[test]
fn other_paths_are_left_to_others_and_other_methods_refused() {
    for path in [
        "/v1/messages",
        "/api/chat",
        "/v1/",
        "/v1/modelsx",
        "/v1/models/",
        "/v1/responses/",
        "/v1/files",
        "/v1/responses/a/b",
        "/",
    ] {
        let opened = OPENAI.open("GET", path, b"");
        assert!(opened.is_none(), "{path}");
    }
    for route in openai::DIALECT.routes {
        let (method, path) = (route.method, route.path);
        let opened = OPENAI.open("PATCH", path, b"{}").unwrap();
        assert_eq!(opened.err().unwrap().kind, FaultKind::Method, "{path}");
        let opened = OPENAI.open(method, path, b"{").unwrap();
        let kind = opened.err().map(|fault| fault.kind);
        let bodiless = route.body == RequestBody::None || path.ends_with("/cancel");
        assert_eq!(kind, (!bodiless).then_some(FaultKind::BadRequest), "{path}");
    }
}

#[test]
fn a_failure_before_the_first_byte_has_a_status() {
    let body = br#"{"messages":[{"role":"user","content":"x"}],"stream":true}"#;
    let fault = Fault::new(FaultKind::Internal, "the model's file is gone");
    let got = OPENAI.run(
        "POST",
        "/v1/chat/completions",
        body,
        &[Event::Failed(fault)],
    );
    assert_eq!(got.status, 500);
    assert!(!got.stream);
}
