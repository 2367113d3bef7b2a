//! Responses that go on from others.

use super::OPENAI;
use crate::pairs::script;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind, Message, Prompt, Role};
use strata_wire::call::{Call, Kept, Recall};
use strata_wire::openai::ResponseStore;

fn conversation(body: &str, recall: &mut dyn Recall) -> Result<Vec<Message>, Fault> {
    let opened = OPENAI.recall("POST", "/v1/responses", body.as_bytes(), recall);
    match opened.unwrap()? {
        Call::Generate(request, _) => match request.prompts.into_iter().next() {
            Some(Prompt::Chat(messages)) => Ok(messages),
            _ => panic!("a response is a conversation"),
        },
        _ => panic!("a response asks for text"),
    }
}

/// Answers a request and gives what is to be kept.
fn answered(body: &str, recall: &mut dyn Recall, name: &str) -> Option<Kept> {
    let opened = OPENAI.recall("POST", "/v1/responses", body.as_bytes(), recall);
    let Ok(Call::Generate(_, mut answer)) = opened.unwrap() else {
        panic!("a request that is right");
    };
    let mut out = Vec::new();
    assert_eq!(answer.kept(), None);
    for event in script(name) {
        answer.event(&event, &mut out);
    }
    let kept = answer.kept();
    assert_eq!(answer.kept(), None);
    kept
}

#[test]
fn items_of_stored_responses_can_be_named() {
    let mut store = ResponseStore::new(10, 1 << 20);
    let kept = answered(r#"{"input":"Hi"}"#, &mut store.of("ann"), "thinking").unwrap();
    let items = kept.document.get("output").unwrap().clone();
    store.keep("ann", kept);
    let Json::Array(items) = items else {
        panic!("the output is a list");
    };
    let name = |item: &Json| item.get("id").unwrap().as_str().unwrap().to_string();
    let names: Vec<String> = items.iter().map(name).collect();
    let references = names
        .iter()
        .map(|name| format!(r#"{{"type":"item_reference","id":"{name}"}}"#));
    let references = references.collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"input":[{references},{{"role":"user","content":"And?"}}]}}"#);
    let list = conversation(&body, &mut store.of("ann")).unwrap();
    let said: Vec<_> = list.iter().map(|m| (m.role, m.joined())).collect();
    let expected = [(Role::Assistant, "Hello!"), (Role::User, "And?")];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_string())));
    assert_eq!(list[0].thinking.as_deref(), Some("The user says 你好."));

    // Nobody else's, and none that is not there.
    let fault = conversation(&body, &mut store.of("bob")).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotFound);
    assert_eq!(fault.field.as_deref(), Some("input[0].id"));
    for id in ["msg_0123abcd_9", "msg", "", "_", "msg_é_0"] {
        let body = format!(r#"{{"input":[{{"type":"item_reference","id":"{id}"}}]}}"#);
        let fault = conversation(&body, &mut store.of("ann")).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotFound, "{id}");
    }
}

#[test]
fn a_response_goes_on_from_the_one_before() {
    let mut store = ResponseStore::new(10, 1 << 20);
    let first = r#"{"input":"Hi","instructions":"Be brief.","stream":true}"#;
    let kept = answered(first, &mut store.of("ann"), "thinking").unwrap();
    assert_eq!(kept.id, "resp_0123abcd");
    assert_eq!(
        kept.document.get("status").unwrap().as_str(),
        Some("completed")
    );
    store.keep("ann", kept);

    let next =
        r#"{"input":"And?","instructions":"Be long.","previous_response_id":"resp_0123abcd"}"#;
    let list = conversation(next, &mut store.of("ann")).unwrap();
    let said: Vec<_> = list.iter().map(|m| (m.role, m.joined())).collect();
    let expected = [
        (Role::System, "Be long."),
        (Role::User, "Hi"),
        (Role::Assistant, "Hello!"),
        (Role::User, "And?"),
    ];
    assert_eq!(said, expected.map(|(role, text)| (role, text.to_string())));
    assert_eq!(list[2].thinking.as_deref(), Some("The user says 你好."));

    let fault = conversation(next, &mut store.of("bob")).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotFound);
    assert_eq!(fault.field.as_deref(), Some("previous_response_id"));
}

