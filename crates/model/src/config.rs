//! A model's sizes and scales, read from its metadata and checked.

use crate::error::LoadError;
use crate::mixer::attention::paged::GROUP_FLOATS;
use crate::pooling::Pooling;
use crate::spec::{ArchSpec, AttnScale, Experts, Residual, Role, Routing, Scale, Window};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_weights::{Metadata, Value};

/// No size in a model is larger; products of two stay far from overflow.
const MAX_SIZE: u32 = 1 << 22;
const MAX_LAYERS: u32 = 1024;
const MAX_HEADS: u32 = 1024;

/// Sizes and scales, after the metadata's defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// The architecture.
    pub spec: &'static ArchSpec,
    /// Layers.
    pub layers: usize,
    /// The residual stream's width.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// A query or key head's size.
    pub head_size: usize,
    /// A value head's size; equal to `head_size`.
    pub ffn: usize,
    /// Token ids.
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    /// Norms' epsilon.
    pub epsilon: f32,
    /// Whether the branches of a layer are parallel; `None`: where it has no `ffn_norm`.
    pub parallel: Option<bool>,
    /// The sliding window, if any, of each layer.
    pub windows: Vec<Option<usize>>,
    /// Rotary positions.
    pub rope: RopeConfig,
    /// What attention scores are multiplied by.
    pub attn_scale: f32,
    /// Attention scores pass cap · tanh(x / cap).
    pub attn_soft_cap: Option<f32>,
    /// Logits do.
    pub logit_soft_cap: Option<f32>,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// What each branch is multiplied by before it is added.
    pub residual_scale: f32,
    /// What logits are multiplied by.
    pub logit_scale: f32,
    /// Experts in the place of the feed-forward network.
    pub experts: Option<ExpertConfig>,
    /// How the model's makers turn states into an embedding, if they say.
    pub pooling: Option<Pooling>,
}

/// Rotary positions.
#[derive(Clone, Debug)]
pub struct RopeConfig {
    /// How many of a head's dimensions turn.
    pub dimensions: usize,
    /// The frequencies' base.
    pub base: f32,
    /// The base in sliding layers.
    pub window_base: Option<f32>,
    /// Stretching for long contexts.
    pub scaling: RopeScaling,
    /// What cosines and sines are multiplied by.
    pub magnitude: f32,
    /// Positions that the unscaled frequencies were trained for.
    pub original_context: usize,
}

/// How frequencies are stretched for long contexts.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all (factors may still come as a tensor).
    None,
    /// All by one factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// Low frequencies by a factor, high ones not at all, those between partly.
    Yarn {
        /// The factor.
        factor: f32,
        /// Rotations over the original context above which a frequency stays.
        beta_fast: f32,
        /// Rotations below which it is stretched in full.
        beta_slow: f32,
    },
}

/// Experts.
#[derive(Copy, Clone, Debug)]
pub struct ExpertConfig {
    /// How many there are.
    pub count: usize,
    /// How many see a token.
    pub used: usize,
    /// The width of one.
    pub ffn: usize,
    /// The width of the one that sees every token; 0 if there is none.
    pub shared_ffn: usize,
    /// How they are weighed.
    pub routing: Routing,
    /// What their sum is multiplied by.
    pub scale: f32,
}

/// Metadata under the architecture's prefix.
struct Keys<'a, 'b> {
    metadata: &'a Metadata<'b>,
    arch: &'a str,
}

