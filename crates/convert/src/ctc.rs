//! Wav2Vec2 and HuBERT with CTC: tensors and keys of our own, which no other converter writes (`docs/speech.md` has them).
//!
//! Convolutions become matrices over rows that lie one after the other, and the convolution for positions, which
//! checkpoints have as directions and lengths, becomes what the two make.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::{Map, Value};
use strata_quant::GgmlType;
use strata_weights::gguf::{Builder, Name};
use strata_weights::{CheckpointTensor, Gguf};

use crate::config::HfConfig;
use crate::error::ConvertError;
use crate::mix::ModelFacts;
use crate::names::{full_name, numbers};
use crate::plan::{Plan, PlannedTensor};
use crate::recipe::Recipe;
use crate::row_order::RowOrder;
use crate::tensor_plan::{Edit, Make, View};

/// Classes, what their tensors' names begin with, and their architectures.
const CLASSES: [(&str, &str, &str); 2] = [
    ("Wav2Vec2ForCTC", "wav2vec2.", "wav2vec2"),
    ("HubertForCTC", "hubert.", "hubert"),
];

/// The files beside the weights that say what letters there are and how sound is read.
pub(crate) const FILES: [&str; 5] = [
    "vocab.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "preprocessor_config.json",
];

/// A name in the checkpoint, without what it ends in, and the one in GGUF.
const RULES: &[(&str, &str)] = &[
    ("feature_extractor.conv_layers.#.conv", "feat.conv.#"),
    ("feature_extractor.conv_layers.#.layer_norm", "feat.norm.#"),
    ("feature_projection.layer_norm", "feat.output_norm"),
    ("feature_projection.projection", "feat.output"),
    ("encoder.pos_conv_embed.conv", "position_conv"),
    ("encoder.layer_norm", "output_norm"),
    ("encoder.layers.#.attention.q_proj", "blk.#.attn_q"),
    ("encoder.layers.#.attention.k_proj", "blk.#.attn_k"),
    ("encoder.layers.#.attention.v_proj", "blk.#.attn_v"),
    ("encoder.layers.#.attention.out_proj", "blk.#.attn_output"),
    ("encoder.layers.#.layer_norm", "blk.#.attn_norm"),
    (
        "encoder.layers.#.feed_forward.intermediate_dense",
        "blk.#.ffn_up",
    ),
    (
        "encoder.layers.#.feed_forward.output_dense",
        "blk.#.ffn_down",
    ),
    ("encoder.layers.#.final_layer_norm", "blk.#.ffn_norm"),
    ("lm_head", "output"),
];

/// The convolution for positions: lengths and directions, under the names of either way to keep them.
const POSITION: &str = "encoder.pos_conv_embed.conv.";
const LENGTHS: [&str; 2] = ["weight_g", "parametrizations.weight.original0"];
const DIRECTIONS: [&str; 2] = ["weight_v", "parametrizations.weight.original1"];

/// A name of the config, and the key that it becomes.
const SIZES: &[(&str, &str)] = &[
    ("hidden_size", "embedding_length"),
    ("num_hidden_layers", "block_count"),
    ("num_attention_heads", "attention.head_count"),
    ("intermediate_size", "feed_forward_length"),
    ("num_conv_pos_embeddings", "position.kernel"),
    ("num_conv_pos_embedding_groups", "position.groups"),
];
const LISTS: &[(&str, &str)] = &[
    ("conv_dim", "feature_extractor.channels"),
    ("conv_kernel", "feature_extractor.kernels"),
    ("conv_stride", "feature_extractor.strides"),
];

/// Whether a class is converted here.
pub(crate) fn is_class(class: &str) -> bool {
    CLASSES.iter().any(|(known, ..)| *known == class)
}

fn unsupported(key: &'static str, value: &Value) -> ConvertError {
    ConvertError::Unsupported {
        key,
        found: value.to_string().into(),
    }
}

/// Refuses what a config may ask for beyond what is computed.
fn check(config: &HfConfig) -> Result<(), ConvertError> {
    for key in ["hidden_act", "feat_extract_activation"] {
        if let Some((key, value)) = config.get(&[key])
            && value.as_str() != Some("gelu")
        {
            return Err(unsupported(key, value));
        }
    }
    for key in ["add_adapter", "adapter_attn_dim", "conv_pos_batch_norm"] {
        if let Some((key, value)) = config.get(&[key])
            && *value != Value::Bool(false)
        {
            return Err(unsupported(key, value));
        }
    }
    Ok(())
}

