//! What clients of OpenAI, llama-server and vLLM use beyond the plain chat.

use crate::support::{Answer, TestServer};
use std::time::{Duration, Instant};
use strata_chat::json::Json;
use strata_server::Settings;

/// A value inside a document, by keys and numbers.
fn at<'j>(json: &'j Json, path: &str) -> &'j Json {
    path.split('.').fold(json, |json, key| {
        let found = match json.as_array() {
            Some(items) => key.parse().ok().and_then(|index: usize| items.get(index)),
            None => json.get(key),
        };
        found.unwrap_or(&Json::Null)
    })
}

fn text<'j>(json: &'j Json, path: &str) -> &'j str {
    let found = at(json, path).as_str();
    found.unwrap_or_else(|| panic!("{path}: {json}"))
}

fn list<'j>(json: &'j Json, path: &str) -> &'j [Json] {
    let found = at(json, path).as_array();
    found.unwrap_or_else(|| panic!("{path}: {json}"))
}

fn ok(answer: &Answer) -> Json {
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// A server of one model, which answers to any name.
fn lenient() -> TestServer {
    let settings = Settings {
        any_model: true,
        ..Settings::default()
    };
    TestServer::with_settings(settings, &["tale"], u64::MAX)
}

const SENTENCE: &str = "Once upon a time there was a grün 狐 fox.";

#[test]
fn an_echoed_prompt_lines_up_with_its_tokens() {
    let server = TestServer::start();
    let body = Json::object([("prompt", SENTENCE.into())]);
    let tokens = ok(&server.post("/tokenize", &body.text()));
    let ids = at(&tokens, "tokens").clone();
    let mut scores = Vec::new();
    for prompt in [SENTENCE.into(), ids.clone()] {
        let body = Json::object([
            ("prompt", prompt),
            ("max_tokens", 1_i64.into()),
            ("temperature", 0_i64.into()),
            ("echo", true.into()),
            ("logprobs", 1_i64.into()),
        ]);
        let answer = ok(&server.post("/v1/completions", &body.text()));
        let whole = text(&answer, "choices.0.text").to_owned();
        assert!(whole.starts_with(SENTENCE), "{whole}");
        let tokens = list(&answer, "choices.0.logprobs.tokens");
        let offsets = list(&answer, "choices.0.logprobs.text_offset");
        let own = list(&answer, "choices.0.logprobs.token_logprobs");
        let top = list(&answer, "choices.0.logprobs.top_logprobs");
        assert_eq!(
            [offsets.len(), own.len(), top.len()],
            [tokens.len(); 3],
            "{answer}"
        );
        assert!(own[0].is_null() && top[0].is_null());
        let chars: Vec<char> = whole.chars().collect();
        for (token, offset) in tokens.iter().zip(offsets) {
            let (token, Json::Int(offset)) = (token.as_str().unwrap(), offset) else {
                panic!("{offset}");
            };
            if !token.starts_with("bytes:") {
                let here: String = chars[*offset as usize..].iter().collect();
                assert!(here.starts_with(token), "{token:?} at {offset}");
            }
        }
        scores.push(own[1..].to_vec());
    }
    assert_eq!(scores[0], scores[1]);
    // vLLM's form has the same numbers.
    let body = Json::object([
        ("prompt", ids.clone()),
        ("max_tokens", 1_i64.into()),
        ("prompt_logprobs", 0_i64.into()),
    ]);
    let answer = ok(&server.post("/v1/completions", &body.text()));
    let scored = list(&answer, "choices.0.prompt_logprobs");
    let ids = ids.as_array().unwrap();
    assert_eq!(scored.len(), ids.len());
    assert!(scored[0].is_null());
    for (i, id) in ids.iter().enumerate().skip(1) {
        let own = at(&scored[i], &format!("{id}.logprob"));
        assert_eq!(own, &scores[1][i - 1], "{i}");
    }
}

#[test]
fn any_name_means_the_one_model_but_not_to_ollama() {
    let server = lenient();
    let ask = |path: &str, fields: &str| {
        let said = r#""messages":[{"role":"user","content":"Hi"}],"max_tokens":2"#;
        server.post(path, &format!("{{{said}{fields}}}"))
    };
    let named = ok(&ask("/v1/chat/completions", r#","model":"gpt-4o""#));
    assert_eq!(text(&named, "model"), "gpt-4o");
    for path in ["/v1/chat/completions", "/chat/completions"] {
        assert_eq!(text(&ok(&ask(path, "")), "model"), "tale");
    }
    let ollama = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}]}"#;
    assert_eq!(server.post("/api/chat", ollama).status, 404);
    assert_eq!(server.get("/v1/models/gpt-4o").status, 404);
    let models = ok(&server.get("/models"));
    assert_eq!(text(&models, "data.0.id"), "tale");
}

