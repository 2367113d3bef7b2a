//! Recurrences: mixers that keep a state of a fixed size for each sequence.

use super::MixerSizes;
use super::channel_mix;
use super::channel_scan::{RgLruWeights, Rwkv4Weights};
use super::delta_net::DeltaNetWeights;
use super::kimi_delta::KimiDeltaWeights;
use super::lightning::LightningWeights;
use super::mamba::MambaWeights;
use super::rwkv::RwkvWeights;
use super::short_conv::ShortConvWeights;
use crate::config::{Config, RecurrentConfig};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::Projections;
use crate::matrix::{Linear, Matrix};
use crate::pages::PagesMut;
use crate::tensors::Tensors;
use crate::workspace::Workspace;
use alloc::vec::Vec;

/// One layer's recurrence.
#[derive(Clone, Debug)]
pub(crate) enum Recurrent {
    ShortConv(ShortConvWeights),
    Mamba(MambaWeights),
    DeltaNet(DeltaNetWeights),
    Rwkv(RwkvWeights),
    KimiDelta(KimiDeltaWeights),
    RgLru(RgLruWeights),
    Rwkv4(Rwkv4Weights),
    Lightning(LightningWeights),
}

impl Recurrent {
    pub(super) fn load(
        tensors: &mut Tensors<'_, '_>,
        model: &Config,
        config: &RecurrentConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        match config {
            RecurrentConfig::ShortConv(config) => {
                ShortConvWeights::load(tensors, config, layer).map(Self::ShortConv)
            }
            RecurrentConfig::Mamba(config) => {
                MambaWeights::load(tensors, model.width, config, layer).map(Self::Mamba)
            }
            RecurrentConfig::DeltaNet(config) => {
                DeltaNetWeights::load(tensors, model.width, config, layer).map(Self::DeltaNet)
            }
            RecurrentConfig::Rwkv(config) => {
                RwkvWeights::load(tensors, config, layer).map(Self::Rwkv)
            }
            RecurrentConfig::KimiDelta(config) => {
                KimiDeltaWeights::load(tensors, model.width, config, layer).map(Self::KimiDelta)
            }
            RecurrentConfig::RgLru(config) => {
                RgLruWeights::load(tensors, model.width, config, layer).map(Self::RgLru)
            }
            RecurrentConfig::Rwkv4(config) => {
                Rwkv4Weights::load(tensors, config, layer).map(Self::Rwkv4)
            }
            RecurrentConfig::Lightning(config) => {
                let sizes = (model.width, model.layers.len());
                LightningWeights::load(tensors, sizes, config, layer).map(Self::Lightning)
            }
        }
    }

    /// The matrices that see a layer's input.
    pub(super) fn input(&self) -> &Projections {
        match self {
            Self::ShortConv(weights) => &weights.input,
            Self::Mamba(weights) => &weights.input,
            Self::DeltaNet(weights) => &weights.input,
            Self::Rwkv(weights) => &weights.receptance,
            Self::KimiDelta(weights) => &weights.input,
            Self::RgLru(weights) => &weights.input,
            Self::Rwkv4(weights) => &weights.receptance,
            Self::Lightning(weights) => &weights.input,
        }
    }

    /// The last matrix.
    pub(super) fn output(&self) -> &Linear {
        match self {
            Self::ShortConv(weights) => &weights.output,
            Self::Mamba(weights) => &weights.output,
            Self::DeltaNet(weights) => &weights.output,
            Self::Rwkv(weights) => &weights.output,
            Self::KimiDelta(weights) => &weights.output,
            Self::RgLru(weights) => &weights.output,
            Self::Rwkv4(weights) => &weights.output,
            Self::Lightning(weights) => &weights.output,
        }
    }

    /// Those between.
    pub(super) fn inner_matrices(&self) -> impl Iterator<Item = &Matrix> {
        let inner: Vec<&Matrix> = match self {
            Self::Mamba(weights) => weights.inner_matrices().collect(),
            Self::Rwkv(weights) => weights.inner_matrices().collect(),
            Self::KimiDelta(weights) => weights.inner_matrices().collect(),
            Self::Rwkv4(weights) => weights.inner_matrices().collect(),
            Self::ShortConv(_) | Self::DeltaNet(_) | Self::RgLru(_) | Self::Lightning(_) => {
                Vec::new()
            }
        };
        inner.into_iter()
    }
}

impl RecurrentConfig {
    pub(super) fn sizes(&self) -> MixerSizes {
        let (projected, mixed, state, spare) = match self {
            Self::ShortConv(config) => (
                config.projected(),
                config.channels,
                config.conv().state_floats(),
                0,
            ),
            Self::Mamba(config) => (
                config.projected(),
                config.inner,
                config.conv().state_floats(),
                config.spare(),
            ),
            Self::DeltaNet(config) => (
                config.projected(),
                config.mixed(),
                config.conv().state_floats(),
                config.spare(),
            ),
            Self::KimiDelta(config) => (
                config.projected(),
                config.width(),
                config.conv().state_floats(),
                config.spare(),
            ),
            Self::RgLru(config) => (
                2 * config.channels,
                config.channels,
                config.conv().state_floats(),
                config.spare(),
            ),
            Self::Rwkv4(config) => (
                0,
                config.width,
                config.shift().state_floats(),
                config.spare().max(channel_mix::spare(config.width)),
            ),
            Self::Lightning(config) => (4 * config.width(), config.width(), 0, config.width()),
            Self::Rwkv(config) => {
                return MixerSizes {
                    mixed: config.width,
                    state: config.shift().state_floats(),
                    spare: config.spare().max(channel_mix::spare(config.width)),
                    first_values: config.width,
                    ..MixerSizes::default()
                };
            }
        };
        MixerSizes {
            projected,
            mixed,
            state,
            spare,
            ..MixerSizes::default()
        }
    }
}

impl Pass<'_> {
    /// A recurrence, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn recur(
        &self,
        layer: usize,
        recurrent: &Recurrent,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        match recurrent {
            Recurrent::ShortConv(weights) => self.short_conv(layer, weights, pages, work),
            Recurrent::Mamba(weights) => self.mamba(layer, weights, pages, work),
            Recurrent::DeltaNet(weights) => self.delta_net(layer, weights, pages, work),
            Recurrent::Rwkv(weights) => self.rwkv(layer, weights, pages, work),
            Recurrent::KimiDelta(weights) => self.kimi_delta(layer, weights, pages, work),
            Recurrent::RgLru(weights) => self.rg_lru(layer, weights, pages, work),
            Recurrent::Rwkv4(weights) => self.rwkv4(layer, weights, pages, work),
            Recurrent::Lightning(weights) => self.lightning(layer, weights, pages, work),
        }
    }
}
