//! Kept answers stay within bounds and with their owners.

use super::{Page, ResponseStore};
use crate::call::{Kept, Recall, Stored};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{FaultKind, Message, Role, ToolCall};

fn kept(id: &str, text: &str) -> Kept {
    Kept {
        id: id.into(),
        document: Json::object([("id", id.into())]),
        messages: [Message::text(Role::User, text)].into(),
        added: None,
    }
}

#[test]
fn an_answer_is_found_by_its_owner_only() {
    let mut store = ResponseStore::new(10, 1 << 20);
    store.keep("alice", kept("r1", "secret"));
    assert_eq!(
        store.of("alice").recall("r1").unwrap()[0].joined(),
        "secret"
    );
    assert_eq!(store.of("bob").recall("r1"), None);
    for stored in [
        Stored::Get("r1".into()),
        Stored::Delete("r1".into()),
        Stored::Cancel("r1".into()),
    ] {
        let fault = store.act("bob", &stored).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotFound);
    }
    let fault = store
        .act("alice", &Stored::Cancel("r1".into()))
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::BadRequest);
    let gone = store.act("alice", &Stored::Delete("r1".into())).unwrap();
    assert_eq!(
        gone.text(),
        r#"{"id":"r1","object":"response","deleted":true}"#
    );
    assert!(store.act("alice", &Stored::Get("r1".into())).is_err());
    assert_eq!((store.count(), store.bytes()), (0, 0));
}

#[test]
fn the_least_used_answers_are_dropped_first() {
    let mut store = ResponseStore::new(3, 1 << 20);
    for id in ["a", "b", "c"] {
        store.keep("", kept(id, id));
    }
    store.of("").recall("a").unwrap();
    store.keep("", kept("d", "d"));
    assert!(store.of("").recall("b").is_none());
    for id in ["a", "c", "d"] {
        assert!(store.of("").recall(id).is_some(), "{id}");
    }
}

#[test]
fn bytes_are_bounded_whatever_is_kept() {
    let mut store = ResponseStore::new(1000, 50_000);
    let long: String = "x".repeat(60_000);
    store.keep("", kept("long", &long));
    assert_eq!(store.count(), 0);
    for i in 0..200 {
        store.keep("", kept(&format!("r{i}"), &long[..i * 200]));
        assert!(store.bytes() <= 50_000);
        assert!(store.of("").recall(&format!("r{i}")).is_some());
    }
    store.keep("", kept("r199", "again"));
    assert_eq!(store.of("").recall("r199").unwrap()[0].joined(), "again");
}

#[test]
fn the_conversation_before_an_answer_is_listed_in_pages() {
    let mut store = ResponseStore::new(3, 1 << 20);
    let mut called = Message::text(Role::Assistant, "Let me see.");
    called.thinking = Some("hm".into());
    called.tool_calls.push(ToolCall {
        id: "c1".into(),
        name: "f".into(),
        arguments: Json::object([("a", 1u32.into())]),
    });
    let mut result = Message::text(Role::Tool, "2");
    result.tool_call_id = Some("c1".into());
    store.keep(
        "",
        Kept {
            messages: [
                Message::text(Role::User, "漢 😀"),
                called,
                result,
                Message::text(Role::Assistant, "The answer is not input."),
            ]
            .into(),
            ..kept("resp_r", "")
        },
    );
    let mut ask = |query: &str| {
        let page = Page::of_query(query)?;
        store.act("", &Stored::InputItems("resp_r".into(), page))
    };
    let kinds = |list: &Json| -> Vec<String> {
        let items = list.get("data").and_then(Json::as_array).unwrap();
        let kind = |item: &Json| item.get("type").and_then(Json::as_str).unwrap().into();
        items.iter().map(kind).collect()
    };
    let all = ask("order=asc").unwrap();
    let expected = [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ];
    assert_eq!(kinds(&all), expected);
    assert!(all.text().contains("漢 😀") && !all.text().contains("The answer"));
    assert_eq!(all.get("has_more"), Some(&Json::Bool(false)));
    let first = ask("limit=2").unwrap();
    assert_eq!(kinds(&first), ["function_call_output", "function_call"]);
    assert_eq!(first.get("has_more"), Some(&Json::Bool(true)));
    let last = first.get("last_id").and_then(Json::as_str).unwrap();
    let rest = ask(&format!("after={last}&limit=100")).unwrap();
    assert_eq!(kinds(&rest), ["message", "reasoning", "message"]);
    for wrong in [
        "limit=0",
        "limit=101",
        "limit=x",
        "order=up",
        "after=nobody",
        "x=1",
    ] {
        assert!(ask(wrong).is_err(), "{wrong}");
    }
}
