//! A model's sizes and scales, read from its metadata and checked.

mod attention;
mod buckets;
mod experts;
mod keys;
mod layers;
mod recurrent;
mod rope;

use crate::altup::MAX_STREAMS;
use crate::blueprint::NextnUse;
use crate::error::LoadError;
use crate::pooling::Pooling;
use crate::spec::{ArchSpec, Nextn, Presence, Residual, Role, Scale};
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use attention::{AttentionConfig, LatentConfig};
pub use buckets::BucketConfig;
pub use experts::ExpertConfig;
use keys::Keys;
pub use layers::{LayerConfig, MixerConfig};
pub use recurrent::{
    DeltaNetConfig, KimiDeltaConfig, LightningConfig, MambaConfig, MambaVersion, RecurrentConfig,
    RgLruConfig, Rwkv4Config, RwkvConfig, RwkvVersion, ShortConvConfig,
};
pub use rope::{RopeConfig, RopeScaling};
use strata_kernels::KvType;
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
    /// The layers.
    pub layers: Vec<LayerConfig>,
    /// Those in the file. What comes after `layers` predicts tokens after the next, and is left out unless it was asked for.
    pub stored_layers: usize,
    /// The layer that predicts the token after the next, where it was asked for.
    pub nextn: Option<LayerConfig>,
    /// The residual stream's width.
    pub width: usize,
    /// The vocabulary's size.
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    /// Norms' epsilon.
    pub epsilon: f32,
    /// Whether the branches of a layer are parallel; `None`: where it has no `ffn_norm`.
    pub parallel: Option<bool>,
    /// The RoPEs of attention layers, each once.
    pub ropes: Vec<RopeConfig>,
    /// After every so many layers the residual stream is halved, as their weights expect.
    pub halve_every: Option<usize>,
    /// Logits pass cap · tanh(x / cap).
    pub logit_soft_cap: Option<f32>,
    /// What embeddings are multiplied by.
    pub embedding_scale: f32,
    /// What each branch is multiplied by before it is added.
    pub residual_scale: f32,
    /// A branch's input, normed, times this takes the residual stream's place, if that is so.
    pub normed_residual: Option<f32>,
    /// What logits are multiplied by.
    pub logit_scale: f32,
    /// Experts instead of one feed-forward network.
    pub experts: Option<ExpertConfig>,
    /// How states become an embedding, if the file says.
    pub pooling: Option<Pooling>,
    /// The size of the embedding that each layer has of a token, if it has one.
    pub layer_input: Option<usize>,
    /// How many of the first layers are followed by something of an image's own (Qwen3-VL's DeepStack). An image's positions
    /// then have so many rows more, one behind the other.
    pub deepstack: usize,
    /// The residual streams, if there are several.
    pub streams: Option<StreamConfig>,
    /// What is read before anything is written, in encoder-decoders.
    pub source: Option<SourceConfig>,
}

/// The part of an encoder-decoder that reads. A sequence is the source, the token that begins what is written, and that.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The encoder.
    pub encoder: Box<Config>,
    /// The token that begins what is written: the first in a sequence ends its source.
    pub start: u32,
}

/// Several residual streams.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// How many there are.
    pub count: usize,
    /// Which of them layers compute.
    pub active: usize,
}

