//! LoRA adapters as PEFT saves them (<https://huggingface.co/docs/peft/developer_guides/checkpoint>): an
//! `adapter_config.json`, and pairs of matrices under a checkpoint's names, as GGUF names and orders them.
//!
//! `base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight` becomes `blk.3.attn_q.weight.lora_a`. The rows of
//! the second matrix are those of the matrix that it changes, so they are moved like that one's.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::{Map, Value};
use strata_weights::gguf::Name;
use strata_weights::{CheckpointTensor, ReadError};

use crate::config::quoted;
use crate::family::{self, Change, Family, Order};
use crate::names::{self, Known};
use crate::row_order::{HeadCounts, RowOrder};

/// The most bytes of an `adapter_config.json`; usual ones have a thousand.
const MAX_LEN: usize = 1 << 20;

/// What PEFT puts in front of the names.
const PREFIX: &str = "base_model.model.";

/// Why an adapter cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum LoraError {
    #[error("adapter_config.json is not the JSON that was expected: {reason}")]
    Json { reason: Box<str> },
    #[error("adapter_config.json has {len} bytes; at most {limit} are read")]
    TooLong { len: usize, limit: usize },
    #[error("adapter_config.json has no {key}")]
    Missing { key: &'static str },
    #[error("adapter_config.json has a {key} of {found}, which cannot be used")]
    Value { key: &'static str, found: Box<str> },
    #[error("adapter_config.json asks for a {key} of {found}, which is not supported")]
    Unsupported { key: &'static str, found: Box<str> },
    #[error("adapters of the architecture {arch} cannot be read in this format")]
    Arch { arch: Name },
    #[error("the tensor {tensor} is neither a lora_A nor a lora_B")]
    Half { tensor: Name },
    #[error("the tensor {tensor} changes a tensor that the architecture {arch} does not have")]
    UnknownTensor { tensor: Name, arch: &'static str },
    #[error("the tensor {tensor} changes one of several experts, which adapters cannot")]
    Expert { tensor: Name },
    #[error("the tensor {tensor} has the shape {shape:?}, which does not fit the model's heads")]
    Shape { tensor: Name, shape: Vec<u64> },
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The model that an adapter is for.
#[derive(Copy, Clone, Debug)]
pub struct LoraBase<'b> {
    /// `general.architecture`.
    pub arch: &'b str,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
}

/// A matrix of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraTensor {
    /// The changed tensor's name in GGUF, and `.lora_a` or `.lora_b`.
    pub name: String,
    /// The innermost first.
    pub dims: Vec<u64>,
    /// Floats of 32 bits, little-endian.
    pub data: Vec<u8>,
}

/// An adapter, as GGUF would hold it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    /// What the product of two matrices is multiplied by, times their rank.
    pub alpha: f32,
    /// The matrices.
    pub tensors: Vec<LoraTensor>,
}

impl Lora {
    /// Reads what PEFT saved, for a model.
    pub fn read(
        config: &[u8],
        checkpoint: &[CheckpointTensor<'_>],
        base: LoraBase<'_>,
    ) -> Result<Self, LoraError> {
        let alpha = alpha(config)?;
        let decoders = family::ALL.iter();
        let family = decoders
            .into_iter()
            .find(|family| family.arch == base.arch && family.reading == family::Reading::Forward)
            .ok_or_else(|| LoraError::Arch {
                arch: Name::new(base.arch),
            })?;
        let heads = HeadCounts {
            queries: base.heads,
            keys: base.kv_heads,
            ..HeadCounts::default()
        };
        let tensors = checkpoint
            .iter()
            .map(|tensor| LoraTensor::read(tensor, family, heads))
            .collect::<Result<_, _>>()?;
        Ok(Self { alpha, tensors })
    }
}

/// What the config says of strength. Everything in it that would change results otherwise is refused.
fn alpha(config: &[u8]) -> Result<f32, LoraError> {
    if config.len() > MAX_LEN {
        return Err(LoraError::TooLong {
            len: config.len(),
            limit: MAX_LEN,
        });
    }
    let config: Map<String, Value> =
        serde_json::from_slice(config).map_err(|error| LoraError::Json {
            reason: error.to_string().into(),
        })?;
    check(&config)?;
    let number = |key: &'static str| -> Result<f32, LoraError> {
        let value = config.get(key).ok_or(LoraError::Missing { key })?;
        let number = value.as_f64().map(|number| number as f32);
        let positive = |number: &f32| number.is_finite() && *number > 0.0;
        number.filter(positive).ok_or_else(|| LoraError::Value {
            key,
            found: quoted(value),
        })
    };
    let (rank, alpha) = (number("r")?, number("lora_alpha")?);
    let stabilized = config
        .get("use_rslora")
        .is_some_and(|value| !is_unset(value));
    if !stabilized {
        return Ok(alpha);
    }
    // The strength is then alpha over the root of the rank, which must be one rank.
    if let Some(ranks) = config.get("rank_pattern").filter(|value| !is_unset(value)) {
        return Err(LoraError::Unsupported {
            key: "rank_pattern with use_rslora",
            found: quoted(ranks),
        });
    }
    Ok(alpha * libm::sqrtf(rank))
}

/// Settings that must be absent, false or empty: each makes of the matrices something else than W + scale · B·A.
const UNSET: &[&str] = &[
    "use_dora",
    "modules_to_save",
    "lora_bias",
    "alpha_pattern",
    "layer_replication",
    "target_parameters",
    "trainable_token_indices",
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
    "velora_config",
    "use_bdlora",
    "use_qalora",
];

/// Beginnings of training that leave the model as it is. Others take the matrices out of it first, so that an adapter
/// does not go with the published model.
const BEGINNINGS: &[&str] = &["gaussian", "eva", "orthogonal"];

fn check(config: &Map<String, Value>) -> Result<(), LoraError> {
    let refuse = |key: &'static str, value: &Value| {
        Err(LoraError::Unsupported {
            key,
            found: quoted(value),
        })
    };
    let key = "peft_type";
    match config.get(key) {
        None => return Err(LoraError::Missing { key }),
        Some(value) if value.as_str() != Some("LORA") => return refuse(key, value),
        Some(_) => {}
    }
    for &key in UNSET {
        if let Some(value) = config.get(key).filter(|value| !is_unset(value)) {
            return refuse(key, value);
        }
    }
    if let Some(value) = config.get("bias")
        && !is_unset(value)
        && value.as_str() != Some("none")
    {
        return refuse("bias", value);
    }
    if let Some(value) = config.get("init_lora_weights")
        && let Some(beginning) = value.as_str()
        && !BEGINNINGS.contains(&beginning)
    {
        return refuse("init_lora_weights", value);
    }
    Ok(())
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Which of the two matrices.
#[derive(Copy, Clone, PartialEq)]
enum Half {
    A,
    B,
}

impl LoraTensor {
    fn read(
        tensor: &CheckpointTensor<'_>,
        family: &'static Family,
        heads: HeadCounts,
    ) -> Result<Self, LoraError> {
        let name = || Name::new(&tensor.name);
        let plain = tensor.name.strip_prefix(PREFIX).unwrap_or(&tensor.name);
        let halves = [(".lora_A.weight", Half::A), (".lora_B.weight", Half::B)];
        let (stem, half) = halves
            .iter()
            .find_map(|&(suffix, half)| Some((plain.strip_suffix(suffix)?, half)))
            .ok_or_else(|| LoraError::Half { tensor: name() })?;
        let unknown = || LoraError::UnknownTensor {
            tensor: name(),
            arch: family.arch,
        };
        let found = match names::find(family, &format!("{stem}.weight")) {
            Some(Known::Tensors(found)) => found,
            _ => return Err(unknown()),
        };
        let [found] = found.as_slice() else {
            return Err(unknown());
        };
        if found.item.is_some() {
            return Err(LoraError::Expert { tensor: name() });
        }
        let shape = || LoraError::Shape {
            tensor: name(),
            shape: tensor.shape.clone(),
        };
        let &[rows, columns] = tensor.shape.as_slice() else {
            return Err(shape());
        };
        let order = match (half, found.rule.order) {
            (Half::A, _) => RowOrder::Same,
            // A matrix that the checkpoint has turned round is changed by matrices that are not.
            (
                Half::B,
                order @ (Order::Same
                | Order::Transposed
                | Order::Pairs(_)
                | Order::HeadsOfQkv
                | Order::GroupsOfQkv),
            ) => RowOrder::new(order, heads, 1, rows as usize).ok_or_else(shape)?,
            (Half::B, _) => return Err(shape()),
        };
        if found.rule.change != Change::Nothing {
            return Err(shape());
        }
        let source = tensor.rows()?;
        let mut data = Vec::with_capacity(source.len() * source.columns() * 4);
        let mut row = vec![0.0; source.columns()];
        for at in 0..source.len() {
            source.read(order.source(at), &mut row).ok_or_else(shape)?;
            data.extend(row.iter().flat_map(|value| value.to_le_bytes()));
        }
        Ok(Self {
            name: match half {
                Half::A => format!("{}.lora_a", found.name),
                Half::B => format!("{}.lora_b", found.name),
            },
            dims: vec![columns, rows],
            data,
        })
    }
}
