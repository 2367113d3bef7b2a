//! Attention: its weights, and two ways of running it.
//!
//! A decoder's tokens see those before them, whose keys and values are in pages ([`paged`]); an encoder's see their
//! whole sequence, of which nothing is kept ([`whole`]). Both make queries, keys and values in the same way
//! ([`projection`]) and share the softmax over a run of positions ([`rows`]). What differs is who shares the keys that are
//! read: in a decoder the query heads of one token, so that a step over many sequences reads every key once; in an encoder
//! many tokens of one head, all of which see the same keys.

pub(crate) mod alibi;
mod branch;
mod buckets;
mod cross;
mod latent;
pub(crate) mod paged;
mod projection;
mod rows;
mod shares;
pub(crate) mod stored;
pub(crate) mod whole;

use crate::config::{AttentionConfig, Config, ExpertConfig};
use crate::error::LoadError;
use crate::layer::{NormWeights, Projections, block_linear, block_norm};
use crate::matrix::Linear;
use crate::spec::{ArchSpec, AttnGate, Fusion, Norm, Presence, QkNorm, Role, ValueNorm};
use crate::tensors::{Tensors, block_name};
use alloc::vec::Vec;
pub(crate) use buckets::Buckets;
pub(crate) use cross::CrossAttention;
use latent::LatentWeights;
pub(crate) use projection::Placed;

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct AttentionWeights {
    pub(crate) config: AttentionConfig,
    /// Queries, keys, values, or what they are made from.
    pub(crate) qkv: Projections,
    /// What makes them.
    pub(crate) latent: Option<LatentWeights>,
    pub(crate) q_norm: Option<NormWeights>,
    pub(crate) k_norm: Option<NormWeights>,
    /// A score without a value for each query head.
    pub(crate) sinks: Option<Vec<f32>>,
    /// How much scores shrink with each step of distance, by head. Empty without ALiBi.
    pub(crate) slopes: Vec<f32>,
    /// What is added to scores by distance.
    pub(crate) buckets: Option<Buckets>,
    /// Of what goes into `output`.
    pub(crate) sub_norm: Option<NormWeights>,
    pub(crate) output: Linear,
}

impl AttentionWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        model: &Config,
        config: &AttentionConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let spec = model.spec;
        let plain = match spec.qk_norm {
            QkNorm::PlainUnlessExperts(count) => {
                let unlike = |experts: &ExpertConfig| experts.count != count as usize;
                config.rope.is_some() && model.experts.as_ref().is_none_or(unlike)
            }
            _ => false,
        };
        let mut head_norm = |name, heads| {
            let size = config.head_size;
            if plain {
                let weight = alloc::vec![1.0; size];
                return Ok(Some(NormWeights { weight, bias: None }));
            }
            head_norm(tensors, spec, layer, name, size as u64, heads as u64)
        };
        let q_norm = head_norm("attn_q_norm", config.heads)?;
        let k_norm = match config.shares {
            None => head_norm("attn_k_norm", config.kv_heads)?,
            Some(_) => None,
        };
        if config.shares.is_some() {
            // Files have them, though nothing reads them.
            for unused in ["attn_k", "attn_v", "attn_k_norm"] {
                tensors.skip(&block_name(layer, unused, "weight"));
            }
        }
        Ok(Self {
            config: *config,
            qkv: match &config.latent {
                Some(latent) => latent::first(tensors, model, (config, latent), layer)?,
                None => qkv(tensors, model, config, layer)?,
            },
            latent: match &config.latent {
                Some(latent) => Some(LatentWeights::load(tensors, (config, latent), layer)?),
                None => None,
            },
            output: block_linear(
                tensors,
                layer,
                "attn_output",
                config.mixed_width(),
                model.width,
                spec.attn_output_bias,
            )?,
            q_norm,
            k_norm,
            slopes: match config.alibi {
                Some(bias) => alibi::slopes(config.heads, bias),
                None => Vec::new(),
            },
            buckets: match config.buckets {
                Some(buckets) => {
                    let place = (config.heads, layer);
                    Some(Buckets::load(tensors, spec.role, buckets, place)?)
                }
                None => None,
            },
            sub_norm: block_norm(
                tensors,
                spec.norm,
                spec.attn_sub_norm,
                layer,
                "attn_sub_norm",
                config.q_width(),
            )?,
            sinks: tensors.maybe_vector(
                spec.attn_sinks,
                &block_name(layer, "attn_sinks", "weight"),
                &[config.heads as u64],
            )?,
        })
    }
}

/// Queries, keys and values.
fn qkv(
    tensors: &mut Tensors<'_, '_>,
    model: &Config,
    config: &AttentionConfig,
    layer: usize,
) -> Result<Projections, LoadError> {
    let (q, kv) = (config.q_width(), config.kv_width());
    let (width, bias) = (model.width, model.spec.qkv_bias);
    let fused = match model.spec.qkv {
        Fusion::Fused => true,
        Fusion::Separate => false,
        Fusion::AsFound => tensors.has(&block_name(layer, "attn_qkv", "weight")),
    };
    // Values without a matrix of their own are made by that of keys.
    let own_values = model.spec.value_norm == ValueNorm::Never
        || tensors.has(&block_name(layer, "attn_v", "weight"));
    let mut linear = |name, rows| block_linear(tensors, layer, name, width, rows, bias);
    let q = match config.gate {
        AttnGate::WithQueries => 2 * q,
        _ => q,
    };
    let mut linears: Vec<Linear> = if fused {
        [linear("attn_qkv", q + 2 * kv)?].into()
    } else if config.shares.is_some() {
        [linear("attn_q", q)?].into()
    } else if !own_values {
        let (queries, keys) = (linear("attn_q", q)?, linear("attn_k", kv)?);
        [queries, keys.clone(), keys].into()
    } else {
        [
            linear("attn_q", q)?,
            linear("attn_k", kv)?,
            linear("attn_v", kv)?,
        ]
        .into()
    };
    if config.gate.has_matrix() {
        linears.push(linear("attn_gate", config.gate_width())?);
    }
    Ok(Projections(linears))
}

/// A norm of queries or keys. Few decoders' have a bias.
fn head_norm(
    tensors: &mut Tensors<'_, '_>,
    spec: &ArchSpec,
    layer: usize,
    name: &str,
    size: u64,
    heads: u64,
) -> Result<Option<NormWeights>, LoadError> {
    let whole = [size * heads];
    let (presence, shape) = match spec.qk_norm {
        QkNorm::None | QkNorm::PlainUnlessExperts(_) => return Ok(None),
        QkNorm::PerHead => (Presence::Always, &[size][..]),
        QkNorm::PerHeadIfPresent => (Presence::IfPresent, &[size][..]),
        QkNorm::Whole => (Presence::Always, &whole[..]),
        QkNorm::WholeIfPresent => (Presence::IfPresent, &whole[..]),
        QkNorm::PerHeadOwnIfPresent => (Presence::IfPresent, &[size, heads][..]),
    };
    let weight = tensors.maybe_vector(presence, &block_name(layer, name, "weight"), shape)?;
    let Some(weight) = weight else {
        return Ok(None);
    };
    let bias = match (spec.role, spec.norm) {
        (Role::Encoder, Norm::LayerBias) => Presence::Always,
        (Role::Decoder, Norm::LayerBiasIfPresent) => Presence::IfPresent,
        _ => Presence::Never,
    };
    let bias = tensors.maybe_vector(bias, &block_name(layer, name, "bias"), shape)?;
    Ok(Some(NormWeights { weight, bias }))
}