impl Config {
    /// Reads the metadata of a model whose vocabulary has `vocabulary` tokens, and whose output is the embedding if it is
    /// `tied`; with the layer that predicts the token after the next if `nextn` says so.
    pub(crate) fn new(
        spec: &'static ArchSpec,
        metadata: &Metadata<'_>,
        (vocabulary, tied): (usize, bool),
        nextn: NextnUse,
    ) -> Result<Self, LoadError> {
        let keys = Keys {
            metadata,
            arch: spec.name,
        };
        check_direction(&keys, spec)?;
        let own_layers = match spec.source {
            Some(_) => keys.size("decoder_block_count", MAX_LAYERS)?,
            None => None,
        };
        let stored_layers = match own_layers {
            Some(layers) => layers,
            None => keys.required_size("block_count", MAX_LAYERS)?,
        };
        let count = predicting_layers(&keys, stored_layers)?;
        let nextn = has_nextn(spec, stored_layers - count, nextn)?;
        let width = keys.required_size("embedding_length", MAX_SIZE)?;
        let epsilon = match keys.positive("attention.layer_norm_rms_epsilon")? {
            Some(epsilon) => epsilon,
            None => {
                let name = "attention.layer_norm_epsilon";
                let epsilon = keys.positive(name)?;
                keys.required(name, epsilon)?
            }
        };
        let mut context = keys.required_size("context_length", u32::MAX)?;
        if spec.indexer != Presence::Never {
            let chosen = keys.required_size("attention.indexer.top_k", u32::MAX)?;
            context = context.min(chosen);
        }
        let experts = experts::experts(&keys, spec, stored_layers)?;
        let shared = layers::Shared {
            spec,
            layers: count,
            stored_layers,
            nextn,
            width,
            context,
            ffn: experts.map(|experts| experts.ffn),
        };
        let (layers, nextn, ropes) = layers::layers(&keys, &shared)?;
        let scale = |scale, name| scale_of(&keys, scale, name, (width, count, tied));
        let source = source(&keys, spec, (vocabulary, tied))?;
        Ok(Self {
            spec,
            layers,
            stored_layers,
            nextn,
            width,
            vocabulary,
            // Source and answer may each be as long.
            context: context * (1 + usize::from(source.is_some())),
            epsilon,
            parallel: parallel(&keys, spec)?,
            ropes,
            halve_every: match keys.u32("rescale_every_n_layers")? {
                None | Some(0) => None,
                Some(layers) => Some(layers as usize),
            },
            logit_soft_cap: keys.above_zero("final_logit_softcapping")?,
            embedding_scale: scale(spec.embedding_scale, "embedding_scale")?,
            residual_scale: scale(spec.residual_scale, "residual_scale")?,
            normed_residual: match spec.residual {
                Residual::Normed => Some(keys.positive("residual_scale")?.unwrap_or(1.0)),
                _ => None,
            },
            logit_scale: scale(spec.logit_scale, "logit_scale")?,
            experts,
            pooling: pooling(&keys)?,
            layer_input: match keys.u32("embedding_length_per_layer_input")? {
                None | Some(0) => None,
                Some(_) => keys.size("embedding_length_per_layer_input", MAX_SIZE)?,
            },
            deepstack: deepstack(&keys, count)?,
            streams: streams(&keys, spec)?,
            source,
        })
    }

    /// The attention of every layer that has any.
    pub fn attention(&self) -> impl Iterator<Item = &AttentionConfig> {
        let layers = self.layers.iter().chain(&self.nextn);
        layers.filter_map(LayerConfig::attention)
    }

    /// The values of one embedded position: its embedding, then what DeepStack adds after each of the first layers.
    pub fn embedded_row(&self) -> usize {
        self.width * (1 + self.deepstack)
    }

    /// Whether keys and values can be stored so: some types have blocks of 32 values, which heads must fill.
    pub fn stores_kv(&self, kind: KvType) -> bool {
        kind != KvType::Q8_0 || self.attention().all(|a| a.head_size.is_multiple_of(32))
    }

    /// The largest of a size over all attention layers.
    pub(crate) fn widest(&self, size: impl Fn(&AttentionConfig) -> usize) -> usize {
        self.attention().map(size).max().unwrap_or(0)
    }
}

