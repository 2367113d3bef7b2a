//! Whisper: its own tensors and keys, which no other converter writes (`docs/speech.md` has them).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde_json::Value;
use strata_quant::GgmlType;
use strata_tokenizer::vocabulary::Vocabulary;
use strata_weights::gguf::{Builder, Name};
use strata_weights::{CheckpointTensor, Gguf};

use crate::config::HfConfig;
use crate::error::ConvertError;
use crate::mix::ModelFacts;
use crate::names::{full_name, numbers};
use crate::plan::{Plan, PlannedTensor, own_mix};
use crate::recipe::Recipe;
use crate::row_order::RowOrder;
use crate::tensor_plan::{Edit, Make, View};

/// The class that is converted here.
pub(crate) const CLASS: &str = "WhisperForConditionalGeneration";

/// A name in the checkpoint, without `model.` and what it ends in, and the one in GGUF.
const RULES: &[(&str, &str)] = &[
    ("encoder.conv1", "enc.conv1"),
    ("encoder.conv2", "enc.conv2"),
    ("encoder.embed_positions", "enc.position_embd"),
    ("encoder.layer_norm", "enc.output_norm"),
    ("decoder.embed_tokens", "token_embd"),
    ("decoder.embed_positions", "dec.position_embd"),
    ("decoder.layer_norm", "dec.output_norm"),
];
/// The same for layers, after `encoder.layers.#.` or `decoder.layers.#.`.
const LAYER_RULES: &[(&str, &str)] = &[
    ("self_attn_layer_norm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.out_proj", "attn_o"),
    ("encoder_attn_layer_norm", "cross_attn_norm"),
    ("encoder_attn.q_proj", "cross_attn_q"),
    ("encoder_attn.k_proj", "cross_attn_k"),
    ("encoder_attn.v_proj", "cross_attn_v"),
    ("encoder_attn.out_proj", "cross_attn_o"),
    ("final_layer_norm", "ffn_norm"),
    ("fc1", "ffn_up"),
    ("fc2", "ffn_down"),
];

/// A name of the config, and the key that it becomes.
const SIZES: &[(&str, &str)] = &[
    ("d_model", "embedding_length"),
    ("num_mel_bins", "encoder.mel_bands"),
    ("max_source_positions", "encoder.context_length"),
    ("encoder_layers", "encoder.block_count"),
    ("encoder_attention_heads", "encoder.attention.head_count"),
    ("encoder_ffn_dim", "encoder.feed_forward_length"),
    ("max_target_positions", "decoder.context_length"),
    ("decoder_layers", "decoder.block_count"),
    ("decoder_attention_heads", "decoder.attention.head_count"),
    ("decoder_ffn_dim", "decoder.feed_forward_length"),
];

/// What a name becomes; `None` for the output matrix, which is the embedding once more.
fn gguf_name(name: &str) -> Result<Option<String>, ConvertError> {
    let inner = name.strip_prefix("model.").unwrap_or(name);
    if inner == "proj_out.weight" {
        return Ok(None);
    }
    let unknown = || ConvertError::UnknownTensor {
        tensor: Name::new(name),
        arch: "whisper",
    };
    let (stem, suffix) = inner.rsplit_once('.').ok_or_else(unknown)?;
    if let Some((_, to)) = RULES.iter().find(|(from, _)| *from == stem) {
        return Ok(Some(alloc::format!("{to}.{suffix}")));
    }
    for (part, short) in [("encoder", "enc"), ("decoder", "dec")] {
        for (from, to) in LAYER_RULES {
            let pattern = alloc::format!("{part}.layers.#.{from}");
            if let Some((layer, _)) = numbers(&pattern, stem) {
                let to = alloc::format!("{short}.blk.#.{to}.{suffix}");
                return Ok(full_name(&to, layer));
            }
        }
    }
    Err(unknown())
}

