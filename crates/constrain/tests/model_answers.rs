//! Answers of a model with random weights, drawn by the engine at temperature 1: each parses and validates with
//! somebody else's validator.

use crate::support::{BYTE_LEVEL, Random, Validator};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use strata_constrain::Grammar;
use strata_engine::sampling::SamplerSettings;
use strata_engine::{EngineOptions, EventKind, FinishReason, Request, RequestId};
use strata_model::KvType;
use strata_weights::GgmlType;
use strata_weights::gguf::Builder;

const WIDTH: u64 = 32;
const INNER: u64 = 48;
const CONTEXT: usize = 1500;

/// A llama of one layer for so many tokens, whose weights are noise.
fn noise(vocabulary: u64) -> Vec<u8> {
    let mut builder = Builder::new();
    builder.set("general.architecture", "llama").unwrap();
    for (key, value) in [
        ("context_length", CONTEXT as u32),
        ("embedding_length", WIDTH as u32),
        ("block_count", 1),
        ("feed_forward_length", INNER as u32),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("vocab_size", vocabulary as u32),
    ] {
        builder.set(&format!("llama.{key}"), value).unwrap();
    }
    let epsilon = "llama.attention.layer_norm_rms_epsilon";
    builder.set(epsilon, 1e-5f32).unwrap();
    let tensors: [(&str, &[u64]); 11] = [
        ("token_embd.weight", &[WIDTH, vocabulary]),
        ("output_norm.weight", &[WIDTH]),
        ("blk.0.attn_norm.weight", &[WIDTH]),
        ("blk.0.attn_q.weight", &[WIDTH, WIDTH]),
        ("blk.0.attn_k.weight", &[WIDTH, WIDTH / 2]),
        ("blk.0.attn_v.weight", &[WIDTH, WIDTH / 2]),
        ("blk.0.attn_output.weight", &[WIDTH, WIDTH]),
        ("blk.0.ffn_norm.weight", &[WIDTH]),
        ("blk.0.ffn_gate.weight", &[WIDTH, INNER]),
        ("blk.0.ffn_up.weight", &[WIDTH, INNER]),
        ("blk.0.ffn_down.weight", &[INNER, WIDTH]),
    ];
    for (name, dims) in tensors {
        builder.tensor(name, GgmlType::F32, dims).unwrap();
    }
    let layout = builder.finish().unwrap();
    let mut file = layout.header.clone();
    let mut random = Random(3);
    for ((_, dims), extent) in tensors.iter().zip(&layout.tensors) {
        let start = file.len();
        for _ in 0..dims.iter().product::<u64>() {
            let unit = random.below(1 << 20) as f32 / (1 << 20) as f32;
            file.extend(((unit - 0.5) * 0.7).to_le_bytes());
        }
        assert_eq!((file.len() - start) as u64, extent.len);
        file.resize(start + extent.padded_len as usize, 0);
    }
    file
}

/// Schemas whose every answer is short: a model that knows nothing has no reason to come to an end.
fn schemas() -> Vec<(&'static str, Value)> {
    let text = json!({"type": "string", "maxLength": 8});
    let object = |properties: Value| {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        })
    };
    vec![
        (
            "nested",
            object(json!({
                "name": text,
                "home": object(json!({"street": text, "place": object(json!({"zip": {"type": "integer", "minimum": 0, "maximum": 99999}}))})),
                "alive": {"type": "boolean"},
            })),
        ),
        (
            "arrays",
            json!({
                "type": "array", "minItems": 1, "maxItems": 3,
                "items": {"type": "array", "minItems": 2, "maxItems": 4, "items": {"type": "integer", "minimum": -9, "maximum": 9}}
            }),
        ),
        (
            "enums",
            json!({"enum": ["red", "green \"blue\"", 5, null, true, [1, "x"], {"a": 1.5}]}),
        ),
        (
            "references",
            json!({
                "$defs": {
                    "leaf": object(json!({"value": {"type": "integer", "minimum": 0, "maximum": 99}})),
                    "pair": object(json!({"left": {"$ref": "#/$defs/leaf"}, "right": {"$ref": "#/$defs/leaf"}}))
                },
                "$ref": "#/$defs/pair"
            }),
        ),
        (
            "unions",
            json!({
                "anyOf": [
                    {"type": "string", "minLength": 2, "maxLength": 4},
                    object(json!({"a": {"type": "integer", "minimum": 3, "maximum": 7}})),
                    {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2}
                ]
            }),
        ),
        (
            "patterns",
            object(
                json!({"id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}(/[a-f]{1,3})?$"}}),
            ),
        ),
        (
            "integers",
            json!({"type": "integer", "minimum": -37, "exclusiveMaximum": 1234}),
        ),
        (
            "numbers",
            json!({"type": "array", "minItems": 3, "maxItems": 3, "items": {"type": "number", "minimum": -0.75, "maximum": 12.5}}),
        ),
        (
            "formats",
            object(
                json!({"day": {"type": "string", "format": "date"}, "id": {"type": "string", "format": "uuid"}}),
            ),
        ),
    ]
}

#[test]
fn what_a_model_of_noise_answers_validates() {
    const SEEDS: u64 = 4;
    let file = noise(BYTE_LEVEL.tokenizer.vocab_size() as u64);
    let options = EngineOptions {
        context: CONTEXT,
        requests: 12,
        ..EngineOptions::default()
    };
    let mut engine = BYTE_LEVEL.engine(&file, (KvType::F32, 12 * CONTEXT), options);
    let schemas = schemas();
    let mut asked = BTreeMap::<RequestId, (usize, u64)>::new();
    for (at, (name, schema)) in schemas.iter().enumerate() {
        let grammar = Grammar::JsonSchema(schema.to_string());
        for seed in 0..SEEDS {
            let matcher = BYTE_LEVEL
                .compile(&grammar)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let request = Request {
                prompt: vec![300 + seed as u32, 17],
                sampling: SamplerSettings {
                    seed,
                    ..SamplerSettings::default()
                },
                constraint: Some(Box::new(matcher)),
                ..Request::default()
            };
            assert_eq!(request.sampling.temperature, 1.0);
            asked.insert(engine.submit(request).unwrap(), (at, seed));
        }
    }
    let mut answers = BTreeMap::<RequestId, (String, Option<FinishReason>)>::new();
    while !engine.is_idle() {
        engine.step(&mut |event| {
            let (answer, end) = answers.entry(event.request).or_default();
            match event.kind {
                EventKind::Token { text, .. } => answer.push_str(&text),
                EventKind::Finished { text, reason, .. } => {
                    answer.push_str(&text);
                    *end = Some(reason);
                }
                EventKind::Failed(error) => panic!("{:?}: {error}", asked[&event.request]),
                _ => {}
            }
        });
    }
    let mut different = std::collections::BTreeSet::new();
    for (id, (at, seed)) in &asked {
        let (name, schema) = &schemas[*at];
        let (text, end) = &answers[id];
        let what = format!("{name}, seed {seed}: {text}");
        let ended = matches!(
            end,
            Some(FinishReason::Complete | FinishReason::EndOfTurn(_))
        );
        assert!(ended, "{end:?} for {what}");
        let value: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} for {what}"));
        let validator = Validator::new(schema);
        if let Err(error) = validator.validate(&value) {
            panic!("{error} for {what}");
        }
        different.insert(text);
    }
    assert!(
        different.len() > 25,
        "{} different answers",
        different.len()
    );
}
