//! Mixers: what lets a layer's tokens see each other.
//!
//! Each has a folder or file of its own with what it loads, what it needs for a token and for a sequence, and how it runs.
//! What it keeps of a sequence is in pages, a block for every few positions, or in a state of a fixed size.

pub(crate) mod attention;
pub(crate) mod channel_mix;
mod channel_scan;
pub(crate) mod convolution;
mod delta_net;
mod kimi_delta;
mod lightning;
mod mamba;
mod recurrent;
mod rwkv;
pub(crate) mod scan;
mod short_conv;

use crate::adaptation::every_token;
use crate::adapter::{Rows, RowsMut};
use crate::config::{Config, MixerConfig};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::Formats;
use crate::matrix::{Linear, Matrix};
use crate::pages::PagesMut;
use crate::spec::{AttnGate, DenseBeside, RouterInput};
use crate::tensors::Tensors;
use crate::workspace::Workspace;
use alloc::boxed::Box;
use attention::{AttentionWeights, paged};
use recurrent::Recurrent;

/// One layer's mixer.
#[derive(Clone, Debug)]
pub(crate) enum Mixer {
    Attention(Box<AttentionWeights>),
    Recurrent(Box<Recurrent>),
    /// Both see the layer's input, and their results are added.
    Both(Box<AttentionWeights>, Box<Recurrent>),
}

impl Mixer {
    /// A layer's, unless it has none.
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        model: &Config,
        layer: usize,
    ) -> Result<Option<Self>, LoadError> {
        let mixer = &model.layers[layer].mixer;
        let attention = match mixer.attention() {
            Some(config) => {
                let weights = AttentionWeights::load(tensors, model, config, layer)?;
                Some(Box::new(weights))
            }
            None => None,
        };
        let recurrent = match mixer.recurrent() {
            Some(config) => Some(Box::new(Recurrent::load(tensors, model, config, layer)?)),
            None => None,
        };
        Ok(match (attention, recurrent) {
            (None, None) => None,
            (Some(attention), None) => Some(Self::Attention(attention)),
            (None, Some(recurrent)) => Some(Self::Recurrent(recurrent)),
            (Some(attention), Some(recurrent)) => Some(Self::Both(attention, recurrent)),
        })
    }

    fn attention(&self) -> Option<&AttentionWeights> {
        match self {
            Self::Attention(attention) | Self::Both(attention, _) => Some(attention),
            Self::Recurrent(_) => None,
        }
    }

    fn recurrent(&self) -> Option<&Recurrent> {
        match self {
            Self::Recurrent(recurrent) | Self::Both(_, recurrent) => Some(recurrent),
            Self::Attention(_) => None,
        }
    }

    /// What a layer's input is encoded in.
    pub(crate) fn formats(&self) -> Formats {
        let inputs = [
            self.attention().map(|weights| &weights.qkv),
            self.recurrent().map(Recurrent::input),
        ];
        let inputs = inputs.into_iter().flatten();
        inputs.flat_map(|input| input.formats()).collect()
    }

    /// The bias of the last matrix, which is added with the branch.
    pub(crate) fn bias(&self) -> Option<&[f32]> {
        match self {
            Self::Attention(attention) => attention.output.bias.as_deref(),
            Self::Recurrent(recurrent) => recurrent.output().bias.as_deref(),
            Self::Both(attention, _) => attention.output.bias.as_deref(),
        }
    }

    /// The matrices that each head has its own of, as they are in one head, and the number of heads.
    pub(crate) fn head_matrices(&self) -> Option<([&Matrix; 2], usize)> {
        if let Some(Recurrent::RgLru(weights)) = self.recurrent() {
            return Some(weights.head_matrices());
        }
        let attention = self.attention()?;
        let matrices = attention.latent.as_ref()?.head_matrices()?;
        Some((matrices, attention.config.heads))
    }

    /// All other matrices, in the order of their use.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let attention = self.attention().into_iter().flat_map(|weights| {
            let first = weights.qkv.0.iter().map(|linear| &linear.matrix);
            let between = weights.latent.iter().flat_map(|latent| latent.matrices());
            first.chain(between).chain([&weights.output.matrix])
        });
        let recurrent = self.recurrent().into_iter().flat_map(|recurrent| {
            let input = recurrent.input().0.iter().map(|linear| &linear.matrix);
            let output = [&recurrent.output().matrix];
            input.chain(recurrent.inner_matrices()).chain(output)
        });
        attention.chain(recurrent)
    }
}