impl Keys<'_, '_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    fn u32(&self, name: &str) -> Result<Option<u32>, LoadError> {
        Ok(self.metadata.u32(&self.key(name))?)
    }

    fn f32(&self, name: &str) -> Result<Option<f32>, LoadError> {
        let key = self.key(name);
        match self.metadata.f32(&key)? {
            Some(value) if !value.is_finite() => Err(LoadError::BadValue {
                key,
                value: f64::from(value),
                needs: "finite",
            }),
            value => Ok(value),
        }
    }

    /// A positive finite number.
    fn positive(&self, name: &str) -> Result<Option<f32>, LoadError> {
        match self.f32(name)? {
            Some(value) if value <= 0.0 => Err(LoadError::BadValue {
                key: self.key(name),
                value: f64::from(value),
                needs: "above 0",
            }),
            value => Ok(value),
        }
    }

    fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, LoadError> {
        value.ok_or_else(|| LoadError::MissingKey {
            key: self.key(name),
        })
    }

    /// A size between 1 and `max`.
    fn size(&self, name: &str, max: u32) -> Result<Option<usize>, LoadError> {
        match self.u32(name)? {
            Some(value) if value == 0 || value > max => Err(LoadError::BadValue {
                key: self.key(name),
                value: f64::from(value),
                needs: "above 0 and within reason",
            }),
            value => Ok(value.map(|value| value as usize)),
        }
    }

    fn required_size(&self, name: &str, max: u32) -> Result<usize, LoadError> {
        let size = self.size(name, max)?;
        self.required(name, size)
    }

    /// A size that some files give as an array with one element for each layer, all equal.
    fn uniform_size(&self, name: &str, max: u32) -> Result<Option<usize>, LoadError> {
        let key = self.key(name);
        let Some(Value::Array(array)) = self.metadata.get(&key) else {
            return self.size(name, max);
        };
        let mut values = array.integers().into_iter().flatten();
        let first = values.next();
        match first {
            Some(value) if value < 1 || value > i128::from(max) => Err(LoadError::BadValue {
                key,
                value: value as f64,
                needs: "above 0 and within reason",
            }),
            Some(value) if values.all(|other| other == value) => Ok(Some(value as usize)),
            _ => Err(LoadError::LayersDiffer { key }),
        }
    }
}

impl Config {
    /// Reads the metadata of a model whose vocabulary has `vocabulary` tokens.
    pub(crate) fn new(
        spec: &'static ArchSpec,
        metadata: &Metadata<'_>,
        vocabulary: usize,
    ) -> Result<Self, LoadError> {
        let keys = Keys {
            metadata,
            arch: spec.name,
        };
        check_direction(&keys, spec)?;
        let layers = keys.required_size("block_count", MAX_LAYERS)?;
        let width = keys.required_size("embedding_length", MAX_SIZE)?;
        let heads = keys.uniform_size("attention.head_count", MAX_HEADS)?;
        let heads = keys.required("attention.head_count", heads)?;
        let kv_heads = keys
            .uniform_size("attention.head_count_kv", MAX_HEADS)?
            .unwrap_or(heads);
        if heads % kv_heads != 0 {
            return Err(LoadError::Heads { heads, kv_heads });
        }
        let head_size = match keys.size("attention.key_length", MAX_SIZE)? {
            Some(size) => size,
            None if width % heads == 0 => width / heads,
            None => {
                return Err(LoadError::MissingKey {
                    key: keys.key("attention.key_length"),
                });
            }
        };
        if head_size > GROUP_FLOATS {
            return Err(LoadError::BadValue {
                key: keys.key("attention.key_length"),
                value: head_size as f64,
                needs: "at most 2048",
            });
        }
        if let Some(size) = keys.size("attention.value_length", MAX_SIZE)?
            && size != head_size
        {
            return Err(LoadError::ValueLength {
                key: head_size,
                value: size,
            });
        }
        let epsilon = match keys.positive("attention.layer_norm_rms_epsilon")? {
            Some(epsilon) => epsilon,
            None => {
                let name = "attention.layer_norm_epsilon";
                let epsilon = keys.positive(name)?;
                keys.required(name, epsilon)?
            }
        };
        let context = keys.required_size("context_length", u32::MAX)?;
        let experts = experts(&keys, spec)?;
        let ffn = match (
            &experts,
            keys.uniform_size("feed_forward_length", MAX_SIZE)?,
        ) {
            (_, Some(ffn)) => ffn,
            (Some(experts), None) => experts.ffn,
            (None, None) => {
                return Err(LoadError::MissingKey {
                    key: keys.key("feed_forward_length"),
                });
            }
        };
        Ok(Self {
            spec,
            layers,
            width,
            heads,
            kv_heads,
            head_size,
            ffn,
            vocabulary,
            context,
            epsilon,
            parallel: parallel(&keys, spec)?,
            windows: windows(&keys, spec, layers)?,
            rope: rope(&keys, spec, head_size, context)?,
            attn_scale: match (keys.positive("attention.scale")?, spec.attn_scale) {
                (Some(scale), _) => scale,
                (None, AttnScale::WidthPerHeadAtLayers(n)) if n as usize == layers => {
                    1.0 / libm::sqrtf((width / heads) as f32)
                }
                (None, _) => 1.0 / libm::sqrtf(head_size as f32),
            },
            attn_soft_cap: keys.positive("attn_logit_softcapping")?,
            logit_soft_cap: keys.positive("final_logit_softcapping")?,
            embedding_scale: scale(&keys, spec.embedding_scale, "embedding_scale", width)?,
            residual_scale: keys.positive("residual_scale")?.unwrap_or(1.0),
            logit_scale: scale(&keys, spec.logit_scale, "logit_scale", width)?,
            experts,
            pooling: pooling(&keys)?,
        })
    }

