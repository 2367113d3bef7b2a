//! What Ollama's clients ask for beyond answers: copies of any model, templates of their own, more than fits.

use crate::program::server::{Server, TestFolder};
use crate::program::tale;
use serde_json::{Value, json};

#[test]
fn models_that_are_not_in_the_store_can_be_copied_and_built_on() {
    let folder = TestFolder::new("copied");
    let file = folder.path().join("served.gguf");
    std::fs::copy(tale(), &file).unwrap();
    let server = Server::start(&folder.store(), &[file.to_str().unwrap()]);
    let said = |model: &str| {
        let body = json!({"model": model, "prompt": "Once", "raw": true, "stream": false,
            "options": {"temperature": 0, "num_predict": 8}});
        server.post("/api/generate", &body)["response"].clone()
    };
    let expected = said("served");
    for (source, copy) in [("served", "one"), ("tale", "two"), ("one", "three")] {
        let body = json!({"source": source, "destination": copy}).to_string();
        let (status, reply) = server.ask("POST", "/api/copy", body.as_bytes());
        assert_eq!(status, 200, "{source}: {}", String::from_utf8_lossy(&reply));
        assert_eq!(said(copy), expected, "{source}");
    }
    for from in ["served", "tale", "tale:latest", "three"] {
        let body = json!({"model": "built", "from": from, "system": "Be kind.", "stream": false});
        assert_eq!(server.post("/api/create", &body)["status"], "success");
        assert_eq!(said("built"), expected, "{from}");
        let show = server.post("/api/show", &json!({"model": "built"}));
        assert_eq!(show["system"], "Be kind.", "{from}");
    }
    let body = json!({"source": "nobody", "destination": "x"}).to_string();
    assert_eq!(server.ask("POST", "/api/copy", body.as_bytes()).0, 404);
}

#[test]
fn a_request_may_bring_a_template_and_more_than_fits() {
    let folder = TestFolder::new("brought");
    let server = Server::start(&folder.store(), &[]);
    let ask = |more: Value| {
        let mut body = json!({"model": "tale", "prompt": "Once upon a time", "stream": false});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let options = json!({"temperature": 0, "num_predict": 8});
    let plain = server.post(
        "/api/generate",
        &ask(json!({"raw": true, "options": options})),
    );
    let own = json!({"template": "{{ .Prompt }}", "options": options});
    assert_eq!(
        server.post("/api/generate", &ask(own))["response"],
        plain["response"]
    );
    let broken = ask(json!({"template": "{{ .Prompt"}));
    assert!(
        server
            .refused("/api/generate", &broken)
            .contains("template")
    );

    // More than the 512 tokens of the context, in one message and in many.
    let long = "The fox went up the hill and came back. ".repeat(120);
    let chat = |messages: Value, truncate: Option<bool>| {
        json!({"model": "tale", "messages": messages, "stream": false, "truncate": truncate,
            "options": {"num_predict": 8, "num_keep": 5}})
    };
    let one = json!([{"role": "user", "content": long}]);
    let many: Vec<Value> = (0..40)
        .flat_map(|i| {
            let question = format!("Tell me story number {i} about the fox.");
            [
                json!({"role": "user", "content": question}),
                json!({"role": "assistant", "content": "The fox slept."}),
            ]
        })
        .chain([json!({"role": "user", "content": "One more."})])
        .collect();
    for messages in [one.clone(), many.into()] {
        let answer = server.post("/api/chat", &chat(messages, None));
        let tokens = answer["prompt_eval_count"].as_u64().unwrap();
        assert!((200..512).contains(&tokens), "{answer}");
    }
    let refused = server.refused("/api/chat", &chat(one, Some(false)));
    assert!(refused.contains("512"), "{refused}");
    // A context that the model has not been trained for is as large as it can be.
    let large = ask(json!({"options": {"num_ctx": 1 << 20, "num_predict": 4}}));
    assert_eq!(server.post("/api/generate", &large)["done"], true);
    let (_, loaded) = server.ask("GET", "/api/ps", b"");
    let loaded: Value = serde_json::from_slice(&loaded).unwrap();
    assert!(
        loaded["models"][0]["context_length"].as_u64() > Some(512),
        "{loaded}"
    );
}
