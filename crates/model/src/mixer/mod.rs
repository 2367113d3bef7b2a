//! Mixers: what lets a layer's tokens see each other.
//!
//! Each has a folder or file of its own with what it loads, what it needs for a token and for a sequence, and how it runs.
//! What it keeps of a sequence is in pages, a block for every few positions, or in a state of a fixed size.

pub(crate) mod attention;
pub(crate) mod short_conv;

use crate::adaptation::every_token;
use crate::adapter::{Rows, RowsMut};
use crate::config::{Config, MixerConfig};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::Projections;
use crate::matrix::{Linear, Matrix};
use crate::pages::PagesMut;
use crate::tensors::Tensors;
use crate::workspace::Workspace;
use alloc::boxed::Box;
use attention::{AttentionWeights, paged};
use short_conv::ShortConvWeights;

/// One layer's mixer.
#[derive(Clone, Debug)]
pub(crate) enum Mixer {
    Attention(Box<AttentionWeights>),
    ShortConv(ShortConvWeights),
}

impl Mixer {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        model: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        match &model.layers[layer].mixer {
            MixerConfig::Attention(config) => {
                let weights = AttentionWeights::load(tensors, model, config, layer)?;
                Ok(Self::Attention(Box::new(weights)))
            }
            MixerConfig::ShortConv(config) => {
                ShortConvWeights::load(tensors, config, layer).map(Self::ShortConv)
            }
        }
    }

    /// The matrices that see a layer's input.
    pub(crate) fn input(&self) -> &Projections {
        match self {
            Self::Attention(weights) => &weights.qkv,
            Self::ShortConv(weights) => &weights.input,
        }
    }

    /// The last matrix. Its bias is added with the branch.
    pub(crate) fn output(&self) -> &Linear {
        match self {
            Self::Attention(weights) => &weights.output,
            Self::ShortConv(weights) => &weights.output,
        }
    }

    /// All matrices, in the order of their use.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let linears = self.input().0.iter().chain([self.output()]);
        linears.map(|linear| &linear.matrix)
    }
}

/// What running a mixer takes, in floats.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MixerSizes {
    /// For each token, what the first matrices give.
    pub(crate) projected: usize,
    /// For each token, what goes into the last matrix.
    pub(crate) mixed: usize,
    /// For each span, what it kept of the positions before.
    pub(crate) state: usize,
    /// For attention's chunks.
    pub(crate) partials: usize,
}

impl MixerConfig {
    fn sizes(&self) -> MixerSizes {
        match self {
            Self::Attention(config) => MixerSizes {
                projected: config.qkv_width(),
                mixed: config.q_width(),
                state: 0,
                partials: paged::partial_floats(config),
            },
            Self::ShortConv(config) => MixerSizes {
                projected: config.projected(),
                mixed: config.channels,
                state: config.state_floats(),
                partials: 0,
            },
        }
    }
}

impl MixerSizes {
    /// Enough for every layer.
    pub(crate) fn of(config: &Config) -> Self {
        let layers = config.layers.iter().map(|layer| layer.mixer.sizes());
        layers.fold(Self::default(), |all, layer| Self {
            projected: all.projected.max(layer.projected),
            mixed: all.mixed.max(layer.mixed),
            state: all.state.max(layer.state),
            partials: all.partials.max(layer.partials),
        })
    }
}

impl Pass<'_> {
    /// The mixer's branch of a layer, from its encoded input into `branch`.
    pub(crate) fn mix(
        &self,
        layer: usize,
        mixer: &Mixer,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        match mixer {
            Mixer::Attention(weights) => self.attend(layer, weights, pages, work),
            Mixer::ShortConv(weights) => self.convolve(layer, weights, pages, work),
        }
        let output = &mixer.output().matrix;
        let branch = &mut work.branch[..self.tokens * output.rows];
        self.multiply_one(output, &mut work.acts, branch);
        let x = Rows {
            floats: &work.mixed,
            stride: output.columns,
        };
        self.observe(output, x, self.tokens);
        let out = RowsMut {
            floats: branch,
            stride: output.rows,
            offset: 0,
        };
        self.adapt(output, x, out, every_token);
    }
}