/// Writes sizes.
fn describe(builder: &mut Builder, config: &HfConfig, arch: &str) -> Result<(), ConvertError> {
    for &(from, to) in SIZES {
        builder.set(&format!("{arch}.{to}"), config.required_u32(&[from])?)?;
    }
    for &(from, to) in LISTS {
        let sizes = config.numbers(from)?;
        if sizes.is_empty() {
            return Err(ConvertError::Missing { key: from });
        }
        let sizes = sizes.into_iter().map(|size| size as u32);
        builder.set_array(&format!("{arch}.{to}"), sizes)?;
    }
    let (key, norm) = config
        .get(&["feat_extract_norm"])
        .ok_or(ConvertError::Missing {
            key: "feat_extract_norm",
        })?;
    let norm = match norm.as_str() {
        Some(norm @ ("group" | "layer")) => norm,
        _ => return Err(unsupported(key, norm)),
    };
    builder.set(&format!("{arch}.feature_extractor.norm"), norm)?;
    let first = config.bool(&["do_stable_layer_norm"])?.unwrap_or(false);
    builder.set(&format!("{arch}.norm_first"), first)?;
    let epsilon = config.f32(&["layer_norm_eps"])?.unwrap_or(1e-5);
    builder.set(&format!("{arch}.attention.layer_norm_epsilon"), epsilon)?;
    let beside = config.beside("preprocessor_config.json");
    let said = |key: &str| beside.and_then(|map| map.get(key));
    if let Some(rate) = said("sampling_rate")
        && rate.as_u64() != Some(16_000)
    {
        return Err(unsupported("sampling_rate", rate));
    }
    let normalizes = said("do_normalize").and_then(Value::as_bool);
    builder.set(&format!("{arch}.normalize"), normalizes.unwrap_or(true))?;
    Ok(())
}

/// The text of a token, as a string or with what else is said of it.
fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// What the tokenizer's files say about letters.
struct Letters<'c> {
    config: &'c HfConfig,
}

impl Letters<'_> {
    fn special(&self, key: &str, usual: &str) -> String {
        let files = ["tokenizer_config.json", "special_tokens_map.json"];
        let found = files
            .iter()
            .find_map(|file| token_text(self.config.beside(file)?.get(key)?));
        found.unwrap_or(usual).to_string()
    }

    /// All letters by number.
    fn tokens(&self, count: usize) -> Result<Vec<String>, ConvertError> {
        let damaged = |reason: &str| ConvertError::Letters {
            reason: reason.into(),
        };
        let list = self.config.beside("vocab.json");
        let list = list.ok_or_else(|| damaged("there is none"))?;
        let mut by_number = BTreeMap::new();
        let mut add = |list: &Map<String, Value>| -> Result<(), ConvertError> {
            for (text, number) in list {
                let number = number.as_u64().ok_or_else(|| {
                    damaged("it has a list for each of several languages, or no numbers")
                })?;
                by_number.insert(number, text.clone());
            }
            Ok(())
        };
        add(list)?;
        if let Some(added) = self.config.beside("added_tokens.json") {
            add(added)?;
        }
        let settings = self.config.beside("tokenizer_config.json");
        let added = settings.and_then(|map| map.get("added_tokens_decoder")?.as_object());
        for (number, token) in added.into_iter().flatten() {
            if let (Ok(number), Some(text)) = (number.parse(), token_text(token)) {
                by_number.insert(number, text.to_string());
            }
        }
        let unknown = self.special("unk_token", "<unk>");
        let token = |number| by_number.get(&number).unwrap_or(&unknown).clone();
        Ok((0..count as u64).map(token).collect())
    }

    fn write(&self, builder: &mut Builder, arch: &str, count: usize) -> Result<(), ConvertError> {
        let tokens = self.tokens(count)?;
        let place = |text: &str| tokens.iter().position(|token| token == text);
        let blank = self.special("pad_token", "<pad>");
        let blank = place(&blank).ok_or_else(|| ConvertError::Letters {
            reason: format!("it has no {blank:?}, which stands for none").into(),
        })?;
        let delimiter = place(&self.special("word_delimiter_token", "|"));
        let settings = self.config.beside("tokenizer_config.json");
        let lower = settings.and_then(|map| map.get("do_lower_case")?.as_bool());
        builder.set("tokenizer.ggml.model", "ctc")?;
        builder.set_array("tokenizer.ggml.tokens", tokens.iter().map(String::as_str))?;
        builder.set("tokenizer.ggml.padding_token_id", blank as u32)?;
        if let Some(delimiter) = delimiter {
            builder.set(&format!("{arch}.word_delimiter"), delimiter as u32)?;
        }
        builder.set(&format!("{arch}.lower_case"), lower.unwrap_or(false))?;
        Ok(())
    }
}

