//! The ears of a model that also hears, as a file of their own: Whisper's encoder and a projector, under the names and keys
//! of llama.cpp's converter.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};
use strata_weights::CheckpointTensor;
use strata_weights::gguf::{Builder, Name};

use crate::config::HfConfig;
use crate::error::ConvertError;
use crate::eyes::Rule;
use crate::mix::Mix;
use crate::names::{full_name, numbers};
use crate::plan::Plan;
use crate::ways::{Way, planned};

/// A class, and `clip.projector_type`.
const CLASSES: &[(&str, &str)] = &[
    ("Qwen2AudioForConditionalGeneration", "qwen2a"),
    ("UltravoxModel", "ultravox"),
    ("VoxtralForConditionalGeneration", "voxtral"),
];

/// Where a checkpoint's names belong to its ears.
const HEARING: &[&str] = &["audio_tower.", "multi_modal_projector."];

const RULES: &[Rule] = &[
    ("audio_tower.conv1", "a.conv1d.1", Way::Column),
    ("audio_tower.conv2", "a.conv1d.2", Way::Column),
    ("audio_tower.embed_positions", "a.position_embd", Way::Same),
    ("audio_tower.layer_norm", "a.post_ln", Way::Same),
    (
        "audio_tower.layers.#.self_attn_layer_norm",
        "a.blk.#.ln1",
        Way::Same,
    ),
    (
        "audio_tower.layers.#.self_attn.q_proj",
        "a.blk.#.attn_q",
        Way::Same,
    ),
    (
        "audio_tower.layers.#.self_attn.k_proj",
        "a.blk.#.attn_k",
        Way::Same,
    ),
    (
        "audio_tower.layers.#.self_attn.v_proj",
        "a.blk.#.attn_v",
        Way::Same,
    ),
    (
        "audio_tower.layers.#.self_attn.out_proj",
        "a.blk.#.attn_out",
        Way::Same,
    ),
    (
        "audio_tower.layers.#.final_layer_norm",
        "a.blk.#.ln2",
        Way::Same,
    ),
    ("audio_tower.layers.#.fc1", "a.blk.#.ffn_up", Way::Same),
    ("audio_tower.layers.#.fc2", "a.blk.#.ffn_down", Way::Same),
    ("multi_modal_projector.linear", "mm.a.fc", Way::Same),
    ("multi_modal_projector.linear_1", "mm.a.mlp.1", Way::Same),
    ("multi_modal_projector.linear_2", "mm.a.mlp.2", Way::Same),
    ("multi_modal_projector.ln_pre", "mm.a.norm_pre", Way::Same),
    ("multi_modal_projector.ln_mid", "mm.a.norm_mid", Way::Same),
];

/// What a name becomes; `None` for what is no part of the ears.
fn find(name: &str, projector: &'static str) -> Result<Option<(String, Way)>, ConvertError> {
    let short = name.strip_prefix("model.").unwrap_or(name);
    if !HEARING.iter().any(|prefix| short.starts_with(prefix)) {
        return Ok(None);
    }
    let unknown = || ConvertError::UnknownTensor {
        tensor: Name::new(name),
        arch: projector,
    };
    let (stem, end) = short.rsplit_once('.').ok_or_else(unknown)?;
    let found = RULES.iter().find_map(|&(from, to, way)| {
        let (layer, _) = numbers(from, stem)?;
        Some((full_name(to, layer)?, way))
    });
    match (found, end) {
        (Some((to, way)), "weight" | "bias") => Ok(Some((alloc::format!("{to}.{end}"), way))),
        _ => Err(unknown()),
    }
}

fn size(audio: &Map<String, Value>, keys: &[&'static str]) -> Result<u32, ConvertError> {
    let number = keys.iter().find_map(|key| audio.get(*key)?.as_u64());
    let key = keys.first().copied().unwrap_or_default();
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or(ConvertError::Missing { key })
}

impl<'t, 'a> Plan<'t, 'a> {
    /// The file of the ears of a model that also hears; `None` for one that does not, or whose ears are not known.
    pub(crate) fn ears(
        config: &HfConfig,
        checkpoint: &'t [CheckpointTensor<'a>],
        name: Option<&str>,
    ) -> Result<Option<Self>, ConvertError> {
        let kind = CLASSES.iter().find(|(class, _)| *class == config.class());
        let (Some(&(_, projector)), Some(audio)) = (kind, config.audio()) else {
            return Ok(None);
        };
        let mut tensors = Vec::new();
        for (source, tensor) in checkpoint.iter().enumerate() {
            let Some((name, way)) = find(&tensor.name, projector)? else {
                continue;
            };
            tensors.extend(planned(tensor, source, name, (way, 1))?);
        }
        if tensors.is_empty() {
            return Ok(None);
        }
        let output = tensors
            .iter()
            .find(|tensor| ["mm.a.fc.weight", "mm.a.mlp.2.weight"].contains(&&*tensor.name));
        let output = output.and_then(|tensor| tensor.dims.get(1)).copied();
        let width = size(audio, &["d_model", "hidden_size"])?;
        let inner = size(audio, &["encoder_ffn_dim", "intermediate_size"])?;
        let mut builder = Builder::new();
        builder.set("general.architecture", "clip")?;
        builder.set("general.type", "mmproj")?;
        if let Some(name) = name {
            builder.set("general.name", name)?;
        }
        builder.set("clip.has_audio_encoder", true)?;
        builder.set("clip.projector_type", projector)?;
        let mut set = |key: &str, number: u32| {
            let set = builder.set(&alloc::format!("clip.audio.{key}"), number);
            set.map(|_| ())
        };
        set("projection_dim", output.unwrap_or(0) as u32)?;
        set("embedding_length", width)?;
        set("feed_forward_length", inner)?;
        let layers = ["encoder_layers", "num_hidden_layers"];
        set("block_count", size(audio, &layers)?)?;
        let heads = ["encoder_attention_heads", "num_attention_heads"];
        set("attention.head_count", size(audio, &heads)?)?;
        set("num_mel_bins", size(audio, &["num_mel_bins"])?)?;
        match projector {
            // As many states as are as long as a network is wide.
            "voxtral" => set("projector.stack_factor", inner / width.max(1))?,
            "ultravox" => {
                let stack = config.required_u32(&["stack_factor"])?;
                set("projector.stack_factor", stack)?;
            }
            _ => {}
        }
        builder.set("clip.audio.attention.layer_norm_epsilon", 1e-5f32)?;
        let metadata = builder.finish()?.header;
        for tensor in &tensors {
            builder.tensor(&tensor.name, tensor.ty, &tensor.dims)?;
        }
        let layout = builder.finish()?;
        let mix = Mix::F16;
        Ok(Some(Self::of_parts(
            checkpoint, tensors, layout, metadata, mix,
        )))
    }
}