#[test]
fn results_of_tools_find_the_calls_of_a_kept_response() {
    let mut store = ResponseStore::new(10, 1 << 20);
    let kept = answered(r#"{"input":"Weather?"}"#, &mut (), "tools").unwrap();
    store.keep("", kept);
    let next = r#"{"previous_response_id":"resp_0123abcd","input":[
        {"type":"function_call_output","call_id":"call_1","output":"rain"},
        {"type":"function_call_output","call_id":"call_2","output":[{"type":"input_text","text":"sun"}]}]}"#;
    let list = conversation(next, &mut store.of("")).unwrap();
    assert_eq!(list[1].tool_calls.len(), 2);
    assert_eq!(
        list[1].tool_calls[0]
            .arguments
            .get("city")
            .unwrap()
            .as_str(),
        Some("東京")
    );
    assert_eq!(list[2].name.as_deref(), Some("weather"));
    assert_eq!(list[3].joined(), "sun");
}

#[test]
fn what_is_not_to_be_kept_is_not() {
    assert!(answered(r#"{"input":"Hi","store":false}"#, &mut (), "plain").is_none());
    assert!(answered(r#"{"input":"Hi"}"#, &mut (), "failed").is_none());
}

#[test]
fn items_of_one_turn_become_one_message() {
    let list = conversation(include_str!("rich/response.json"), &mut ()).unwrap();
    let roles: Vec<_> = list.iter().map(|message| message.role).collect();
    assert_eq!(
        roles,
        [Role::System, Role::User, Role::Assistant, Role::Tool]
    );
    assert_eq!(list[2].thinking.as_deref(), Some("t"));
    assert_eq!(list[2].joined(), "ok");
    assert_eq!(list[2].tool_calls[0].name, "look");
    assert_eq!(list[3].name.as_deref(), Some("look"));
}

#[test]
fn sealed_thinking_comes_back() {
    let body = r#"{"input":"Hi","include":["reasoning.encrypted_content"]}"#;
    let kept = answered(body, &mut (), "thinking").unwrap();
    let output = kept.document.get("output").unwrap().as_array().unwrap();
    let sealed = output[0].get("encrypted_content").unwrap().text();
    let next = format!(
        r#"{{"input":[{{"type":"reasoning","summary":[],"encrypted_content":{sealed}}},
            {{"role":"assistant","content":"Hello!"}},{{"role":"user","content":"And?"}}]}}"#
    );
    let list = conversation(&next, &mut ()).unwrap();
    assert_eq!(list[0].thinking.as_deref(), Some("The user says 你好."));
    assert_eq!(list[0].joined(), "Hello!");
}

#[test]
fn what_cannot_be_honoured_is_named() {
    for (fields, place) in [
        (
            r#""input":"x","background":true,"store":false"#,
            "background",
        ),
        (r#""input":"x","conversation":"c""#, "conversation"),
        (r#""input":"x","prompt":{"id":"p"}"#, "prompt"),
        (r#""input":"x","max_tool_calls":3"#, "max_tool_calls"),
        (
            r#""input":"x","tools":[{"type":"web_search"}]"#,
            "tools[0].type",
        ),
        (
            r#""input":[{"type":"computer_call","id":"i"}]"#,
            "input[0].type",
        ),
        (r#""input":[]"#, "input"),
        (r#""model":"m""#, "input"),
        (
            r#""input":"x","reasoning":{"summary":"detailed"}"#,
            "reasoning.summary",
        ),
        (r#""input":"x","include":["everything"]"#, "include[0]"),
    ] {
        let fault = conversation(&format!("{{{fields}}}"), &mut ()).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some(place), "{}", fault.message);
    }
}