/// All elements of a tensor.
fn elements(tensor: &CheckpointTensor<'_>) -> Result<Vec<f32>, ConvertError> {
    let rows = tensor.rows()?;
    let mut values = vec![0.0; rows.len() * rows.columns()];
    for (row, out) in values.chunks_exact_mut(rows.columns()).enumerate() {
        rows.read(row, out).ok_or_else(|| ConvertError::Shape {
            tensor: Name::new(&tensor.name),
        })?;
    }
    Ok(values)
}

/// A convolution, (out, in, taps), as a matrix over whole rows: (out, taps, in). Gives the length of its rows too.
fn by_taps(
    tensor: &CheckpointTensor<'_>,
    factors: Option<&[f32]>,
) -> Result<(Vec<f32>, [u64; 2]), ConvertError> {
    let &[rows, inner, taps] = &tensor.shape[..] else {
        return Err(ConvertError::Shape {
            tensor: Name::new(&tensor.name),
        });
    };
    let from = elements(tensor)?;
    let mut out = vec![0.0; from.len()];
    let (inner_len, taps_len) = (inner as usize, taps as usize);
    let items = from.chunks_exact(inner_len * taps_len);
    for (from, out) in items.zip(out.chunks_exact_mut(inner_len * taps_len)) {
        for (place, &value) in from.iter().enumerate() {
            let (channel, tap) = (place / taps_len, place % taps_len);
            let factor = factors.map_or(1.0, |factors| factors[tap]);
            out[tap * inner_len + channel] = value * factor;
        }
    }
    Ok((out, [inner * taps, rows]))
}

/// What directions are multiplied by, tap by tap, to have these lengths.
fn factors(
    lengths: &CheckpointTensor<'_>,
    directions: &CheckpointTensor<'_>,
) -> Result<Vec<f32>, ConvertError> {
    let lengths_of = elements(lengths)?;
    let taps = directions.shape.last().map_or(0, |&taps| taps as usize);
    if taps == 0 || lengths_of.len() != taps {
        return Err(ConvertError::Shape {
            tensor: Name::new(&lengths.name),
        });
    }
    let mut squares = vec![0.0f64; taps];
    for row in elements(directions)?.chunks_exact(taps) {
        for (square, &value) in squares.iter_mut().zip(row) {
            *square += f64::from(value) * f64::from(value);
        }
    }
    let pairs = lengths_of.iter().zip(squares);
    Ok(pairs
        .map(|(&length, square)| (f64::from(length) / libm::sqrt(square)) as f32)
        .collect())
}

/// What a name becomes; `None` for what is only trained with.
fn gguf_name(name: &str, prefix: &str, arch: &'static str) -> Result<Option<String>, ConvertError> {
    let inner = name.strip_prefix(prefix).unwrap_or(name);
    if inner == "masked_spec_embed" {
        return Ok(None);
    }
    let unknown = || ConvertError::UnknownTensor {
        tensor: Name::new(name),
        arch,
    };
    let (stem, suffix) = inner.rsplit_once('.').ok_or_else(unknown)?;
    let found = RULES.iter().find_map(|(from, to)| {
        let (layer, _) = numbers(from, stem)?;
        full_name(to, layer)
    });
    let found = found.ok_or_else(unknown)?;
    Ok(Some(format!("{found}.{suffix}")))
}

/// One tensor of the file, which is made of values that have been read.
fn of_values(name: String, dims: Vec<u64>, values: Vec<f32>) -> PlannedTensor {
    PlannedTensor {
        name,
        ty: GgmlType::F32,
        dims,
        make: Make::Values(values),
    }
}

