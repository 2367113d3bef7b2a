//! What requests mean.

use super::RICH;

use super::ANTHROPIC;
use crate::pairs::script;
use strata_chat::json::Json;
use strata_chat::{
    ContentPart, Effort, Fault, Format, Generate, Message, Prompt, Role, Thinking, ToolChoice,
};
use strata_wire::call::{Call, Kept, Recall};
use strata_wire::openai::ResponseStore;

fn read(body: &str) -> Result<Generate, Fault> {
    match ANTHROPIC
        .open("POST", "/v1/messages", body.as_bytes())
        .unwrap()?
    {
        Call::Generate(request, _) => Ok(*request),
        _ => panic!("a message asks for text"),
    }
}

/// A request with these fields besides what must be there.
fn with(fields: &str) -> Result<Generate, Fault> {
    let mut body = fields.to_owned();
    for (key, value) in [
        ("model", r#""m""#),
        ("max_tokens", "100"),
        ("messages", r#"[{"role":"user","content":"x"}]"#),
    ] {
        if !fields.starts_with(&format!("\"{key}\"")) {
            body += &format!(",\"{key}\":{value}");
        }
    }
    read(&format!("{{{body}}}"))
}

fn conversation(request: &Generate) -> &[Message] {
    match &request.prompts[..] {
        [Prompt::Chat(messages)] => messages,
        _ => panic!("messages are a conversation"),
    }
}

#[test]
fn all_of_a_rich_request_is_understood() {
    let request = read(RICH).unwrap();
    let list = conversation(&request);
    let roles: Vec<_> = list.iter().map(|message| message.role).collect();
    let expected = [
        Role::System,
        Role::User,
        Role::Assistant,
        Role::Tool,
        Role::User,
    ];
    assert_eq!(roles, expected);
    // The line for the provider is gone.
    assert_eq!(list[0].joined(), "Be brief.");
    assert!(matches!(&list[1].parts[1], ContentPart::Image(image) if image.bytes.len() == 8));
    assert_eq!(list[2].thinking.as_deref(), Some("Look."));
    assert_eq!(
        list[2].tool_calls[0].arguments.get("at"),
        Some(&Json::Int(1))
    );
    assert_eq!(list[3].joined(), "Error: no light");
    assert_eq!(list[3].tool_call_id.as_deref(), Some("t1"));
    assert_eq!(list[3].name.as_deref(), Some("look"));
    assert_eq!(list[4].joined(), "Try again.");
    assert_eq!(request.max_tokens, Some(2000));
    assert_eq!(request.sampling.top_k, Some(40));
    assert_eq!(request.stop, ["END"]);
    assert_eq!(request.tools.choice, ToolChoice::Named("look".into()));
    assert!(!request.tools.parallel);
    assert_eq!(request.thinking, Thinking::On { budget: Some(1024) });
    assert!(matches!(request.format, Format::JsonSchema(_)));
    assert!(!request.continues);
}

#[test]
fn thinking_and_effort_are_asked_for_in_several_ways() {
    let thinking = |fields: &str| with(fields).unwrap().thinking;
    assert_eq!(thinking(r#""stream":false"#), Thinking::Default);
    assert_eq!(thinking(r#""thinking":{"type":"disabled"}"#), Thinking::Off);
    assert_eq!(
        thinking(r#""thinking":{"type":"adaptive"}"#),
        Thinking::Default
    );
    let effort = r#""thinking":{"type":"adaptive"},"output_config":{"effort":"low"}"#;
    assert_eq!(thinking(effort), Thinking::Effort(Effort::Low));
    let off = r#""thinking":{"type":"disabled"},"output_config":{"effort":"max"}"#;
    assert_eq!(thinking(off), Thinking::Off);
}

#[test]
fn the_models_own_last_message_is_completed() {
    let body = r#"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"{"}]}"#;
    assert!(read(body).unwrap().continues);
}

#[test]
fn what_is_wrong_is_named() {
    for (fields, place) in [
        (r#""max_tokens":0"#, "max_tokens"),
        (r#""max_tokens":99999999999999999999"#, "max_tokens"),
        (r#""temperature":1.5"#, "temperature"),
        (r#""messages":[]"#, "messages"),
        (
            r#""messages":[{"role":"narrator","content":"x"}]"#,
            "messages[0].role",
        ),
        (
            r#""messages":[{"role":"system","content":[{"type":"image"}]}]"#,
            "messages[0].content[0].type",
        ),
        (r#""thread":{"type":"fork"}"#, "thread.type"),
        (
            r#""thread":{"type":"continue"}"#,
            "thread.previous_message_id",
        ),
        (
            r#""system":"s","thread":{"type":"continue","previous_message_id":"m"}"#,
            "system",
        ),
        (r#""mcp_servers":[{"url":"http://h/"}]"#, "mcp_servers"),
        (r#""compaction":{"type":"summarize"}"#, "compaction"),
        (r#""speed":"slow""#, "speed"),
        (r#""messages":[{"role":"user"}]"#, "messages[0].content"),
        (
            r#""messages":[{"role":"user","content":[{"type":"document","source":{}}]}]"#,
            "messages[0].content[0].type",
        ),
        // The API has no audio.
        (
            r#""messages":[{"role":"user","content":[{"type":"audio","source":{"type":"base64","data":"AQID"}}]}]"#,
            "messages[0].content[0].type",
        ),
        (
            r#""messages":[{"role":"user","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]}]"#,
            "messages[0].content[0].type",
        ),
        (
            r#""messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"http://h/"}}]}]"#,
            "messages[0].content[0].source.url",
        ),
        (
            r#""messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":"x"}]}]"#,
            "messages[0].content[0].input",
        ),
        (r#""tools":[{"name":"f"}]"#, "tools[0].input_schema"),
        (
            r#""tools":[{"type":"bash_20250124","name":"bash"}]"#,
            "tools[0].type",
        ),
        (r#""tool_choice":{"type":"any"}"#, "tool_choice"),
        (r#""tool_choice":{"type":"tool","name":"f"}"#, "tool_choice"),
        (r#""thinking":{"type":"enabled"}"#, "thinking.budget_tokens"),
        (
            r#""thinking":{"type":"enabled","budget_tokens":100}"#,
            "thinking.budget_tokens",
        ),
        (r#""stop_sequences":[""]"#, "stop_sequences[0]"),
        (
            r#""output_config":{"format":{"type":"regex"}}"#,
            "output_config.format.type",
        ),
        (
            r#""context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}"#,
            "context_management.edits[0]",
        ),
        (r#""container":"c""#, "container"),
    ] {
        let fault = with(fields).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some(place), "{}", fault.message);
    }
    let fault = read(r#"{"max_tokens":5,"messages":[]}"#).unwrap_err();
    assert_eq!(fault.message, "model: is required");
}

#[test]
fn preferences_are_taken_and_change_nothing() {
    let plain = with(r#""stream":false"#).unwrap();
    for fields in [
        r#""thread":null,"container":null,"mcp_servers":[]"#,
        r#""thread":{"type":"create"}"#,
        r#""diagnostics":{"previous_message_id":null}"#,
        r#""inference_geo":"eu","speed":"fast","service_tier":"auto""#,
        r#""fallbacks":"default","fallback_credit_token":"t""#,
        r#""metadata":{"user_id":"u"},"cache_control":{"type":"ephemeral"}"#,
    ] {
        assert_eq!(with(fields), Ok(plain.clone()), "{fields}");
    }
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},
        {"role":"system","content":"Be brief."},
        {"role":"system","content":[{"type":"text","text":"In rhymes."}]}]}"#;
    let request = read(body).unwrap();
    let said: Vec<_> = conversation(&request)
        .iter()
        .map(|message| (message.role, message.joined()))
        .collect();
    assert_eq!(
        said,
        [
            (Role::User, "a".into()),
            (Role::System, "Be brief.".into()),
            (Role::System, "In rhymes.".into()),
        ]
    );
}

/// What a request is answered with, as a script tells it, and what is kept of it.
fn kept(body: &str, recall: &mut dyn Recall) -> Option<Kept> {
    let opened = ANTHROPIC.recall("POST", "/v1/messages", body.as_bytes(), recall);
    let Ok(Call::Generate(_, mut answer)) = opened.unwrap() else {
        panic!("a message asks for text");
    };
    let mut out = Vec::new();
    for event in script("tools") {
        answer.event(&event, &mut out);
    }
    answer.kept()
}

#[test]
fn a_thread_goes_on_with_its_messages_and_tools() {
    let mut store = ResponseStore::new(10, 1 << 20);
    let first = r#"{"model":"m","max_tokens":9,"system":"s","thread":{"type":"create"},
        "tools":[{"name":"weather","input_schema":{"type":"object"}}],
        "messages":[{"role":"user","content":"Weather?"}]}"#;
    let answer = kept(first, &mut ()).unwrap();
    assert_eq!(answer.id, "msg_0123abcd");
    store.keep("alice", answer);
    let next = r#"{"model":"m","max_tokens":9,
        "thread":{"type":"continue","previous_message_id":"msg_0123abcd"},
        "messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"rain"}]}]}"#;
    let go_on = |recall: &mut dyn Recall| {
        let opened = ANTHROPIC.recall("POST", "/v1/messages", next.as_bytes(), recall);
        match opened.unwrap()? {
            Call::Generate(request, _) => Ok(*request),
            _ => panic!("a message asks for text"),
        }
    };
    let request = go_on(&mut store.of("alice")).unwrap();
    let roles: Vec<_> = conversation(&request).iter().map(|m| m.role).collect();
    assert_eq!(
        roles,
        [Role::System, Role::User, Role::Assistant, Role::Tool]
    );
    assert_eq!(conversation(&request)[3].name.as_deref(), Some("weather"));
    assert_eq!(request.tools.list[0].name, "weather");
    assert!(kept(next, &mut store.of("alice")).is_some());
    let fault = go_on(&mut store.of("bob")).unwrap_err();
    let reply = ANTHROPIC.fault(&fault);
    assert_eq!(reply.status, 404);
    let error = Json::parse(&reply.body).unwrap().get("error").cloned();
    let code = error.and_then(|error| error.get("details")?.get("error_code").cloned());
    assert_eq!(code, Some("thread_not_found".into()));
    let apart = first.replace(r#""thread":{"type":"create"},"#, "");
    assert_eq!(kept(&apart, &mut ()), None);
}
