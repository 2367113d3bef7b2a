//! The sizes of recurrent layers, and which layers those are.

use super::attention::pattern;
use super::keys::Keys;
use super::layers::Shared;
use super::{MAX_HEADS, MAX_SIZE};
use crate::error::LoadError;
use crate::mixer::convolution::MAX_TAPS;
use crate::mixer::scan::MAX_VALUES;
use crate::spec::{Branches, Recurrence, RecurrentLayers, SharedKeys};
use alloc::vec;
use alloc::vec::Vec;

/// One layer's recurrence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RecurrentConfig {
    /// A short convolution.
    ShortConv(ShortConvConfig),
    /// A state space.
    Mamba(MambaConfig),
    /// The gated delta rule.
    DeltaNet(DeltaNetConfig),
    /// RWKV 6 and 7.
    Rwkv(RwkvConfig),
    /// Kimi's delta rule.
    KimiDelta(KimiDeltaConfig),
    /// A real-gated linear recurrent unit.
    RgLru(RgLruConfig),
    /// RWKV 4.
    Rwkv4(Rwkv4Config),
    /// Lightning attention.
    Lightning(LightningConfig),
}

impl RecurrentConfig {
    /// Bytes of a sequence's state.
    pub fn state_bytes(&self) -> usize {
        let floats = match self {
            Self::ShortConv(config) => config.conv().state_floats(),
            Self::Mamba(config) => config.conv().state_floats() + config.scan().state_floats(),
            Self::DeltaNet(config) => config.conv().state_floats() + config.scan().state_floats(),
            Self::Rwkv(config) => config.kept() + config.scan().state_floats(),
            Self::KimiDelta(config) => config.conv().state_floats() + config.scan().state_floats(),
            Self::RgLru(config) => config.conv().state_floats() + config.scan().state_floats(),
            Self::Rwkv4(config) => config.kept() + config.scan().state_floats(),
            Self::Lightning(config) => config.scan().state_floats(),
        };
        floats * size_of::<f32>()
    }
}

/// One layer's short convolution.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ShortConvConfig {
    /// Channels, each of which is summed by itself.
    pub channels: usize,
    /// Positions that a sum runs over, the token's own included.
    pub taps: usize,
}

/// One layer's state space.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MambaConfig {
    /// Channels.
    pub inner: usize,
    /// Numbers that are kept of each channel.
    pub state: usize,
    /// Positions that the convolution sums over.
    pub taps: usize,
    /// What steps belong to.
    pub version: MambaVersion,
}

/// The two state spaces.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum MambaVersion {
    /// Steps belong to channels.
    Channels {
        /// The width that steps are made from.
        rank: usize,
        /// Whether steps, and what goes into the state and comes out, are normed without weights.
        normed: bool,
    },
    /// Steps belong to heads.
    Heads {
        /// Heads.
        heads: usize,
        /// Groups of heads that share what goes into the state and comes out.
        groups: usize,
    },
}

/// One layer's delta rule.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DeltaNetConfig {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values.
    pub value_heads: usize,
    /// A key head's size.
    pub key_size: usize,
    /// A value head's size.
    pub value_size: usize,
    /// Positions that the convolution sums over.
    pub taps: usize,
    /// Which key head a value head reads.
    pub shared: SharedKeys,
}

/// One layer's delta rule with decays by key.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KimiDeltaConfig {
    /// Heads.
    pub heads: usize,
    /// A head's size.
    pub size: usize,
    /// Positions that convolutions sum over.
    pub taps: usize,
}

/// One layer's linear recurrent unit.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RgLruConfig {
    /// Channels.
    pub channels: usize,
    /// Heads, each of which has gates of its own.
    pub heads: usize,
    /// Positions that the convolution sums over.
    pub taps: usize,
}

/// One layer's lightning attention.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LightningConfig {
    /// Heads.
    pub heads: usize,
    /// A head's size.
    pub size: usize,
}

/// One layer of RWKV 4.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rwkv4Config {
    /// Channels.
    pub width: usize,
}

/// One layer of RWKV.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RwkvConfig {
    /// The width of all heads.
    pub width: usize,
    /// A head's size.
    pub head_size: usize,
    /// Whether the feed-forward network sees the token before, too.
    pub channel_mix: bool,
    /// What depends on the version.
    pub version: RwkvVersion,
}

/// RWKV's versions, with the widths between pairs of matrices.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RwkvVersion {
    /// 6.
    Six {
        /// Of what decides on the share of the token before.
        mix_rank: usize,
        /// Of decays.
        decay_rank: usize,
        /// Heads of keys and values.
        kv_heads: usize,
    },
    /// 7.
    Seven {
        /// Of decays.
        decay_rank: usize,
        /// Of the rates of replacement.
        rate_rank: usize,
        /// Of the shares of the first layer's values.
        value_rank: usize,
        /// Of gates, if there are any.
        gate_rank: Option<usize>,
    },
}