/// The convolution for positions, if this is the tensor of its directions, or of itself.
fn position(
    checkpoint: &[CheckpointTensor<'_>],
    (tensor, part): (&CheckpointTensor<'_>, &str),
    groups: u32,
) -> Result<PlannedTensor, ConvertError> {
    let lengths = DIRECTIONS
        .iter()
        .position(|directions| *directions == part)
        .map(|way| {
            let stem = tensor.name.strip_suffix(part).unwrap_or_default();
            let name = format!("{stem}{}", LENGTHS[way]);
            let found = checkpoint.iter().find(|tensor| *tensor.name == *name);
            found.ok_or(ConvertError::MissingItem {
                tensor: name,
                item: 0,
            })
        })
        .transpose()?;
    let factors = lengths
        .map(|lengths| factors(lengths, tensor))
        .transpose()?;
    let (values, [columns, rows]) = by_taps(tensor, factors.as_deref())?;
    let groups = u64::from(groups.max(1));
    if !rows.is_multiple_of(groups) {
        return Err(ConvertError::Shape {
            tensor: Name::new(&tensor.name),
        });
    }
    let dims = vec![columns, rows / groups, groups];
    Ok(of_values("position_conv.weight".into(), dims, values))
}

/// The tensors of the file.
fn tensors(
    config: &HfConfig,
    checkpoint: &[CheckpointTensor<'_>],
    (prefix, arch): (&str, &'static str),
    choose: impl Fn(&str, &[u64]) -> Option<GgmlType>,
) -> Result<Vec<PlannedTensor>, ConvertError> {
    let groups = config.required_u32(&["num_conv_pos_embedding_groups"])?;
    let mut tensors: Vec<PlannedTensor> = Vec::new();
    for (source, tensor) in checkpoint.iter().enumerate() {
        let inner = tensor.name.strip_prefix(prefix).unwrap_or(&tensor.name);
        let planned = match inner.strip_prefix(POSITION) {
            Some(part) if LENGTHS.contains(&part) => continue,
            Some(part) if part == "weight" || DIRECTIONS.contains(&part) => {
                position(checkpoint, (tensor, part), groups)?
            }
            _ => {
                let Some(name) = gguf_name(&tensor.name, prefix, arch)? else {
                    continue;
                };
                if name.starts_with("feat.conv.") && name.ends_with(".weight") {
                    let (values, dims) = by_taps(tensor, None)?;
                    of_values(name, dims.to_vec(), values)
                } else {
                    let dims: Vec<u64> = tensor.shape.iter().rev().copied().collect();
                    let matrix = dims.len() == 2;
                    let ty = matrix.then(|| choose(&name, &dims)).flatten();
                    let make = Make::Rows {
                        sources: vec![source],
                        view: View::AS_IS,
                        order: RowOrder::Same,
                        columns: RowOrder::Same,
                        edit: Edit::Nothing,
                    };
                    PlannedTensor {
                        name,
                        ty: ty.unwrap_or(GgmlType::F32),
                        dims,
                        make,
                    }
                }
            }
        };
        if tensors.iter().any(|other| other.name == planned.name) {
            return Err(ConvertError::DuplicateTensor {
                tensor: planned.name,
            });
        }
        tensors.push(planned);
    }
    if tensors.is_empty() {
        return Err(ConvertError::NoTensors);
    }
    Ok(tensors)
}

impl<'t, 'a> Plan<'t, 'a> {
    /// The file of a model with CTC.
    pub(crate) fn ctc(
        config: &HfConfig,
        checkpoint: &'t [CheckpointTensor<'a>],
        recipe: &Recipe<'t>,
        name: Option<&str>,
    ) -> Result<Self, ConvertError> {
        let found = CLASSES.iter().find(|(class, ..)| *class == config.class());
        let &(_, prefix, arch) = found.ok_or_else(|| ConvertError::Class {
            name: Name::new(config.class()),
        })?;
        check(config)?;
        let mut builder = Builder::new();
        builder.set("general.architecture", arch)?;
        builder.set("general.type", "model")?;
        if let Some(name) = name {
            builder.set("general.name", name)?;
        }
        recipe.describe(&mut builder)?;
        describe(&mut builder, config, arch)?;
        let output = checkpoint.iter().find(|t| *t.name == *"lm_head.weight");
        let letters = output.and_then(|tensor| tensor.shape.first()).copied();
        let letters = letters.ok_or(ConvertError::MissingItem {
            tensor: "lm_head.weight".into(),
            item: 0,
        })?;
        // No list of letters is longer, whatever a file claims.
        let letters = usize::try_from(letters).unwrap_or(usize::MAX).min(1 << 20);
        Letters { config }.write(&mut builder, arch, letters)?;
        let metadata = builder.finish()?.header;
        let weighed = recipe.importance.is_some();
        let facts = ModelFacts::new(Gguf::parse(&metadata)?.metadata(), true, weighed);
        let tensors = tensors(config, checkpoint, (prefix, arch), |name, dims| {
            recipe.choose(&facts, name, dims)
        })?;
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
