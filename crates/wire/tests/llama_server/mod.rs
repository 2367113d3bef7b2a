//! llama-server's own dialect, from the bytes of a request to the bytes of its answer.

mod requests;

use crate::pairs::mutants::{Random, mutant, strangers};
use crate::pairs::{Tested, events, script};
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};
use strata_wire::llama_server;

static LLAMA: Tested = Tested {
    folder: "llama_server",
    dialect: &llama_server::DIALECT,
};

/// Bodies that use as much as they can of each route.
const RICH: &[(&str, &str)] = &[
    ("/completion", include_str!("rich.json")),
    (
        "/infill",
        r#"{"input_prefix":"a","input_suffix":"b","prompt":"c","input_extra":[{"filename":"f","text":"t"}],"n_predict":3,"samplers":"kpt"}"#,
    ),
    (
        "/tokenize",
        r#"{"model":"m","content":"a","add_special":true,"parse_special":false,"with_pieces":true}"#,
    ),
    ("/detokenize", r#"{"model":"m","tokens":[1,2]}"#),
    (
        "/apply-template",
        r#"{"messages":[{"role":"user","content":"u"}],"model":"m"}"#,
    ),
    (
        "/embedding",
        r#"{"model":"m","content":["a",[1,"b"]],"embd_normalize":2,"encoding_format":"float"}"#,
    ),
    ("/rerank", r#"{"query":"q","documents":["a"],"top_n":1}"#),
    ("/slots/3?action=save", r#"{"filename":"a.bin"}"#),
    ("/lora-adapters", r#"[{"id":0,"scale":1.5}]"#),
];

#[test]
fn recorded_pairs_hold() {
    LLAMA.check_pairs();
}

#[test]
fn rich_requests_are_taken() {
    for (path, body) in RICH {
        let opened = LLAMA.open("POST", path, body.as_bytes()).unwrap();
        assert_eq!(opened.err(), None, "{path}");
    }
}

#[test]
fn every_unknown_field_is_named() {
    let mut checked = 0;
    for (path, body) in RICH {
        let body = Json::parse(body.as_bytes()).unwrap();
        for (place, changed) in strangers(&body, &[]) {
            let text = changed.text();
            let opened = LLAMA.open("POST", path, text.as_bytes()).unwrap();
            let fault = opened
                .err()
                .unwrap_or_else(|| panic!("{path}: {place} was taken"));
            assert_eq!(fault.field.as_deref(), Some(&*place), "{path}");
            checked += 1;
        }
    }
    assert!(checked >= 11, "{checked}");
}

#[test]
fn mutants_are_answered_or_refused() {
    let mut random = Random::new(0x77a3a);
    let mut refused = 0;
    for (path, body) in RICH {
        let body = Json::parse(body.as_bytes()).unwrap();
        for _ in 0..2000 {
            let body = mutant(&body, &mut random);
            let got = LLAMA.run("POST", path, &body, &script("logprobs"));
            assert!(matches!(got.status, 200 | 400), "{}", got.status);
            if got.status == 400 {
                refused += 1;
                let error = Json::parse(&got.body).unwrap();
                let code = error.get("error").and_then(|error| error.get("code"));
                assert_eq!(code, Some(&Json::Int(400)));
            }
        }
    }
    assert!(refused > 5000, "{refused}");
}

/// What a client makes of an answer, streamed or not.
#[derive(Clone, Debug, Default, PartialEq)]
struct Joined {
    text: String,
    tokens: Vec<Json>,
    probabilities: Vec<Json>,
    /// How it ended.
    end: Vec<Json>,
}

/// The answers to each prompt.
fn joined(documents: &[Json], prompts: usize) -> Vec<Joined> {
    let mut all = vec![Joined::default(); prompts];
    for document in documents {
        let Some(Json::Int(index)) = document.get("index") else {
            panic!("an answer has a number");
        };
        let one = &mut all[*index as usize];
        one.text += document.get("content").and_then(Json::as_str).unwrap();
        let list = |key: &str| document.get(key).and_then(Json::as_array).unwrap_or(&[]);
        one.tokens.extend_from_slice(list("tokens"));
        one.probabilities
            .extend_from_slice(list("completion_probabilities"));
        if document.get("stop") == Some(&true.into()) {
            let keys = [
                "stop_type",
                "stopping_word",
                "prompt",
                "tokens_predicted",
                "tokens_evaluated",
                "has_new_line",
                "timings",
            ];
            one.end = keys.map(|key| document.get(key).unwrap().clone()).into();
        }
    }
    all
}

#[test]
fn streams_add_up_to_the_whole() {
    for (prompt, scripts) in [
        (
            r#""x""#,
            &["plain", "length", "logprobs", "tokens", "stop_text"][..],
        ),
        (r#"["x","y"]"#, &["prompts"][..]),
    ] {
        for name in scripts {
            let run = |stream: bool| {
                let body = format!(
                    r#"{{"prompt":{prompt},"n_probs":1,"return_tokens":true,"stream":{stream}}}"#
                );
                LLAMA.run("POST", "/completion", body.as_bytes(), &script(name))
            };
            let (streamed, whole) = (run(true), run(false));
            assert!(streamed.stream && !whole.stream);
            let whole = match Json::parse(&whole.body).unwrap() {
                Json::Array(items) => items,
                one => [one].into(),
            };
            let joined_whole = joined(&whole, whole.len());
            assert!(joined_whole.iter().all(|one| !one.text.is_empty()));
            assert_eq!(
                joined(&events(&streamed.body), whole.len()),
                joined_whole,
                "{name}"
            );
        }
    }
}

#[test]
fn each_kind_of_fault_has_its_status_and_type() {
    let retry_after = std::time::Duration::from_secs(3);
    let full = FaultKind::ContextExceeded {
        prompt_tokens: 9,
        context: 8,
    };
    for (kind, status, word) in [
        (FaultKind::BadRequest, 400, "invalid_request_error"),
        (FaultKind::Unauthenticated, 401, "authentication_error"),
        (FaultKind::Forbidden, 403, "permission_error"),
        (FaultKind::NotFound, 404, "not_found_error"),
        (FaultKind::Internal, 500, "server_error"),
        (FaultKind::Unsupported, 501, "not_supported_error"),
        (
            FaultKind::Unavailable { retry_after },
            503,
            "unavailable_error",
        ),
        (full, 400, "exceed_context_size_error"),
    ] {
        let reply = LLAMA.fault(&Fault::new(kind, "what was wrong"));
        assert_eq!(reply.status, status);
        let body = Json::parse(&reply.body).unwrap();
        let error = body.get("error").unwrap();
        assert_eq!(error.get("type").and_then(Json::as_str), Some(word));
        assert_eq!(error.get("code"), Some(&u32::from(status).into()));
        assert_eq!(
            error.get("n_ctx"),
            (kind == full).then_some(&Json::Int(8)),
            "{word}"
        );
    }
}

#[test]
fn other_paths_are_left_to_others_and_other_methods_refused() {
    for path in [
        "/",
        "/slots/",
        "/slots/0/1",
        "/v1/completions",
        "/completionx",
        "/api/chat",
    ] {
        assert!(LLAMA.open("GET", path, b"").is_none(), "{path}");
    }
    for path in llama_server::DIALECT.routes.iter().map(|route| route.path) {
        let opened = LLAMA.open("PATCH", path, b"{}").unwrap();
        assert_eq!(opened.err().unwrap().kind, FaultKind::Method, "{path}");
    }
}
