//! Which tokens begin and end a text, and which are put around it.

use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::{Algorithm, Settings, Vocabulary};

/// GGUF's key, the token's name in `tokenizer_config.json`, its id's in `config.json`.
const ROLES: &[(&str, &str, &str)] = &[
    ("bos_token_id", "bos_token", "bos_token_id"),
    ("eos_token_id", "eos_token", "eos_token_id"),
    ("unknown_token_id", "unk_token", "unk_token_id"),
    ("seperator_token_id", "sep_token", "sep_token_id"),
    ("padding_token_id", "pad_token", "pad_token_id"),
    ("cls_token_id", "cls_token", "cls_token_id"),
    ("mask_token_id", "mask_token", "mask_token_id"),
];

pub(super) fn assign(vocabulary: &mut Vocabulary, settings: &Settings) {
    let count = vocabulary.len();
    for &(key, name, id_name) in ROLES {
        let text = match settings.tokenizer.get(name) {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(Value::Object(map)) => map.get("content").and_then(Value::as_str),
            _ => None,
        };
        let named = text.and_then(|text| vocabulary.find(text));
        let stated = || {
            let first = |map| ids(map, id_name).into_iter().next();
            first(&settings.model).or_else(|| first(&settings.generation))
        };
        let id = named.or_else(stated).filter(|&id| (id as usize) < count);
        if let Some(id) = id {
            vocabulary.ids.insert(key, id);
        }
    }
    ends(vocabulary, settings);
    let adds = |name| settings.tokenizer.get(name).and_then(Value::as_bool);
    if vocabulary.algorithm != Algorithm::WordPiece {
        let around = settings.around.as_ref();
        let has = |side: usize| around.map(|around| around[side].is_some());
        // A tokenizer.json that puts nothing around a text means it.
        let usual = vocabulary.algorithm == Algorithm::Spm && around.is_none();
        let bos = has(0).or(adds("add_bos_token")).unwrap_or(usual);
        // T5 puts an end after a text, and its SentencePiece file does not say so.
        let family = settings.model.get("model_type").and_then(Value::as_str);
        let unstated = around.is_none() && matches!(family, Some("t5" | "mt5" | "umt5"));
        let eos = has(1).or(adds("add_eos_token")).unwrap_or(unstated);
        vocabulary.flags.insert("add_bos_token", bos);
        vocabulary.flags.insert("add_eos_token", eos);
    }
}

/// Several tokens may end an answer; GGUF has room for an end of turn and an end of message beside the end of text.
fn ends(vocabulary: &mut Vocabulary, settings: &Settings) {
    let mut all = ids(&settings.generation, "eos_token_id");
    all.extend(ids(&settings.model, "eos_token_id"));
    let eos = vocabulary.ids.get("eos_token_id").copied();
    let count = vocabulary.len();
    let mut others: Vec<u32> = Vec::new();
    for id in all {
        if Some(id) != eos && !others.contains(&id) && (id as usize) < count {
            others.push(id);
        }
    }
    for (key, id) in ["eot_token_id", "eom_token_id"].into_iter().zip(others) {
        vocabulary.ids.insert(key, id);
    }
}

/// A number, or a list of them.
fn ids(map: &Map<alloc::string::String, Value>, key: &str) -> Vec<u32> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match map.get(key) {
        Some(Value::Array(list)) => list.iter().take(16).filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}