/// What a layer is made of.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum LayerKind {
    /// A feed-forward network alone.
    Network,
    Attention,
    Recurrent,
    /// Attention and a recurrence side by side.
    Both,
}

impl LayerKind {
    pub(super) fn attends(self) -> bool {
        matches!(self, Self::Attention | Self::Both)
    }
}

/// What each layer that predicts the next token is made of.
pub(super) fn kinds(
    keys: &Keys<'_, '_>,
    shared: &Shared<'_>,
    ffn: &[usize],
) -> Result<Vec<LayerKind>, LoadError> {
    let (spec, stored, count) = (shared.spec, shared.stored_layers, shared.layers);
    if spec.recurrence == Recurrence::Never {
        return Ok(vec![LayerKind::Attention; count]);
    }
    let recurrent: Vec<bool> = match spec.recurrent_layers {
        RecurrentLayers::All => vec![true; count],
        RecurrentLayers::BesideAttention => return Ok(vec![LayerKind::Both; count]),
        RecurrentLayers::WithoutKeyHeads => {
            let heads = keys.sizes("attention.head_count_kv", stored, 0..=MAX_HEADS)?;
            match heads {
                Some(heads) => heads.iter().map(|&heads| heads == 0).collect(),
                None => vec![false; count],
            }
        }
        RecurrentLayers::AllButEvery(usual) => {
            match pattern(keys, "attention.recurrent_layers", stored)? {
                Some(pattern) => pattern,
                None => {
                    let interval = keys.size("full_attention_interval", u32::MAX)?;
                    let interval = interval.unwrap_or(usual as usize);
                    let full = |layer: usize| (layer + 1).is_multiple_of(interval);
                    (0..count).map(|layer| !full(layer)).collect()
                }
            }
        }
    };
    let layers = recurrent.into_iter().zip(ffn).take(count);
    let kind = |(recurrent, &ffn): (bool, &usize)| match recurrent {
        _ if spec.branches == Branches::One && ffn > 0 => LayerKind::Network,
        true => LayerKind::Recurrent,
        false => LayerKind::Attention,
    };
    Ok(layers.map(kind).collect())
}

/// A layer's recurrence.
pub(super) fn recurrent(
    keys: &Keys<'_, '_>,
    shared: &Shared<'_>,
) -> Result<RecurrentConfig, LoadError> {
    match shared.spec.recurrence {
        Recurrence::Never => unreachable!("no layer is recurrent"),
        Recurrence::ShortConv => Ok(RecurrentConfig::ShortConv(ShortConvConfig {
            channels: shared.width,
            taps: taps(keys, "shortconv.l_cache")?,
        })),
        Recurrence::Mamba | Recurrence::Mamba2 => mamba(keys, shared).map(RecurrentConfig::Mamba),
        Recurrence::DeltaNet(shared) => delta_net(keys, shared).map(RecurrentConfig::DeltaNet),
        Recurrence::Rwkv6 | Recurrence::Rwkv7 => rwkv(keys, shared).map(RecurrentConfig::Rwkv),
        Recurrence::Rwkv4 => Ok(RecurrentConfig::Rwkv4(Rwkv4Config {
            width: shared.width,
        })),
        Recurrence::KimiDelta => kimi_delta(keys, shared).map(RecurrentConfig::KimiDelta),
        Recurrence::RgLru => rg_lru(keys).map(RecurrentConfig::RgLru),
        Recurrence::Lightning => lightning(keys, shared).map(RecurrentConfig::Lightning),
    }
}

fn taps(keys: &Keys<'_, '_>, name: &str) -> Result<usize, LoadError> {
    let taps = keys.required_size(name, MAX_SIZE)?;
    if !(2..=MAX_TAPS).contains(&taps) {
        return Err(LoadError::BadValue {
            key: keys.key(name),
            value: taps as f64,
            needs: "2 to 16",
        });
    }
    Ok(taps)
}

