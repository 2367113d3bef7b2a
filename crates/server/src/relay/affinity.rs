//! Which replica knows a conversation: the one that answered the turn before.
//!
//! A request is cut into pieces: the messages of a conversation, or a prompt's text in equal parts. The table remembers
//! who was given each beginning. Conversations that share nothing but a system prompt are not one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use strata_chat::json::Json;

/// Bytes of a piece of a prompt.
const PART: usize = 256;
/// Pieces that are looked at.
const MOST_PIECES: usize = 1024;
/// Beginnings that are remembered at least, and at most twice as many.
const REMEMBERED: usize = 1 << 16;

/// The beginnings of a request, shortest first, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Beginnings {
    numbers: Vec<u64>,
    /// How many of them, from the longest, tell a conversation from others.
    telling: usize,
}

impl Beginnings {
    /// Of a body that a client sent. `tenant` is whose: replicas share nothing between clients.
    pub(super) fn read(body: &[u8], tenant: u64) -> Self {
        let Ok(json) = Json::parse(body) else {
            return Self::default();
        };
        let mut hash = DefaultHasher::new();
        tenant.hash(&mut hash);
        for field in ["model", "system", "instructions", "tools"] {
            if let Some(value) = json.get(field) {
                (field, value.text()).hash(&mut hash);
            }
        }
        let (mut numbers, mut telling) = (Vec::new(), 0);
        let mut add = |piece: &str, tells: bool| {
            piece.hash(&mut hash);
            numbers.push(hash.finish());
            telling += usize::from(tells || telling > 0);
        };
        let listed = ["messages", "input", "contents"];
        let listed = listed.iter().find_map(|field| json.get(field)?.as_array());
        if let Some(messages) = listed {
            for message in messages.iter().take(MOST_PIECES) {
                let role = message.get("role").and_then(Json::as_str);
                add(
                    &message.text(),
                    !matches!(role, Some("system" | "developer")),
                );
            }
        } else {
            let prompt = ["prompt", "input"].iter().find_map(|field| json.get(field));
            let text = match prompt {
                Some(Json::String(text)) => text.clone(),
                Some(other) => other.text(),
                None => String::new(),
            };
            let parts = text.as_bytes().chunks_exact(PART).take(MOST_PIECES);
            let count = parts.len();
            for (number, part) in parts.enumerate() {
                // A turn is longer than the one before it, but seldom twice as long.
                add(&String::from_utf8_lossy(part), 2 * (number + 1) >= count);
            }
        }
        Self { numbers, telling }
    }

    /// Whether they tell a conversation from others.
    pub(super) fn tell_a_conversation(&self) -> bool {
        self.telling > 0
    }
}

/// Who was given which beginning. The older half is forgotten when the newer one is full.
#[derive(Debug, Default)]
pub(super) struct AffinityTable {
    newer: HashMap<u64, usize>,
    older: HashMap<u64, usize>,
}

impl AffinityTable {
    /// The replica that was given the longest beginning.
    pub(super) fn find(&self, beginnings: &Beginnings) -> Option<usize> {
        let mut telling = beginnings.numbers.iter().rev().take(beginnings.telling);
        telling.find_map(|number| self.get(*number))
    }

    /// What a name of an object was noted with.
    pub(super) fn get(&self, number: u64) -> Option<usize> {
        let found = self.newer.get(&number).or_else(|| self.older.get(&number));
        found.copied()
    }

    pub(super) fn note(&mut self, beginnings: &Beginnings, replica: usize) {
        for number in &beginnings.numbers {
            self.insert(*number, replica);
        }
    }

    pub(super) fn insert(&mut self, number: u64, replica: usize) {
        if self.newer.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(number, replica);
    }
}

/// The number under which an object that a replica keeps is noted, from what its name ends with.
pub(super) fn object(name: &str) -> u64 {
    let id = name.rsplit(['_', '-']).next().unwrap_or(name);
    let mut hash = DefaultHasher::new();
    ("object", id).hash(&mut hash);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(messages: &[(&str, &str)]) -> Beginnings {
        let messages = messages.iter().map(|(role, text)| {
            Json::object([("role", (*role).into()), ("content", (*text).into())])
        });
        let body = Json::object([("stream", true.into()), ("messages", Json::array(messages))]);
        Beginnings::read(body.text().as_bytes(), 0)
    }

    #[test]
    fn a_conversation_is_found_again_and_a_system_prompt_alone_is_not() {
        let mut table = AffinityTable::default();
        let first = chat(&[("system", "Be kind."), ("user", "One")]);
        table.note(&first, 2);
        let next = chat(&[
            ("system", "Be kind."),
            ("user", "One"),
            ("assistant", "Yes"),
            ("user", "Two"),
        ]);
        assert_eq!(table.find(&next), Some(2));
        table.note(&next, 1);
        assert_eq!(table.find(&next), Some(1));
        let other = chat(&[("system", "Be kind."), ("user", "Another")]);
        assert_eq!(table.find(&other), None);
        let body = br#"{"messages": [{"role": "user", "content": "One"}]}"#;
        table.note(&Beginnings::read(body, 7), 0);
        assert_eq!(table.find(&Beginnings::read(body, 8)), None);
    }

    #[test]
    fn prompts_are_found_by_what_they_begin_with() {
        let prompt = |text: String| {
            let body = Json::object([("prompt", text.into())]);
            Beginnings::read(body.text().as_bytes(), 0)
        };
        let mut table = AffinityTable::default();
        let text: String = (0..400).map(|n| format!("word{n} ")).collect();
        table.note(&prompt(text.clone()), 1);
        assert_eq!(table.find(&prompt(format!("{text} and on"))), Some(1));
        let short = text[..PART].to_owned() + &"other ".repeat(400);
        assert_eq!(table.find(&prompt(short)), None);
        for body in ["", "[]", "{\"prompt\": 5}", "{\"prompt\": \"\"}"] {
            let beginnings = Beginnings::read(body.as_bytes(), 0);
            assert_eq!(table.find(&beginnings), None, "{body}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut table = AffinityTable::default();
        for number in 0..5 * REMEMBERED as u64 {
            table.insert(number, 0);
        }
        assert!(table.newer.len() + table.older.len() <= 2 * REMEMBERED);
        assert_eq!(table.get(5 * REMEMBERED as u64 - 1), Some(0));
        assert_eq!(table.get(0), None);
        assert_eq!(
            object("resp_6e789e6aa1b965f4"),
            object("chatcmpl-6e789e6aa1b965f4")
        );
    }
}
