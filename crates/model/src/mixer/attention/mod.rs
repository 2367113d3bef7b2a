//! Attention: its weights, and two ways of running it.
//!
//! A decoder's tokens see those before them, whose keys and values are in pages ([`paged`]); an encoder's see their
//! whole sequence, of which nothing is kept ([`whole`]). Both make queries, keys and values in the same way
//! ([`projection`]) and share the softmax over a run of positions ([`rows`]). What differs is who shares the keys that are
//! read: in a decoder the query heads of one token, so that a step over many sequences reads every key once; in an encoder
//! many tokens of one head, all of which see the same keys.

pub(crate) mod paged;
mod projection;
mod rows;
pub(crate) mod whole;

pub(crate) use projection::Rotations;

use crate::config::Config;
use crate::error::LoadError;
use crate::layer::{NormWeights, Projections, block_linear};
use crate::matrix::Linear;
use crate::spec::{Norm, Presence, QkNorm, Role};
use crate::tensors::{Tensors, block_name};
use alloc::vec::Vec;

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct AttentionWeights {
    /// Queries, keys, values.
    pub(crate) qkv: Projections,
    pub(crate) q_norm: Option<NormWeights>,
    pub(crate) k_norm: Option<NormWeights>,
    /// A score without a value for each query head.
    pub(crate) sinks: Option<Vec<f32>>,
    pub(crate) output: Linear,
}

impl AttentionWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let spec = config.spec;
        Ok(Self {
            qkv: Projections::qkv(tensors, config, layer)?,
            output: block_linear(
                tensors,
                layer,
                "attn_output",
                config.q_width(),
                config.width,
                spec.attn_output_bias,
            )?,
            q_norm: head_norm(tensors, config, layer, "attn_q_norm", config.heads)?,
            k_norm: head_norm(tensors, config, layer, "attn_k_norm", config.kv_heads)?,
            sinks: tensors.maybe_vector(
                spec.attn_sinks,
                &block_name(layer, "attn_sinks", "weight"),
                &[config.heads as u64],
            )?,
        })
    }
}

/// A norm of queries or keys. A decoder's never have a bias.
fn head_norm(
    tensors: &mut Tensors<'_, '_>,
    config: &Config,
    layer: usize,
    name: &str,
    heads: usize,
) -> Result<Option<NormWeights>, LoadError> {
    let (size, heads) = (config.head_size as u64, heads as u64);
    let whole = [size * heads];
    let (presence, shape) = match config.spec.qk_norm {
        QkNorm::None => return Ok(None),
        QkNorm::PerHead => (Presence::Always, &[size][..]),
        QkNorm::Whole => (Presence::Always, &whole[..]),
        QkNorm::WholeIfPresent => (Presence::IfPresent, &whole[..]),
        QkNorm::PerHeadOwnIfPresent => (Presence::IfPresent, &[size, heads][..]),
    };
    let weight = tensors.maybe_vector(presence, &block_name(layer, name, "weight"), shape)?;
    let Some(weight) = weight else {
        return Ok(None);
    };
    let bias = match (config.spec.role, config.spec.norm) {
        (Role::Encoder, Norm::LayerBias) => {
            Some(tensors.vector(&block_name(layer, name, "bias"), shape)?)
        }
        _ => None,
    };
    Ok(Some(NormWeights { weight, bias }))
}