    /// The width of all query heads.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_size
    }

    /// The width of all key heads, or of all value heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_size
    }

    /// The width of queries, keys and values together.
    pub(crate) fn qkv_width(&self) -> usize {
        self.q_width() + 2 * self.kv_width()
    }
}

/// Refuses a decoder that should see what comes after, and an encoder that should not.
fn check_direction(keys: &Keys<'_, '_>, spec: &ArchSpec) -> Result<(), LoadError> {
    let key = keys.key("attention.causal");
    let needed = spec.role == Role::Decoder;
    match keys.metadata.bool(&key)? {
        Some(causal) if causal != needed => Err(LoadError::BadValue {
            key,
            value: f64::from(u8::from(causal)),
            needs: match spec.role {
                Role::Decoder => "true (1) in this architecture",
                Role::Encoder => "false (0) in this architecture",
            },
        }),
        _ => Ok(()),
    }
}

fn pooling(keys: &Keys<'_, '_>) -> Result<Option<Pooling>, LoadError> {
    let Some(number) = keys.u32("pooling_type")? else {
        return Ok(None);
    };
    let known = Pooling::ALL.into_iter().find(|&kind| kind as u32 == number);
    known.map(Some).ok_or_else(|| LoadError::BadValue {
        key: keys.key("pooling_type"),
        value: f64::from(number),
        needs: "0 to 4",
    })
}

fn scale(keys: &Keys<'_, '_>, scale: Scale, name: &str, width: usize) -> Result<f32, LoadError> {
    Ok(match scale {
        Scale::One => 1.0,
        Scale::SqrtWidth => libm::sqrtf(width as f32),
        Scale::Multiply => keys.positive(name)?.unwrap_or(1.0),
        Scale::Divide => 1.0 / keys.positive(name)?.unwrap_or(1.0),
    })
}

fn parallel(keys: &Keys<'_, '_>, spec: &ArchSpec) -> Result<Option<bool>, LoadError> {
    Ok(match spec.residual {
        Residual::Sequential => Some(false),
        Residual::Parallel => Some(true),
        Residual::ParallelWithoutFfnNorm => None,
        Residual::Metadata => {
            let name = "use_parallel_residual";
            let value = keys.metadata.bool(&keys.key(name))?;
            Some(keys.required(name, value)?)
        }
    })
}

fn windows(
    keys: &Keys<'_, '_>,
    spec: &ArchSpec,
    layers: usize,
) -> Result<Vec<Option<usize>>, LoadError> {
    // Some converters write 0 for "none".
    let window = match keys.u32("attention.sliding_window")? {
        None | Some(0) => None,
        Some(window) => Some(window as usize),
    };
    Ok((0..layers)
        .map(|layer| match spec.window {
            Window::Never => None,
            Window::Always => window,
            Window::AllButEvery(n) => window.filter(|_| layer % n as usize != n as usize - 1),
        })
        .collect())
}

