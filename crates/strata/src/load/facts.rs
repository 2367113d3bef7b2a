//! What a model's file tells clients about it.

use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::UNIX_EPOCH;
use strata_chat::ModelFacts;
use strata_chat::json::Json;
use strata_weights::{GgufSet, Value};

/// Longer lists are left out of the metadata: vocabularies have hundreds of thousands of entries.
const LONGEST_LIST: usize = 64;

/// How much of a model's metadata is told.
#[derive(Copy, Clone, PartialEq, Eq)]
pub enum Lists {
    /// Lists that are long are `null`.
    Short,
    /// Everything.
    All,
}

/// The facts of a model under a name.
pub fn facts(name: &str, path: &Path, model: &GgufSet<'_>, lists: Lists) -> ModelFacts {
    let file = std::fs::metadata(path).ok();
    let modified = file.as_ref().and_then(|file| file.modified().ok());
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let told = ModelFacts::of_file(name, model);
    ModelFacts {
        digest: digest(model),
        bytes: file.map_or(told.bytes, |file| file.len()),
        modified: modified.map_or(0, |time| time.as_secs()),
        quantization: quantization(model),
        modelfile: format!("FROM {}\n", path.display()),
        metadata: model
            .metadata()
            .iter()
            .map(|(key, value)| (key.to_owned(), json(value, lists)))
            .collect(),
        tensors: model
            .tensors()
            .iter()
            .map(|t| (t.name.to_owned(), t.ty.name().to_owned(), t.dims.to_vec()))
            .collect(),
        path: Some(path.display().to_string()),
        ..told
    }
}

/// SHA-256 of what the file says about itself: metadata, and its tensors' names, types and sizes. Reading gigabytes of
/// weights only to name a model would keep every start waiting.
fn digest(model: &GgufSet<'_>) -> String {
    let hash = described(model).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of what the file says about itself and of all its weights.
pub fn sha256(model: &GgufSet<'_>) -> [u8; 32] {
    let mut hash = described(model);
    for tensor in model.tensors() {
        hash.update(tensor.data);
    }
    hash.finalize().into()
}

/// A digest of a model's metadata and of its tensors' names, types and shapes: no weights are read.
pub(crate) fn outline(model: &GgufSet<'_>) -> [u8; 32] {
    described(model).finalize().into()
}

fn described(model: &GgufSet<'_>) -> Sha256 {
    let mut hash = Sha256::new();
    for (key, value) in model.metadata().iter() {
        hash.update(key);
        hash.update(match value {
            Value::Array(array) => array.raw().to_vec(),
            value => format!("{value:?}").into_bytes(),
        });
    }
    for tensor in model.tensors() {
        hash.update(tensor.name);
        hash.update(format!("{:?}{:?}", tensor.ty, tensor.dims));
    }
    hash
}

/// The file's own word for its mix of types, or the type of most of its weights.
fn quantization(model: &GgufSet<'_>) -> String {
    const MIXES: &[(u64, &str)] = &[
        (0, "F32"),
        (1, "F16"),
        (2, "Q4_0"),
        (3, "Q4_1"),
        (7, "Q8_0"),
        (8, "Q5_0"),
        (9, "Q5_1"),
        (10, "Q2_K"),
        (11, "Q3_K_S"),
        (12, "Q3_K_M"),
        (13, "Q3_K_L"),
        (14, "Q4_K_S"),
        (15, "Q4_K_M"),
        (16, "Q5_K_S"),
        (17, "Q5_K_M"),
        (18, "Q6_K"),
        (25, "IQ4_NL"),
        (30, "IQ4_XS"),
        (32, "BF16"),
    ];
    let mix = model.metadata().u64("general.file_type").ok().flatten();
    let named = mix.and_then(|mix| MIXES.iter().find(|(number, _)| *number == mix));
    if let Some((_, name)) = named {
        return (*name).to_owned();
    }
    let mut totals: Vec<(&str, u64)> = Vec::new();
    for tensor in model.tensors() {
        let (name, bytes) = (tensor.ty.name(), tensor.data.len() as u64);
        match totals.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += bytes,
            None => totals.push((name, bytes)),
        }
    }
    let most = totals.into_iter().max_by_key(|&(_, bytes)| bytes);
    most.map_or_else(|| "unknown".into(), |(name, _)| name.to_uppercase())
}

fn json(value: Value<'_>, lists: Lists) -> Json {
    match value {
        Value::Str(text) => text.into(),
        Value::Bool(truth) => truth.into(),
        Value::F32(number) => number.into(),
        Value::F64(number) => number.into(),
        Value::Array(array) if lists == Lists::Short && array.len() > LONGEST_LIST => Json::Null,
        Value::Array(array) => Json::array(array.iter().map(|item| json(item, lists))),
        value => match value.as_integer() {
            Some(number) => i64::try_from(number).map_or(Json::Null, Json::Int),
            None => Json::Null,
        },
    }
}
