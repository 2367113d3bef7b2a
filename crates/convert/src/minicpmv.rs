//! MiniCPM-V (<https://arxiv.org/abs/2408.01800>), whose config is that of its text model, with the eyes' beside it, and says by
//! a version which text model that is.

use alloc::string::{String, ToString};

use serde_json::{Map, Value};
use strata_weights::gguf::Builder;

use crate::config::{HfConfig, bad};
use crate::error::ConvertError;
use crate::eyes::Rule;
use crate::ways::Way;

/// The class of all releases.
pub(crate) const CLASS: &str = "MiniCPMV";

/// Releases: `version`, llama.cpp's number, and the `model_type` of the text model.
const RELEASES: &[(&str, i32, &str)] = &[("2.5", 2, "llama"), ("2.6", 3, "qwen2")];

/// The queries and what they look through, with the whole of their names.
pub(crate) const RESAMPLER: &[Rule] = &[
    ("resampler.query", "resampler.query", Way::Same),
    ("resampler.kv_proj", "resampler.kv", Way::Same),
    (
        "resampler.attn.in_proj_weight",
        "resampler.attn.@.weight",
        Way::Thirds,
    ),
    (
        "resampler.attn.in_proj_bias",
        "resampler.attn.@.bias",
        Way::Thirds,
    ),
    ("resampler.attn.out_proj", "resampler.attn.out", Way::Same),
    ("resampler.ln_q", "resampler.ln_q", Way::Same),
    ("resampler.ln_kv", "resampler.ln_kv", Way::Same),
    ("resampler.ln_post", "resampler.ln_post", Way::Same),
    ("resampler.proj", "resampler.proj.weight", Way::Turned),
];

fn release(version: Option<&Value>) -> Result<(i32, &'static str), ConvertError> {
    let version = version.ok_or(ConvertError::Missing { key: "version" })?;
    // A number, or a text.
    let text = version
        .as_str()
        .map_or_else(|| version.to_string(), str::to_string);
    let found = RELEASES.iter().find(|(version, ..)| *version == text);
    found
        .map(|&(_, number, text)| (number, text))
        .ok_or_else(|| bad("version", version))
}

/// Says which text model the config describes.
pub(crate) fn name_text_model(map: &mut Map<String, Value>) -> Result<(), ConvertError> {
    let (_, text) = release(map.get("version"))?;
    map.insert("model_type".into(), text.into());
    Ok(())
}

/// Writes how many queries there are, and how images are cut.
pub(crate) fn describe(builder: &mut Builder, config: &HfConfig) -> Result<(), ConvertError> {
    let version = config.get(&["version"]).map(|(_, value)| value);
    builder.set("clip.minicpmv_version", release(version)?.0)?;
    if let Some(queries) = config.u32(&["query_num"])? {
        builder.set("clip.minicpmv_query_num", queries)?;
    }
    let slices = config.get(&["slice_config"]);
    let most = slices.and_then(|(_, slices)| slices.get("max_slice_nums"));
    let most = most.and_then(Value::as_u64).map(u32::try_from);
    if let Some(Ok(most)) = most {
        builder.set("clip.vision.preproc_max_tiles", most)?;
    }
    Ok(())
}