/// How many layers are followed by something of an image's own.
fn deepstack(keys: &Keys<'_, '_>, layers: usize) -> Result<usize, LoadError> {
    let name = "n_deepstack_layers";
    match keys.u32(name)?.unwrap_or(0) as usize {
        stacked if stacked <= layers => Ok(stacked),
        stacked => Err(LoadError::BadValue {
            key: keys.key(name),
            value: stacked as f64,
            needs: "at most the model's layers",
        }),
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

fn source(
    keys: &Keys<'_, '_>,
    spec: &ArchSpec,
    sizes: (usize, bool),
) -> Result<Option<SourceConfig>, LoadError> {
    let Some(encoder) = spec.source else {
        return Ok(None);
    };
    let name = "decoder_start_token_id";
    let start = keys.u32(name)?.unwrap_or(0);
    if start as usize >= sizes.0 {
        return Err(LoadError::BadValue {
            key: keys.key(name),
            value: f64::from(start),
            needs: "a token of the vocabulary",
        });
    }
    let encoder = Box::new(Config::new(encoder, keys.metadata, sizes, NextnUse::Omit)?);
    Ok(Some(SourceConfig { encoder, start }))
}

fn streams(keys: &Keys<'_, '_>, spec: &ArchSpec) -> Result<Option<StreamConfig>, LoadError> {
    if spec.streams == Presence::Never {
        return Ok(None);
    }
    let name = "altup.num_inputs";
    let count = keys.required_size(name, MAX_SIZE)?;
    let active = keys.u32("altup.active_idx")?.unwrap_or(0) as usize;
    if !(2..=MAX_STREAMS).contains(&count) || active >= count {
        return Err(LoadError::BadValue {
            key: keys.key(name),
            value: count as f64,
            needs: "2 to 8, and above altup.active_idx",
        });
    }
    Ok(Some(StreamConfig { count, active }))
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

/// How many of a file's layers predict the next token.
fn predicting_layers(keys: &Keys<'_, '_>, stored: usize) -> Result<usize, LoadError> {
    let name = "nextn_predict_layers";
    let others = keys.u32(name)?.unwrap_or(0) as usize;
    stored
        .checked_sub(others)
        .filter(|&count| count > 0)
        .ok_or_else(|| LoadError::BadValue {
            key: keys.key(name),
            value: others as f64,
            needs: "below block_count",
        })
}

/// Whether the layer that predicts the token after the next is loaded, of so many in the file.
fn has_nextn(spec: &ArchSpec, layers: usize, wanted: NextnUse) -> Result<bool, LoadError> {
    let problem = match (spec.nextn, layers) {
        (Nextn::Normed, 1) => return Ok(wanted != NextnUse::Omit),
        (_, 0) => LoadError::NoNextn,
        (Nextn::Normed, layers) => LoadError::SeveralNextn { layers },
        (Nextn::Skipped, _) => LoadError::NextnFamily { name: spec.name },
    };
    match wanted {
        NextnUse::Require => Err(problem),
        NextnUse::Omit | NextnUse::IfPresent => Ok(false),
    }
}

/// A factor of a model of this width and so many layers, whose output may be the embedding.
fn scale_of(
    keys: &Keys<'_, '_>,
    scale: Scale,
    name: &str,
    (width, layers, tied): (usize, usize, bool),
) -> Result<f32, LoadError> {
    Ok(match scale {
        Scale::One => 1.0,
        Scale::SqrtWidth => libm::sqrtf(width as f32),
        Scale::Multiply => keys.positive(name)?.unwrap_or(1.0),
        Scale::MultiplyOr(factor) => keys.positive(name)?.unwrap_or(factor),
        Scale::MultiplyOrOverSqrtLayers(factor) => {
            let usual = factor / libm::sqrtf(layers as f32);
            keys.positive(name)?.unwrap_or(usual)
        }
        Scale::Divide => 1.0 / keys.positive(name)?.unwrap_or(1.0),
        Scale::DivideOrOverWidth(factor) => match keys.positive(name)? {
            Some(divisor) => 1.0 / divisor,
            None => factor / width as f32,
        },
        Scale::OverSqrtWidthIfTied => match keys.positive(name)? {
            Some(factor) => factor,
            None if tied => 1.0 / libm::sqrtf(width as f32),
            None => 1.0,
        },
    })
}

fn parallel(keys: &Keys<'_, '_>, spec: &ArchSpec) -> Result<Option<bool>, LoadError> {
    Ok(match spec.residual {
        Residual::Sequential | Residual::Normed => Some(false),
        Residual::Parallel => Some(true),
        Residual::ParallelWithoutFfnNorm => None,
        Residual::Metadata => {
            let name = "use_parallel_residual";
            let value = keys.metadata.bool(&keys.key(name))?;
            Some(keys.required(name, value)?)
        }
    })
}
