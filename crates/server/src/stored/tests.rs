//! What is kept is found by its owner only, in memory and on disk.

use super::*;
use strata_chat::Role;
use strata_wire::openai::Page;

fn kept(id: &str, object: &str) -> Kept {
    Kept {
        id: id.into(),
        document: Json::object([
            ("id", id.into()),
            ("object", object.into()),
            ("created", 7_i64.into()),
            ("model", "tale".into()),
            ("status", "queued".into()),
            ("background", true.into()),
            ("metadata", Json::object([("topic", "foxes".into())])),
        ]),
        messages: [
            Message::text(Role::User, "Hi"),
            Message::text(Role::Assistant, "Hello"),
        ]
        .into(),
        added: None,
    }
}

const ALL: Page = Page {
    limit: 20,
    newest_first: false,
    after: None,
};

fn data(list: &Json) -> Vec<Json> {
    list.get("data").and_then(Json::as_array).unwrap().to_vec()
}

#[test]
fn chats_are_listed_labeled_and_dropped() {
    let mut store = StoredObjects::new(None);
    store.keep("1", kept("chatcmpl-a", "chat.completion"));
    store.keep("2", kept("chatcmpl-b", "chat.completion"));
    let list = |store: &mut StoredObjects, model: Option<&str>, topic: &str| {
        let wanted = Stored::Chats {
            model: model.map(str::to_owned),
            labels: [("topic".to_owned(), topic.to_owned())].into(),
            page: ALL,
        };
        data(&store.act("1", &wanted).unwrap()).len()
    };
    assert_eq!(list(&mut store, None, "foxes"), 1);
    assert_eq!(list(&mut store, Some("other"), "foxes"), 0);
    let labels = Json::object([("topic", "owls".into())]);
    let label = Stored::Label("chatcmpl-a".into(), labels);
    store.act("1", &label).unwrap();
    assert_eq!(list(&mut store, Some("tale"), "foxes"), 0);
    assert_eq!(list(&mut store, Some("tale"), "owls"), 1);
    let messages = Stored::Messages("chatcmpl-a".into(), ALL);
    let messages = data(&store.act("1", &messages).unwrap());
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].get("content"), Some(&"Hi".into()));
    let delete = Stored::Delete("chatcmpl-a".into());
    assert!(store.act("2", &delete).is_err());
    store.act("1", &delete).unwrap();
    assert_eq!(list(&mut store, None, "owls"), 0);
}

#[test]
fn conversations_grow_and_keep_their_items() {
    let mut store = StoredObjects::new(None);
    let item = |id: &str| Json::object([("id", id.into()), ("type", "message".into())]);
    let create = KeptConversation::Create {
        items: [item("a")].into(),
        labels: Json::Object(Vec::new()),
    };
    let made = store.converse("1", &create, ("x", 7)).unwrap();
    assert_eq!(made.get("id"), Some(&"conv_x".into()));
    assert!(made.get("items").is_none());
    let id = || "conv_x".to_owned();
    store.keep(
        "1",
        Kept {
            added: Some((id(), [item("b"), item("c")].into())),
            ..Kept::default()
        },
    );
    assert_eq!(store.of("1").conversation("conv_x").unwrap().len(), 3);
    assert!(store.of("2").conversation("conv_x").is_none());
    let mut ask = |wanted| store.converse("1", &wanted, ("y", 8));
    let drop = KeptConversation::DeleteItem(id(), "b".into());
    assert!(ask(drop.clone()).is_ok() && ask(drop).is_err());
    let items = ask(KeptConversation::Items(id(), ALL)).unwrap();
    assert_eq!(data(&items), [item("a"), item("c")]);
    let one = ask(KeptConversation::Item(id(), "c".into()));
    assert_eq!(one.unwrap(), item("c"));
    ask(KeptConversation::Delete(id())).unwrap();
    assert!(ask(KeptConversation::Get(id())).is_err());
}

#[test]
fn what_is_on_disk_is_found_after_a_restart_and_by_nobody_else() {
    let folder = std::env::temp_dir().join(format!("strata-objects-{}", std::process::id()));
    let mut store = StoredObjects::new(Some(folder.clone()));
    store.keep("1", kept("resp_a", "response"));
    let mut again = StoredObjects::new(Some(folder.clone()));
    let before = kept("resp_a", "response");
    assert_eq!(
        again.act("1", &Stored::Get("resp_a".into())).unwrap(),
        before.document
    );
    assert_eq!(again.of("1").recall("resp_a").unwrap(), before.messages);
    for (owner, id) in [("2", "resp_a"), ("1", "../1/resp_a"), ("1", "resp_b")] {
        assert!(again.act(owner, &Stored::Get(id.into())).is_err(), "{id}");
    }
    again.act("1", &Stored::Delete("resp_a".into())).unwrap();
    let mut last = StoredObjects::new(Some(folder.clone()));
    assert!(last.act("1", &Stored::Get("resp_a".into())).is_err());
    std::fs::remove_dir_all(folder).unwrap();
}
