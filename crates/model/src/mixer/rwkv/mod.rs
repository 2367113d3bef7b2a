//! RWKV 6 (<https://arxiv.org/abs/2404.05892>) and 7 (<https://arxiv.org/abs/2503.14456>): what goes in mixes with the token
//! before, and a state of keys × values for each head decays by a factor for each key.
//!
//! A sequence keeps the last token's input beside its states.

mod pass;

use super::convolution::ConvShape;
use super::scan::ScanShape;
use crate::config::{RwkvConfig, RwkvVersion};
use crate::error::LoadError;
use crate::layer::{Projections, block_linear};
use crate::matrix::{Experts, Linear, Matrix};
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use alloc::vec;
use alloc::vec::Vec;

impl RwkvConfig {
    /// The token before.
    pub(crate) fn shift(&self) -> ConvShape {
        ConvShape {
            before: 0,
            stride: self.width,
            offset: 0,
            channels: self.width,
            taps: 2,
        }
    }

    /// Floats that come before the states of heads.
    pub(crate) fn kept(&self) -> usize {
        let inputs = if self.channel_mix { 2 } else { 1 };
        inputs * self.width
    }

    pub(crate) fn scan(&self) -> ScanShape {
        ScanShape {
            heads: self.width / self.head_size,
            keys: self.head_size,
            values: self.head_size,
        }
    }

    /// Floats for each token: mixed inputs, what is between two low-rank matrices, six results, what heads read.
    pub(crate) fn spare(&self) -> usize {
        8 * self.width + self.between()
    }

    /// The widest result of a first low-rank matrix.
    fn between(&self) -> usize {
        match self.version {
            RwkvVersion::Six {
                mix_rank,
                decay_rank,
                ..
            } => (5 * mix_rank).max(decay_rank),
            RwkvVersion::Seven {
                decay_rank,
                rate_rank,
                value_rank,
                gate_rank,
            } => decay_rank
                .max(rate_rank)
                .max(value_rank)
                .max(gate_rank.unwrap_or(0)),
        }
    }

    /// The width of keys, and of values.
    fn kv_width(&self) -> usize {
        match self.version {
            RwkvVersion::Six { kv_heads, .. } => kv_heads * self.head_size,
            RwkvVersion::Seven { .. } => self.width,
        }
    }
}