/// What running a mixer takes, in floats.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MixerSizes {
    /// For each token, what the first matrices give.
    pub(crate) projected: usize,
    /// For each token, what goes into the last matrix.
    pub(crate) mixed: usize,
    /// For each span, what convolutions kept of the positions before.
    pub(crate) state: usize,
    /// For each token, what recurrences have in between.
    pub(crate) spare: usize,
    /// For each token, the second of two results.
    pub(crate) second: usize,
    /// For each token, the first layer's values.
    pub(crate) first_values: usize,
    /// For attention's chunks.
    pub(crate) partials: usize,
}

impl MixerConfig {
    fn sizes(&self, width: usize) -> MixerSizes {
        let attention = self.attention().map(|config| MixerSizes {
            projected: config.qkv_width(),
            mixed: config.mixed_width(),
            partials: paged::partial_floats(config),
            spare: match (&config.latent, config.gate) {
                (Some(latent), _) => latent.spare(config),
                (None, AttnGate::WithQueries) => config.qkv_width(),
                (None, _) => 0,
            },
            ..MixerSizes::default()
        });
        let recurrent = self.recurrent().map(|config| config.sizes());
        match (attention, recurrent) {
            (Some(attention), Some(recurrent)) => MixerSizes {
                second: width,
                ..attention.or(recurrent)
            },
            (one, other) => one.or(other).unwrap_or_default(),
        }
    }
}

impl MixerSizes {
    /// Enough for every layer.
    pub(crate) fn of(config: &Config) -> Self {
        let layers = config.layers.iter().chain(&config.nextn);
        let sizes = layers.map(|layer| layer.mixer.sizes(config.width));
        // Branches beside and after mixers use their buffers.
        let beside = Self {
            spare: config.layer_input.unwrap_or(0),
            second: match &config.experts {
                Some(experts)
                    if experts.routing.dense == DenseBeside::Normed
                        || experts.routing.sees == RouterInput::Layer =>
                {
                    config.width
                }
                _ => 0,
            },
            ..Self::default()
        };
        let streams = Self {
            spare: config.width,
            second: config.width,
            ..Self::default()
        };
        let streams = config.streams.map_or(Self::default(), |_| streams);
        let sizes = sizes.fold(beside.or(streams), Self::or);
        match &config.source {
            Some(source) => sizes.or(Self::of(&source.encoder)),
            None => sizes,
        }
    }

    /// Enough for either.
    fn or(self, other: Self) -> Self {
        Self {
            projected: self.projected.max(other.projected),
            mixed: self.mixed.max(other.mixed),
            state: self.state.max(other.state),
            spare: self.spare.max(other.spare),
            second: self.second.max(other.second),
            first_values: self.first_values.max(other.first_values),
            partials: self.partials.max(other.partials),
        }
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
            Mixer::Attention(weights) => {
                self.attend(layer, weights, pages, work);
                self.mixer_output(&weights.output, work);
            }
            Mixer::Recurrent(recurrent) => {
                self.recur(layer, recurrent, pages, work);
                self.mixer_output(recurrent.output(), work);
            }
            Mixer::Both(weights, recurrent) => {
                self.attend(layer, weights, pages, work);
                self.mixer_output(&weights.output, work);
                let (width, floats) = (self.config.width, self.tokens * self.config.width);
                work.second[..floats].copy_from_slice(&work.branch[..floats]);
                // Attention has encoded something else since.
                self.encode_input(recurrent.input(), &work.normed[..floats], &mut work.acts);
                self.recur(layer, recurrent, pages, work);
                self.mixer_output(recurrent.output(), work);
                let (branch, second) = (&mut work.branch[..floats], &work.second[..floats]);
                self.compute.add(branch, second, width);
            }
        }
    }

    /// The last matrix, into `branch`.
    pub(crate) fn mixer_output(&self, output: &Linear, work: &mut Workspace) {
        let output = &output.matrix;
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