fn mamba(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<MambaConfig, LoadError> {
    let inner = keys.required_size("ssm.inner_size", MAX_SIZE)?;
    let rank = keys.required_size("ssm.time_step_rank", MAX_SIZE)?;
    let version = if shared.spec.recurrence == Recurrence::Mamba {
        let normed = keys.metadata.bool(&keys.key("ssm.dt_b_c_rms"))?;
        MambaVersion::Channels {
            rank,
            normed: normed == Some(true),
        }
    } else {
        let groups = keys.required_size("ssm.group_count", MAX_SIZE)?;
        divides(keys, "ssm.time_step_rank", rank, inner)?;
        divides(keys, "ssm.group_count", groups, rank)?;
        check_values(keys, "ssm.inner_size", inner / rank)?;
        MambaVersion::Heads {
            heads: rank,
            groups,
        }
    };
    Ok(MambaConfig {
        inner,
        state: keys.required_size("ssm.state_size", MAX_SIZE)?,
        taps: taps(keys, "ssm.conv_kernel")?,
        version,
    })
}

fn delta_net(keys: &Keys<'_, '_>, shared: SharedKeys) -> Result<DeltaNetConfig, LoadError> {
    let inner = keys.required_size("ssm.inner_size", MAX_SIZE)?;
    let key_heads = keys.required_size("ssm.group_count", MAX_SIZE)?;
    let value_heads = keys.required_size("ssm.time_step_rank", MAX_SIZE)?;
    divides(keys, "ssm.time_step_rank", value_heads, inner)?;
    divides(keys, "ssm.group_count", key_heads, value_heads)?;
    check_values(keys, "ssm.inner_size", inner / value_heads)?;
    Ok(DeltaNetConfig {
        key_heads,
        value_heads,
        key_size: keys.required_size("ssm.state_size", MAX_SIZE)?,
        value_size: inner / value_heads,
        taps: taps(keys, "ssm.conv_kernel")?,
        shared,
    })
}

fn kimi_delta(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<KimiDeltaConfig, LoadError> {
    let name = "kda.head_dim";
    let size = keys.required_size(name, MAX_SIZE)?;
    check_values(keys, name, size)?;
    let heads = keys.sizes("attention.head_count", shared.stored_layers, 1..=MAX_HEADS)?;
    let heads = keys.required("attention.head_count", heads)?;
    Ok(KimiDeltaConfig {
        heads: heads[0],
        size,
        taps: taps(keys, "ssm.conv_kernel")?,
    })
}

fn lightning(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<LightningConfig, LoadError> {
    let name = "attention.key_length";
    let heads = keys.required_size("attention.head_count", MAX_HEADS)?;
    let size = keys.size(name, MAX_SIZE)?.unwrap_or(shared.width / heads);
    check_values(keys, name, size)?;
    Ok(LightningConfig { heads, size })
}

fn rg_lru(keys: &Keys<'_, '_>) -> Result<RgLruConfig, LoadError> {
    let channels = keys.required_size("ssm.inner_size", MAX_SIZE)?;
    let heads = keys.required_size("ssm.group_count", MAX_SIZE)?;
    divides(keys, "ssm.group_count", heads, channels)?;
    Ok(RgLruConfig {
        channels,
        heads,
        taps: taps(keys, "ssm.conv_kernel")?,
    })
}

fn rwkv(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<RwkvConfig, LoadError> {
    let (name, width) = ("wkv.head_size", shared.width);
    let head_size = keys.required_size(name, MAX_SIZE)?;
    divides(keys, name, head_size, width)?;
    check_values(keys, name, head_size)?;
    let size = |name| keys.required_size(name, MAX_SIZE);
    let version = if shared.spec.recurrence == Recurrence::Rwkv6 {
        let heads = width / head_size;
        // 0, or nothing, for as many as there are heads.
        let kv_heads = keys.u32("attention.head_count_kv")?.unwrap_or(0) as usize;
        let kv_heads = if kv_heads == 0 { heads } else { kv_heads };
        divides(keys, "attention.head_count_kv", kv_heads, heads)?;
        RwkvVersion::Six {
            mix_rank: size("time_mix_extra_dim")?,
            decay_rank: size("time_decay_extra_dim")?,
            kv_heads,
        }
    } else {
        // Some converters write 0 for none.
        let gate_rank = keys.u32("attention.gate_lora_rank")?.unwrap_or(0) as usize;
        RwkvVersion::Seven {
            decay_rank: size("attention.decay_lora_rank")?,
            rate_rank: size("attention.iclr_lora_rank")?,
            value_rank: size("attention.value_residual_mix_lora_rank")?,
            gate_rank: (gate_rank > 0).then_some(gate_rank),
        }
    };
    Ok(RwkvConfig {
        width,
        head_size,
        channel_mix: shared.spec.branches == Branches::ChannelMix,
        version,
    })
}

/// Refuses a size that does not divide another.
fn divides(keys: &Keys<'_, '_>, name: &str, size: usize, whole: usize) -> Result<(), LoadError> {
    if whole.is_multiple_of(size) {
        return Ok(());
    }
    Err(LoadError::BadValue {
        key: keys.key(name),
        value: size as f64,
        needs: "a divisor of what it is part of",
    })
}

/// Refuses heads that are too large.
fn check_values(keys: &Keys<'_, '_>, name: &str, size: usize) -> Result<(), LoadError> {
    if size <= MAX_VALUES {
        return Ok(());
    }
    Err(LoadError::BadValue {
        key: keys.key(name),
        value: size as f64,
        needs: "at most 1024 in a head",
    })
}
