//! Slots that are listed, saved, erased and brought back.

use crate::support::{Answer, TestServer};
use std::path::PathBuf;
use strata_chat::json::Json;
use strata_server::{Access, Key, Settings, SlotFolder};

/// Longer than a page of the cache.
const STORY: &str = "Once upon a time there was a small dog who lived in a big house with a cat, a bird and two \
    children, and every day they all went to the park to play with a red ball until the sun went down.";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("strata-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn settings(&self, keys: &[&str]) -> Settings {
        let key = |secret: &&str| Key {
            name: (*secret).into(),
            secret: (*secret).into(),
            per_minute: None,
            models: Vec::new(),
            administers: true,
        };
        Settings {
            access: Access::new(keys.iter().map(key).collect()),
            slots: Some(SlotFolder {
                path: self.0.clone(),
                limit: 64 << 20,
            }),
            ..Settings::default()
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn number(answer: &Answer, path: &[&str]) -> i64 {
    let json = answer.json();
    let found = path.iter().try_fold(&json, |json, key| json.get(key));
    match found {
        Some(Json::Int(n)) => *n,
        _ => panic!("{path:?} in {}", answer.body),
    }
}

fn tell(server: &TestServer, key: &str) -> Answer {
    let body = format!("{{\"prompt\":\"{STORY}\",\"n_predict\":4,\"temperature\":0}}");
    let answer = server.ask("POST", "/completion", key, &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer
}

#[test]
fn a_slot_is_saved_erased_and_brought_back() {
    let folder = Folder::new("slots");
    let server = TestServer::with_settings(folder.settings(&[]), &["tale"], u64::MAX);
    let act = |action: &str, body: &str| server.post(&format!("/slots/0?action={action}"), body);
    assert_eq!(act("save", "{\"filename\":\"a\"}").status, 400);
    let first = tell(&server, "");
    let listed = server.get("/slots").json();
    let slot = &listed.as_array().unwrap()[0];
    assert_eq!(slot.get("n_decoded"), Some(&Json::Int(4)));
    let prompt = number(&first, &["tokens_evaluated"]);
    assert_eq!(slot.get("n_prompt_tokens"), Some(&Json::Int(prompt)));
    assert!(prompt > 40, "the text is too short to be kept");

    let saved = act("save", "{\"filename\":\"story.bin\"}");
    assert_eq!(saved.status, 200, "{}", saved.body);
    assert_eq!(number(&saved, &["n_saved"]), prompt + 4);
    assert!(number(&saved, &["n_written"]) > 1000);
    let erased = act("erase", "");
    assert_eq!(
        number(&erased, &["n_erased"]),
        prompt + 4,
        "{}",
        erased.body
    );
    let again = tell(&server, "");
    assert_eq!(number(&again, &["timings", "cache_n"]), 0);
    assert_eq!(act("erase", "").status, 200);
    let restored = act("restore", "{\"filename\":\"story.bin\"}");
    assert_eq!(
        number(&restored, &["n_restored"]),
        prompt + 4,
        "{}",
        restored.body
    );
    let quick = tell(&server, "");
    assert!(
        number(&quick, &["timings", "cache_n"]) >= 32,
        "{}",
        quick.body
    );
    let text = |answer: &Answer| answer.json().get("content").cloned();
    assert_eq!(text(&quick), text(&first));

    assert_eq!(act("restore", "{\"filename\":\"nothing\"}").status, 404);
    let folders = std::fs::read_dir(&folder.0).unwrap().flatten();
    let mut files = folders.map(|entry| entry.path().join("story.bin"));
    let file = files.find(|path| path.is_file()).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let damaged = act("restore", "{\"filename\":\"story.bin\"}");
    assert_eq!(damaged.status, 400);
    assert!(damaged.body.contains("checksum"), "{}", damaged.body);
}

#[test]
fn names_that_lead_elsewhere_and_slots_that_are_not_there() {
    let folder = Folder::new("slot-names");
    let server = TestServer::with_settings(folder.settings(&[]), &["tale"], u64::MAX);
    tell(&server, "");
    for name in [
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "..",
        ".x",
        "",
        "a\\u0000b",
    ] {
        for action in ["save", "restore"] {
            let body = format!("{{\"filename\":\"{name}\"}}");
            let answer = server.post(&format!("/slots/0?action={action}"), &body);
            assert_eq!(answer.status, 400, "{action} {name}: {}", answer.body);
        }
    }
    let body = "{\"filename\":\"a\"}";
    assert_eq!(server.post("/slots/999?action=save", body).status, 404);
    assert_eq!(server.post("/slots/999?action=erase", "").status, 404);
    assert_eq!(server.post("/slots/0?action=bury", body).status, 400);
    let plain = TestServer::start();
    let refused = plain.post("/slots/0?action=save", body);
    assert_eq!(refused.status, 501, "{}", refused.body);
    assert!(
        refused.body.contains("--slot-save-path"),
        "{}",
        refused.body
    );
}

#[test]
fn what_one_client_saved_another_does_not_find() {
    let folder = Folder::new("slot-owners");
    let settings = folder.settings(&["ada-secret", "bob-secret"]);
    let server = TestServer::with_settings(settings, &["tale"], u64::MAX);
    let [ada, bob] = ["ada", "bob"].map(|name| format!("x-api-key: {name}-secret\r\n"));
    tell(&server, &ada);
    let act = |action: &str, key: &str| {
        let path = format!("/slots/0?action={action}");
        server.ask("POST", &path, key, "{\"filename\":\"mine\"}")
    };
    assert_eq!(act("save", &bob).status, 400, "it is not bob's text");
    assert_eq!(act("erase", &bob).status, 400);
    assert_eq!(act("save", &ada).status, 200);
    assert_eq!(act("restore", &bob).status, 404);
    assert_eq!(act("restore", &ada).status, 200);
}