/// Two matrices with little between them, and what is added.
#[derive(Clone, Debug)]
struct LowRank {
    down: Projections,
    up: Projections,
    bias: Vec<f32>,
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct RwkvWeights {
    pub(crate) config: RwkvConfig,
    /// How much of the token before goes into each input.
    lerps: Vec<f32>,
    pub(crate) receptance: Projections,
    key: Projections,
    value: Projections,
    decay: LowRank,
    rest: Version,
    /// Of heads: weight and bias.
    norm: Option<[Vec<f32>; 2]>,
    pub(crate) output: Linear,
}

#[derive(Clone, Debug)]
enum Version {
    Six {
        /// How much of the token before goes into what decides on the rest.
        lerp: Vec<f32>,
        /// Decides how much of the token before goes in: w, k, v, r, g.
        down: Projections,
        up: Experts,
        gate: Projections,
        /// What of a token's own value is read, by head and key.
        bonus: Option<Vec<f32>>,
    },
    Seven {
        /// How fast what is found for a key is replaced.
        rate: LowRank,
        /// How much of the first layer's values goes in; none in that layer.
        value: Option<LowRank>,
        gate: Option<[Projections; 2]>,
        /// What keys are multiplied by before they are looked for.
        searched: Vec<f32>,
        /// How much of the rate goes into keys.
        key_rate: Vec<f32>,
        /// What of a token's own value is read.
        own: Vec<f32>,
    },
}

impl RwkvWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &RwkvConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let width = config.width;
        let lerps = match config.version {
            RwkvVersion::Six { .. } => 5,
            RwkvVersion::Seven { gate_rank, .. } => 5 + usize::from(gate_rank.is_some()),
        };
        let fused = block_name(layer, "time_mix_lerp_fused", "weight");
        let lerps = if tensors.has(&fused) {
            tensors.vector(&fused, &[width as u64, 1, 1, lerps as u64])?
        } else {
            let mut all = Vec::new();
            for part in ["w", "k", "v", "r", "g"] {
                let name = alloc::format!("blk.{layer}.time_mix_lerp_{part}.weight");
                all.extend(tensors.vector(&name, &[width as u64])?);
            }
            all
        };
        let mut load = Loader { tensors, layer };
        let kv = config.kv_width();
        let receptance = load.projection("receptance", width, width)?;
        let key = load.projection("key", width, kv)?;
        let value = load.projection("value", width, kv)?;
        let (decay, rest) = match config.version {
            RwkvVersion::Six {
                mix_rank,
                decay_rank,
                ..
            } => (
                LowRank {
                    down: load.projection("decay_w1", width, decay_rank)?,
                    up: load.projection("decay_w2", decay_rank, width)?,
                    bias: load.vector("decay", width)?,
                },
                Version::Six {
                    lerp: load.vector("lerp_x", width)?,
                    down: load.projection("w1", width, 5 * mix_rank)?,
                    up: load.tensors.experts(
                        &block_name(layer, "time_mix_w2", "weight"),
                        mix_rank,
                        width,
                        5,
                    )?,
                    gate: load.projection("gate", width, width)?,
                    bonus: load.tensors.maybe_vector(
                        Presence::IfPresent,
                        &block_name(layer, "time_mix_first", "weight"),
                        &[config.head_size as u64, (width / config.head_size) as u64],
                    )?,
                },
            ),
            RwkvVersion::Seven {
                decay_rank,
                rate_rank,
                value_rank,
                gate_rank,
            } => {
                // The first layer has such matrices too, of another rank, and no use for them.
                let value_rank = if layer == 0 { rate_rank } else { value_rank };
                let mixed = load.low_rank("v", width, value_rank)?;
                (
                    load.low_rank("w", width, decay_rank)?,
                    Version::Seven {
                        rate: load.low_rank("a", width, rate_rank)?,
                        value: (layer > 0).then_some(mixed),
                        gate: match gate_rank {
                            Some(rank) => Some([
                                load.projection("g1", width, rank)?,
                                load.projection("g2", rank, width)?,
                            ]),
                            None => None,
                        },
                        searched: load.vector("k_k", width)?,
                        key_rate: load.vector("k_a", width)?,
                        own: load.vector("r_k", width)?,
                    },
                )
            }
        };
        let norm = block_name(layer, "time_mix_ln", "weight");
        let norm = if load.tensors.has(&norm) {
            let bias = block_name(layer, "time_mix_ln", "bias");
            let shape = &[width as u64];
            let weight = load.tensors.vector(&norm, shape)?;
            Some([weight, load.tensors.vector(&bias, shape)?])
        } else {
            None
        };
        let output = block_linear(
            load.tensors,
            layer,
            "time_mix_output",
            width,
            width,
            Presence::Never,
        )?;
        Ok(Self {
            config: *config,
            lerps,
            receptance,
            key,
            value,
            decay,
            rest,
            norm,
            output,
        })
    }

    /// The matrices between the first and the last.
    pub(crate) fn inner_matrices(&self) -> impl Iterator<Item = &Matrix> {
        let mut all: Vec<&Projections> = vec![&self.key, &self.value];
        all.extend([&self.decay.down, &self.decay.up]);
        let mut experts: &[Matrix] = &[];
        match &self.rest {
            Version::Six { down, up, gate, .. } => {
                all.extend([down, gate]);
                experts = &up.0;
            }
            Version::Seven {
                rate, value, gate, ..
            } => {
                for low in [Some(rate), value.as_ref()].into_iter().flatten() {
                    all.extend([&low.down, &low.up]);
                }
                all.extend(gate.iter().flatten());
            }
        }
        let linears = all.into_iter().flat_map(|projections| &projections.0);
        linears.map(|linear| &linear.matrix).chain(experts)
    }
}

/// Asks for a layer's tensors by their last name.
struct Loader<'t, 'a, 'f> {
    tensors: &'t mut Tensors<'a, 'f>,
    layer: usize,
}

impl Loader<'_, '_, '_> {
    fn projection(
        &mut self,
        name: &str,
        columns: usize,
        rows: usize,
    ) -> Result<Projections, LoadError> {
        let name = alloc::format!("time_mix_{name}");
        let bias = Presence::IfPresent;
        let linear = block_linear(self.tensors, self.layer, &name, columns, rows, bias)?;
        Ok(Projections(vec![linear]))
    }

    fn vector(&mut self, name: &str, width: usize) -> Result<Vec<f32>, LoadError> {
        let name = alloc::format!("blk.{}.time_mix_{name}.weight", self.layer);
        self.tensors.vector(&name, &[width as u64])
    }

    fn low_rank(&mut self, name: &str, width: usize, rank: usize) -> Result<LowRank, LoadError> {
        Ok(LowRank {
            down: self.projection(&alloc::format!("{name}1"), width, rank)?,
            up: self.projection(&alloc::format!("{name}2"), rank, width)?,
            bias: self.vector(&alloc::format!("{name}0"), width)?,
        })
    }
}
