//! The targets.

mod checkpoints;
mod data;
mod dialects;
mod disks;
mod grammars;
mod machine;
mod peers;
mod pictures;
mod sounds;
mod store;
mod templates;
mod tokenizers;
mod weights;

use crate::Target;

/// All of them.
pub const ALL: &[Target] = &[
    weights::GGUF,
    weights::MODEL,
    weights::IMPORTANCE,
    checkpoints::SAFETENSORS,
    checkpoints::ZIP,
    checkpoints::PICKLE,
    checkpoints::CONFIG,
    tokenizers::TOKENIZER,
    tokenizers::TOKENIZER_JSON,
    tokenizers::SENTENCEPIECE,
    templates::JINJA,
    templates::GO,
    grammars::GBNF,
    grammars::JSON_SCHEMA,
    grammars::REGEX,
    grammars::LARK,
    dialects::OPENAI,
    dialects::ANTHROPIC,
    dialects::OLLAMA,
    dialects::LLAMA_SERVER,
    dialects::HTTP,
    store::MODELFILE,
    store::MANIFEST,
    store::NAME,
    machine::SETTINGS,
    machine::BOOT,
    peers::PEERS,
    data::DATA,
    disks::DISK,
    disks::IMAGE,
    pictures::PNG,
    pictures::JPEG,
    pictures::WEBP,
    pictures::GIF,
    pictures::BMP,
    pictures::PROJECTOR,
    sounds::WAV,
    sounds::FLAC,
    sounds::MP3,
    sounds::OGG,
    sounds::SPEECH,
];

/// Words of JSON and of the schemas and requests that are written in it.
const JSON_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "false",
    "\\u0000",
    "\\ud800",
    "{}",
    "[]",
    "\"\"",
    "1e308",
    "-0.0",
    "\"type\":",
];
