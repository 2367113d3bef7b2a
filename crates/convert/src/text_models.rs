//! Text models inside of models that also see or hear, where the config names the text model itself.

use crate::minicpmv;
use alloc::string::String;
use serde_json::{Map, Value};

/// Classes that hold a text model of any family.
const HOLDERS: &[&str] = &[
    "Idefics3ForConditionalGeneration",
    "InternVLForConditionalGeneration",
    "LlavaForConditionalGeneration",
    "LlavaNextForConditionalGeneration",
    minicpmv::CLASS,
    "Qwen2AudioForConditionalGeneration",
    "SmolVLMForConditionalGeneration",
    "VoxtralForConditionalGeneration",
];

/// A text model's `model_type`, its class, and what transformers takes for sizes that its config leaves out.
struct TextModel {
    kind: &'static str,
    class: &'static str,
    ffn: u32,
    kv_heads: u32,
    positions: u32,
}

const ALL: &[TextModel] = &[
    TextModel {
        kind: "llama",
        class: "LlamaForCausalLM",
        ffn: 11008,
        kv_heads: 32,
        positions: 2048,
    },
    TextModel {
        kind: "mistral",
        class: "MistralForCausalLM",
        ffn: 14336,
        kv_heads: 8,
        positions: 131_072,
    },
    TextModel {
        kind: "qwen2",
        class: "Qwen2ForCausalLM",
        ffn: 22016,
        kv_heads: 32,
        positions: 32768,
    },
    TextModel {
        kind: "qwen3",
        class: "Qwen3ForCausalLM",
        ffn: 22016,
        kv_heads: 32,
        positions: 32768,
    },
];

/// The class of the text model in `map`, the config of a model of `class`, if that holds one; fills in what the config leaves
/// out.
pub(crate) fn inside(class: &str, map: &mut Map<String, Value>) -> Option<&'static str> {
    if !HOLDERS.contains(&class) {
        return None;
    }
    let kind = map.get("model_type").and_then(Value::as_str)?;
    let model = ALL.iter().find(|model| model.kind == kind)?;
    // A model whose width is known says the rest as well, but for keys that mean their absence.
    let whole = map.contains_key("hidden_size");
    let mut fill = |key: &str, value: Value| {
        map.entry(key).or_insert(value);
    };
    fill("max_position_embeddings", model.positions.into());
    fill("rms_norm_eps", 1e-6.into());
    if !whole {
        fill("num_key_value_heads", model.kv_heads.into());
        fill("hidden_size", 4096.into());
        fill("num_hidden_layers", 32.into());
        fill("num_attention_heads", 32.into());
        fill("intermediate_size", model.ffn.into());
    }
    Some(model.class)
}