fn rope(
    keys: &Keys<'_, '_>,
    spec: &ArchSpec,
    head_size: usize,
    context: usize,
) -> Result<RopeConfig, LoadError> {
    let dimensions = keys
        .size("rope.dimension_count", MAX_SIZE)?
        .unwrap_or(head_size);
    if dimensions > head_size || dimensions % 2 != 0 {
        return Err(LoadError::BadValue {
            key: keys.key("rope.dimension_count"),
            value: dimensions as f64,
            needs: "even and at most the head's size",
        });
    }
    let factor = keys.positive("rope.scaling.factor")?;
    let kind_key = keys.key("rope.scaling.type");
    let scaling = match (keys.metadata.str(&kind_key)?, factor) {
        (None | Some("none"), None) | (Some("longrope"), _) | (Some("none"), _) => {
            RopeScaling::None
        }
        (None | Some("linear"), Some(factor)) => RopeScaling::Linear { factor },
        (Some("yarn"), Some(factor)) => RopeScaling::Yarn {
            factor,
            beta_fast: keys
                .positive("rope.scaling.yarn_beta_fast")?
                .unwrap_or(32.0),
            beta_slow: keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        },
        (Some("linear" | "yarn"), None) => {
            return Err(LoadError::MissingKey {
                key: keys.key("rope.scaling.factor"),
            });
        }
        (Some(kind), _) => {
            return Err(LoadError::RopeScaling { kind: kind.into() });
        }
    };
    let stretch = match scaling {
        // Attention over a stretched context is sharpened a little (YaRN, equation 22).
        RopeScaling::Yarn { factor, .. } if factor > 1.0 => 1.0 + 0.1 * libm::logf(factor),
        _ => 1.0,
    };
    Ok(RopeConfig {
        dimensions,
        base: keys.positive("rope.freq_base")?.unwrap_or(10_000.0),
        window_base: match spec.window_rope_base {
            Some(base) => Some(keys.positive("rope.freq_base_swa")?.unwrap_or(base)),
            None => None,
        },
        scaling,
        magnitude: stretch * keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
        original_context: keys
            .size("rope.scaling.original_context_length", u32::MAX)?
            .unwrap_or(context),
    })
}

fn experts(keys: &Keys<'_, '_>, spec: &ArchSpec) -> Result<Option<ExpertConfig>, LoadError> {
    let count = match keys.u32("expert_count")? {
        None | Some(0) => None,
        Some(count) => Some(count as usize),
    };
    let (routing, count) = match (spec.experts, count) {
        (Experts::IfCounted(routing) | Experts::Always(routing), Some(count)) => (routing, count),
        (Experts::Always(_), None) => {
            return Err(LoadError::MissingKey {
                key: keys.key("expert_count"),
            });
        }
        (Experts::IfCounted(_) | Experts::Never, None) => return Ok(None),
        (Experts::Never, Some(count)) => {
            return Err(LoadError::BadValue {
                key: keys.key("expert_count"),
                value: count as f64,
                needs: "absent in this architecture",
            });
        }
    };
    let used = keys.required_size("expert_used_count", 64)?;
    if used > count || count > 4096 {
        return Err(LoadError::BadValue {
            key: keys.key("expert_count"),
            value: count as f64,
            needs: "at least expert_used_count and at most 4096",
        });
    }
    let ffn = match keys.size("expert_feed_forward_length", MAX_SIZE)? {
        Some(ffn) => ffn,
        None => {
            let ffn = keys.uniform_size("feed_forward_length", MAX_SIZE)?;
            keys.required("expert_feed_forward_length", ffn)?
        }
    };
    let renormalize = keys
        .metadata
        .bool(&keys.key("expert_weights_norm"))?
        .unwrap_or(routing.renormalize);
    Ok(Some(ExpertConfig {
        count,
        used,
        ffn,
        shared_ffn: if routing.shared {
            keys.required_size("expert_shared_feed_forward_length", MAX_SIZE)?
        } else {
            0
        },
        routing: Routing {
            renormalize,
            ..routing
        },
        scale: keys.positive("expert_weights_scale")?.unwrap_or(1.0),
    }))
}
