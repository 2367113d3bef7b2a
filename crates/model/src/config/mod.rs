//! A model's sizes and scales, read from its metadata and checked.

mod experts;
mod keys;
mod rope;

use crate::error::LoadError;
use crate::mixer::attention::paged::GROUP_FLOATS;
use crate::pooling::Pooling;
use crate::spec::{ArchSpec, AttnScale, Residual, Role, Scale, Window};
use alloc::vec::Vec;
pub use experts::ExpertConfig;
use keys::Keys;
pub use rope::{RopeConfig, RopeScaling};
use strata_weights::Metadata;

/// No size in a model is larger; products of two stay far from overflow.
const MAX_SIZE: u32 = 1 << 22;
const MAX_LAYERS: u32 = 1024;
const MAX_HEADS: u32 = 1024;

/// Sizes and scales, after the metadata's defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// The architecture.
    pub spec: &'static ArchSpec,
    /// How many layers there are.
    pub layers: usize,
    /// The residual stream's width.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// A head's size: of queries, keys and values alike.
    pub head_size: usize,
    /// The feed-forward network's inner width.
    pub ffn: usize,
    /// The vocabulary's size.
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
    /// Logits pass cap · tanh(x / cap).
    pub logit_soft_cap: Option<f32>,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// What each branch is multiplied by before it is added.
    pub residual_scale: f32,
    /// What logits are multiplied by.
    pub logit_scale: f32,
    /// Experts instead of one feed-forward network.
    pub experts: Option<ExpertConfig>,
    /// How states become an embedding, if the file says.
    pub pooling: Option<Pooling>,
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
        let experts = experts::experts(&keys, spec)?;
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
            rope: rope::rope(&keys, spec, head_size, context)?,
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
