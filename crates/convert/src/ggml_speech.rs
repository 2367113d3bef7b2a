//! The files of whisper.cpp as if they were Hugging Face folders: their config, their tokenizer, their tensors' names.

use std::collections::HashMap;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use serde_json::{Value, json};
use strata_weights::CheckpointTensor;
use strata_weights::ggml_speech::{GgmlSpeech, SpeechSizes};

/// The languages in the order of their tokens.
const LANGUAGES: &str = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th \
    ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc \
    ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue";

/// What comes after the languages.
const AFTER: [&str; 6] = [
    "translate",
    "transcribe",
    "startoflm",
    "startofprev",
    "nospeech",
    "notimestamps",
];

/// A name of whisper.cpp inside a layer, and the one in Hugging Face's checkpoints.
const LAYER: &[(&str, &str)] = &[
    ("attn_ln", "self_attn_layer_norm"),
    ("attn.query", "self_attn.q_proj"),
    ("attn.key", "self_attn.k_proj"),
    ("attn.value", "self_attn.v_proj"),
    ("attn.out", "self_attn.out_proj"),
    ("cross_attn_ln", "encoder_attn_layer_norm"),
    ("cross_attn.query", "encoder_attn.q_proj"),
    ("cross_attn.key", "encoder_attn.k_proj"),
    ("cross_attn.value", "encoder_attn.v_proj"),
    ("cross_attn.out", "encoder_attn.out_proj"),
    ("mlp_ln", "final_layer_norm"),
    ("mlp.0", "fc1"),
    ("mlp.2", "fc2"),
];

/// `config.json`.
pub(crate) fn config(file: &GgmlSpeech<'_>) -> Vec<u8> {
    let SpeechSizes {
        vocabulary,
        audio_positions,
        width,
        audio_heads,
        audio_layers,
        text_positions,
        text_heads,
        text_layers,
        bands,
    } = file.sizes;
    let ffn = |part: &str| {
        let name = format!("{part}.blocks.0.mlp.0.weight");
        let tensor = file.tensors.iter().find(|tensor| tensor.name == name);
        tensor.and_then(|tensor| tensor.shape.first().copied())
    };
    let config = json!({
        "architectures": [crate::speech::CLASS],
        "d_model": width, "num_mel_bins": bands, "vocab_size": vocabulary,
        "max_source_positions": audio_positions, "encoder_layers": audio_layers,
        "encoder_attention_heads": audio_heads, "encoder_ffn_dim": ffn("encoder"),
        "max_target_positions": text_positions, "decoder_layers": text_layers,
        "decoder_attention_heads": text_heads, "decoder_ffn_dim": ffn("decoder"),
    });
    config.to_string().into_bytes()
}

/// The tensors under the names of Hugging Face.
pub(crate) fn tensors<'a>(file: &GgmlSpeech<'a>) -> Vec<CheckpointTensor<'a>> {
    let mut tensors = file.tensors.clone();
    for tensor in &mut tensors {
        // Biases of convolutions are columns.
        if tensor.name.ends_with(".bias") && tensor.shape.last() == Some(&1) {
            tensor.shape.pop();
        }
        if let Some(name) = name(&tensor.name) {
            tensor.name = name.into();
        }
    }
    tensors
}

fn name(name: &str) -> Option<String> {
    let (part, rest) = name.split_once('.')?;
    if rest == "positional_embedding" {
        return Some(format!("model.{part}.embed_positions.weight"));
    }
    let (stem, suffix) = rest.rsplit_once('.')?;
    let stem = match stem {
        "token_embedding" => "embed_tokens".to_string(),
        "ln" | "ln_post" => "layer_norm".to_string(),
        stem => match stem.strip_prefix("blocks.") {
            None => stem.to_string(),
            Some(layer) => {
                let (number, inner) = layer.split_once('.')?;
                let found = LAYER.iter().find(|(from, _)| *from == inner)?;
                format!("layers.{number}.{}", found.1)
            }
        },
    };
    Some(format!("model.{part}.{stem}.{suffix}"))
}

/// `tokenizer.json`. The file has no merges: a word's number is its rank, so a word is merged from the two parts that
/// lower ranks leave of it.
pub(crate) fn tokenizer(file: &GgmlSpeech<'_>) -> Vec<u8> {
    let end: &[u8] = b"<|endoftext|>";
    let words: Vec<&[u8]> = match file.words.split_last() {
        Some((last, before)) if *last == end => before.to_vec(),
        _ => file.words.clone(),
    };
    let ranks: HashMap<&[u8], usize> = words.iter().enumerate().map(|(i, w)| (*w, i)).collect();
    let mut vocabulary = serde_json::Map::new();
    let mut merges = Vec::new();
    for (rank, word) in words.iter().enumerate() {
        vocabulary.insert(spelled(word), Value::from(rank));
        if let Some((left, right)) = parts(word, rank, &ranks) {
            merges.push(json!([spelled(left), spelled(right)]));
        }
    }
    let stamps = file.sizes.audio_positions as usize + 1;
    let specials = 2 + AFTER.len();
    let known = LANGUAGES.split_whitespace();
    let languages =
        (file.sizes.vocabulary as usize).saturating_sub(words.len() + specials + stamps);
    let names = ["endoftext", "startoftranscript"].into_iter();
    let names = names.chain(known.take(languages)).chain(AFTER);
    let added: Vec<Value> = names
        .zip(words.len()..)
        .map(|(name, id)| {
            json!({"id": id, "content": format!("<|{name}|>"), "special": true, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false})
        })
        .collect();
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges},
    });
    tokenizer.to_string().into_bytes()
}

/// The two parts that a word is merged from, if it is.
fn parts<'w>(
    word: &'w [u8],
    rank: usize,
    ranks: &HashMap<&[u8], usize>,
) -> Option<(&'w [u8], &'w [u8])> {
    let mut cuts: Vec<usize> = (0..=word.len()).collect();
    while cuts.len() > 3 {
        let best = cuts
            .windows(3)
            .enumerate()
            .filter_map(|(at, cut)| {
                let rank_of = ranks.get(&word[cut[0]..cut[2]])?;
                (*rank_of < rank).then_some((*rank_of, at + 1))
            })
            .min()?;
        cuts.remove(best.1);
    }
    match cuts[..] {
        [_, middle, _] => Some(word.split_at(middle)),
        _ => None,
    }
}

/// Bytes as byte-level vocabularies spell them: those that do not print are moved past 255.
fn spelled(bytes: &[u8]) -> String {
    let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let letter = |&byte: &u8| {
        if prints(byte) {
            return char::from(byte);
        }
        let moved = (0..byte).filter(|&other| !prints(other)).count() as u32;
        char::from_u32(256 + moved).unwrap_or('\u{fffd}')
    };
    bytes.iter().map(letter).collect()
}