#[test]
fn a_prompt_that_is_too_long_is_refused_in_words_that_clients_know() {
    let server = TestServer::start();
    let body = Json::object([(
        "messages",
        Json::array([Json::object([
            ("role", "user".into()),
            ("content", "fox ".repeat(2000).into()),
        ])]),
    )]);
    let answer = server.post("/v1/chat/completions", &body.text());
    assert_eq!(answer.status, 400);
    let error = answer.json();
    assert_eq!(text(&error, "error.code"), "context_length_exceeded");
    let message = text(&error, "error.message");
    assert!(message.starts_with("This model's maximum context length is 512 tokens. However, "));
    let error = server.post("/chat/completions", &body.text()).json();
    assert_eq!(text(&error, "error.type"), "exceed_context_size_error");
    assert_eq!(at(&error, "error.n_ctx"), &Json::Int(512));
    assert!(text(&error, "error.message").contains("exceeds the available context size"));
}

const TOOL: &str = r#""messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":
    {"name":"look_up","parameters":{"type":"object","properties":{"word":{"enum":["dog"]}},"required":["word"],"additionalProperties":false}}}]"#;

#[test]
fn a_forced_call_goes_before_a_schema_and_leaves_no_text_when_it_is_cut() {
    let server = TestServer::start();
    let ask = |more: &str| ok(&server.post("/v1/chat/completions", &format!("{{{TOOL},{more}}}")));
    let choice = r#""tool_choice":{"type":"function","function":{"name":"look_up"}}"#;
    let schema = r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"integer"}}}"#;
    let called = ask(&format!("{choice},{schema},\"max_tokens\":100"));
    let arguments = text(&called, "choices.0.message.tool_calls.0.function.arguments");
    let arguments = Json::parse(arguments.as_bytes()).unwrap();
    assert_eq!(arguments, Json::object([("word", "dog".into())]));
    assert!(at(&called, "choices.0.message.content").is_null());
    for tokens in 1..8 {
        let cut = ask(&format!("{choice},\"max_tokens\":{tokens}"));
        let content = at(&cut, "choices.0.message.content");
        assert!(content.is_null() || content == &"".into(), "{cut}");
        assert_eq!(text(&cut, "choices.0.finish_reason"), "length");
    }
}