/// Writes sizes and the rules of decoding.
fn describe(builder: &mut Builder, config: &HfConfig) -> Result<(), ConvertError> {
    for &(from, to) in SIZES {
        let key = alloc::format!("whisper.{to}");
        builder.set(&key, config.required_u32(&[from])?)?;
    }
    if let Some((key, value)) = config.get(&["activation_function"])
        && value.as_str() != Some("gelu")
    {
        return Err(ConvertError::Unsupported {
            key,
            found: alloc::format!("{value}").into(),
        });
    }
    for key in ["suppress_tokens", "begin_suppress_tokens"] {
        let list = config.generation_value(key);
        let list = list.or_else(|| config.get(&[key]).map(|(_, value)| value));
        if let Some(list) = list.and_then(Value::as_array) {
            // −1 stands for a list that the program knows, which is the one that folders spell out.
            let tokens = list.iter().filter_map(Value::as_u64);
            let tokens = tokens.filter_map(|token| u32::try_from(token).ok());
            builder.set_array(&alloc::format!("whisper.{key}"), tokens.collect::<Vec<_>>())?;
        }
    }
    let multilingual = config.generation_value("is_multilingual");
    if let Some(multilingual) = multilingual.and_then(Value::as_bool) {
        builder.set("whisper.multilingual", multilingual)?;
    }
    if let Some(limit) = config.generation("max_initial_timestamp_index") {
        builder.set("whisper.first_stamp_limit", limit as u32)?;
    }
    let heads = config.generation_value("alignment_heads");
    if let Some(heads) = heads.and_then(Value::as_array) {
        let numbers = heads.iter().filter_map(Value::as_array).flatten();
        let numbers = numbers.filter_map(|n| u32::try_from(n.as_u64()?).ok());
        builder.set_array("whisper.alignment_heads", numbers.collect::<Vec<_>>())?;
    }
    Ok(())
}

impl<'t, 'a> Plan<'t, 'a> {
    /// Whisper's file.
    pub(crate) fn speech(
        config: &HfConfig,
        checkpoint: &'t [CheckpointTensor<'a>],
        vocabulary: Option<&Vocabulary>,
        recipe: &Recipe<'t>,
        name: Option<&str>,
    ) -> Result<Self, ConvertError> {
        let mut builder = Builder::new();
        builder.set("general.architecture", "whisper")?;
        builder.set("general.type", "model")?;
        if let Some(name) = name {
            builder.set("general.name", name)?;
        }
        recipe.describe(&mut builder)?;
        describe(&mut builder, config)?;
        if let Some(vocabulary) = vocabulary {
            vocabulary.write(&mut builder)?;
        }
        let metadata = builder.finish()?.header;
        let weighed = recipe.importance.is_some();
        let facts = ModelFacts::new(Gguf::parse(&metadata)?.metadata(), false, weighed);
        let mut tensors: Vec<PlannedTensor> = Vec::new();
        let own = own_mix(checkpoint);
        for (source, tensor) in checkpoint.iter().enumerate() {
            let Some(name) = gguf_name(&tensor.name)? else {
                continue;
            };
            if tensors.iter().any(|planned| planned.name == name) {
                return Err(ConvertError::DuplicateTensor { tensor: name });
            }
            let dims: Vec<u64> = tensor.shape.iter().rev().copied().collect();
            // Positions are added, and convolutions are small.
            let matrix = dims.len() == 2 && !name.contains("position_embd");
            let own = tensor.blocks().filter(|_| recipe.mix == own);
            let ty = match own {
                Some((ty, _)) if matrix => Some(ty),
                _ if matrix => recipe.choose(&facts, &name, &dims),
                _ => None,
            };
            tensors.push(PlannedTensor {
                name,
                ty: ty.unwrap_or(GgmlType::F32),
                dims,
                make: Make::Rows {
                    sources: vec![source],
                    view: View::AS_IS,
                    order: RowOrder::Same,
                    columns: RowOrder::Same,
                    edit: Edit::Nothing,
                },
            });
        }
        if tensors.is_empty() {
            return Err(ConvertError::NoTensors);
        }
        let names = tensors.iter().map(|tensor| &*tensor.name);
        recipe.check(names.zip(tensors.iter().map(|tensor| &*tensor.dims)))?;
        for tensor in &tensors {
            builder.tensor(&tensor.name, tensor.ty, &tensor.dims)?;
        }
        let layout = builder.finish()?;
        let mut plan = Self::of_parts(checkpoint, tensors, layout, metadata, recipe.mix);
        plan.importance = recipe.importance;
        Ok(plan)
    }
}
