//! A server whose machine loses power, and the one that comes after it.

use crate::model::tests::tale;
use crate::serve::Access;
use crate::serve::tests::{body, content, with_model};
use crate::storage::data::DataStore;
use crate::storage::data::tests::{blank, open};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use strata_chat::json::Json;

/// A number in an answer; 0 if it is not there.
fn number(answer: &str, path: &[&str]) -> u64 {
    let parsed = Json::parse(body(answer).as_bytes()).unwrap();
    let found = path.iter().try_fold(&parsed, |json, key| json.get(key));
    found
        .and_then(|json| json.to_string().parse().ok())
        .unwrap_or(0)
}

/// How many of a turn's tokens were computed, and how many were known.
fn computed_and_known(answer: &str) -> (u64, u64) {
    let known = number(answer, &["usage", "prompt_tokens_details", "cached_tokens"]);
    (number(answer, &["usage", "prompt_tokens"]) - known, known)
}

fn turn(said: &[&str]) -> String {
    let roles = ["user", "assistant"].into_iter().cycle();
    let messages: Vec<String> = roles
        .zip(said)
        .map(|(role, text)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        .collect();
    let messages = messages.join(",");
    format!(r#"{{"model":"tale","temperature":0,"max_tokens":8,"messages":[{messages}]}}"#)
}

#[test]
fn pages_and_saved_slots_outlive_a_power_cut() {
    const CHAT: &str = "/v1/chat/completions";
    const SLOT: &str = "/slots/0?action=";
    let long = "Tell me a story about a fox who lives in the forest. ".repeat(10);
    let file = r#"{"filename":"fox.bin"}"#;
    let (disk, log) = open(blank(1024));
    let (mut told, mut whole) = (String::new(), 0);
    let data = Some(DataStore::new(log.unwrap().0));
    with_model(tale(), Access::default(), data, |world| {
        let answer = world.post(CHAT, "", &turn(&[&long]));
        told = content(&answer)
            .get("content")
            .and_then(Json::as_str)
            .unwrap()
            .into();
        let (computed, known) = computed_and_known(&answer);
        // Where the answer begins, the next prompt may have other tokens.
        whole = (computed - 2) / 32;
        assert!(known == 0 && whole > 2, "{computed}, {known}");
        while world.step() {}
        let saved = world.post(&format!("{SLOT}save"), "", file);
        assert!(saved.starts_with("HTTP/1.1 200"), "{saved}");
        assert!(
            world
                .server
                .counters()
                .expect("a model answers")
                .stored_pages
                >= whole
        );
        let slots = world.post(&format!("{SLOT}restore"), "", r#"{"filename":"none"}"#);
        assert!(slots.starts_with("HTTP/1.1 404"), "{slots}");
    });
    // What nobody closed is found as it was.
    let bytes = disk.lock().bytes.clone();
    let next = turn(&[&long, &told.replace(['\n', '"'], " "), "And then?"]);
    let (_, log) = open(bytes);
    let data = Some(DataStore::new(log.unwrap().0));
    let mut warm = String::new();
    with_model(tale(), Access::default(), data, |world| {
        let answer = world.post(CHAT, "", &next);
        let (computed, known) = computed_and_known(&answer);
        assert!(
            computed < known && known >= 32 * whole,
            "{computed}, {known}"
        );
        assert!(
            world
                .server
                .counters()
                .expect("a model answers")
                .restored_pages
                >= whole
        );
        warm = content(&answer).to_string();
        let restored = world.post(&format!("{SLOT}restore"), "", file);
        assert!(
            number(&restored, &["n_restored"]) > 32 * whole,
            "{restored}"
        );
    });
    with_model(tale(), Access::default(), None, |world| {
        let answer = world.post(CHAT, "", &next);
        assert_eq!(computed_and_known(&answer).1, 0);
        assert_eq!(content(&answer).to_string(), warm);
        let refused = world.post(&format!("{SLOT}save"), "", file);
        assert!(body(&refused).contains("no data partition"), "{refused}");
    });
}