#[test]
fn a_response_runs_in_the_background_until_it_is_complete_or_canceled() {
    let server = TestServer::start();
    let begin = |tokens: usize| {
        let body = format!(
            r#"{{"input":"Tell me a story.","background":true,"temperature":0,"max_output_tokens":{tokens}}}"#
        );
        let begun = ok(&server.post("/v1/responses", &body));
        assert_eq!(text(&begun, "status"), "queued");
        format!("/v1/responses/{}", text(&begun, "id"))
    };
    let path = begin(8);
    let start = Instant::now();
    let done = loop {
        let now = ok(&server.get(&path));
        match text(&now, "status") {
            "queued" | "in_progress" => {}
            _ => break now,
        }
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(text(&done, "status"), "incomplete");
    assert!(!text(&done, "output.0.content.0.text").is_empty());
    let long = begin(400);
    let canceled = ok(&server.post(&format!("{long}/cancel"), ""));
    assert_eq!(text(&canceled, "status"), "cancelled");
    assert_eq!(text(&ok(&server.get(&long)), "status"), "cancelled");
    let again = ok(&server.post(&format!("{path}/cancel"), ""));
    assert_eq!(text(&again, "status"), "incomplete");
}

#[test]
fn conversations_and_chats_are_kept() {
    let server = TestServer::start();
    let made = ok(&server.post("/v1/conversations", r#"{"metadata":{"topic":"foxes"}}"#));
    let id = text(&made, "id").to_owned();
    for turn in 1..=2 {
        let body = format!(
            r#"{{"input":"Hello.","conversation":"{id}","temperature":0,"max_output_tokens":4}}"#
        );
        let answer = ok(&server.post("/v1/responses", &body));
        assert_eq!(text(&answer, "conversation.id"), id);
        let items = ok(&server.get(&format!("/v1/conversations/{id}/items?order=asc")));
        assert_eq!(list(&items, "data").len(), 2 * turn, "{items}");
        let item = text(&items, "data.0.id");
        let one = ok(&server.get(&format!("/v1/conversations/{id}/items/{item}")));
        assert_eq!(text(&one, "content.0.text"), "Hello.");
    }
    let unknown = r#"{"input":"x","conversation":"conv_none"}"#;
    assert_eq!(server.post("/v1/responses", unknown).status, 404);

    let chat = r#"{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"store":true,"metadata":{"topic":"owls"}}"#;
    let kept = ok(&server.post("/v1/chat/completions", chat));
    let id = text(&kept, "id");
    let query = "/v1/chat/completions?metadata%5Btopic%5D=owls&limit=5";
    assert_eq!(text(&ok(&server.get(query)), "data.0.id"), id);
    let messages = ok(&server.get(&format!("/v1/chat/completions/{id}/messages")));
    assert_eq!(text(&messages, "data.0.content"), "Hi");
    let path = format!("/v1/chat/completions/{id}");
    assert_eq!(server.ask("DELETE", &path, "", "").status, 200);
    assert_eq!(server.get(&path).status, 404);
}

#[test]
fn answers_are_as_long_as_asked_and_end_where_asked() {
    let server = TestServer::start();
    let ask = |more: &str| {
        let body = format!(r#"{{"prompt":"Once upon a time","temperature":0,{more}}}"#);
        ok(&server.post("/v1/completions", &body))
    };
    let plain = ask(r#""max_tokens":12,"return_token_ids":true"#);
    let tokens = list(&plain, "choices.0.token_ids");
    let stop = ask(&format!(
        r#""max_tokens":12,"stop_token_ids":[{}],"return_token_ids":true"#,
        tokens[4]
    ));
    let first = tokens.iter().position(|token| *token == tokens[4]).unwrap();
    assert_eq!(list(&stop, "choices.0.token_ids"), &tokens[..first]);
    assert_eq!(text(&stop, "choices.0.finish_reason"), "stop");
    let least = ask(&format!(
        r#""max_tokens":12,"min_tokens":9,"stop_token_ids":[{}],"return_token_ids":true"#,
        tokens[4]
    ));
    assert!(list(&least, "choices.0.token_ids").len() >= 9, "{least}");
    let body = r#"{"prompt":"Once upon a time","temperature":0,"n_predict":3,"n_probs":5,"post_sampling_probs":true}"#;
    let drawn = ok(&server.post("/completion", body));
    for token in list(&drawn, "completion_probabilities") {
        assert_eq!(at(token, "prob"), &Json::Float(1.0), "{token}");
        // Nothing is left for the others.
        assert_eq!(list(token, "top_probs").len(), 1);
    }
}

#[test]
fn progress_is_told_while_a_prompt_is_computed() {
    let server = TestServer::start();
    let prompt = "The quick fox and the lazy dog. ".repeat(12);
    let body = format!(
        r#"{{"prompt":"{prompt}","n_predict":2,"stream":true,"return_progress":true,"timings_per_token":true,"cache_prompt":false}}"#
    );
    let answer = server.post("/completion", &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let lines = answer.body.lines().filter_map(|l| l.strip_prefix("data: "));
    let events: Vec<Json> = lines
        .map(|line| Json::parse(line.as_bytes()).unwrap())
        .collect();
    let number = |json: &Json, path: &str| match at(json, path) {
        Json::Int(number) => *number,
        other => panic!("{path}: {other}"),
    };
    let told = events.iter().filter_map(|e| e.get("prompt_progress"));
    let told: Vec<(i64, i64)> = told
        .map(|progress| (number(progress, "processed"), number(progress, "total")))
        .collect();
    assert!(told.len() > 2, "{told:?}");
    assert_eq!(told[0].0, 0);
    assert!(told.is_sorted_by(|a, b| a.0 < b.0 && a.1 == b.1));
    assert!(told.last().is_some_and(|(done, all)| done == all));
    let timed = events.iter().filter(|e| at(e, "stop") == &false.into());
    let timed = timed.filter(|e| e.get("timings").is_some()).count();
    assert_eq!(timed, told.len() + 2);
}
