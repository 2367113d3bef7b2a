//! The sizes of each layer.

use super::MAX_SIZE;
use super::attention::{AttentionConfig, AttentionKeys};
use super::experts;
use super::keys::Keys;
use super::recurrent::{self, LayerKind, RecurrentConfig};
use super::rope::RopeConfig;
use crate::error::LoadError;
use crate::spec::{Activation, ArchSpec, Branches, FfnLength};
use alloc::vec;
use alloc::vec::Vec;

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerConfig {
    /// What lets tokens see each other.
    pub mixer: MixerConfig,
    /// The inner width of the feed-forward network.
    pub ffn: usize,
    /// The width of an expert, where the file says so by layer.
    pub expert_ffn: Option<usize>,
    /// Its activation.
    pub activation: Activation,
    /// How many standard deviations above the mean a gate must be not to be 0, if that is so.
    pub sparsity: Option<f32>,
}

/// What lets a layer's tokens see each other.
#[derive(Clone, Debug, PartialEq)]
pub enum MixerConfig {
    /// Nothing: the layer is a feed-forward network.
    Nothing,
    /// Attention.
    Attention(AttentionConfig),
    /// A recurrence.
    Recurrent(RecurrentConfig),
    /// Both, whose sum is added.
    Both(AttentionConfig, RecurrentConfig),
}

impl MixerConfig {
    /// Its attention, if it has any.
    pub fn attention(&self) -> Option<&AttentionConfig> {
        match self {
            Self::Attention(attention) | Self::Both(attention, _) => Some(attention),
            Self::Nothing | Self::Recurrent(_) => None,
        }
    }

    /// Its attention, to be changed.
    pub fn attention_mut(&mut self) -> Option<&mut AttentionConfig> {
        match self {
            Self::Attention(attention) | Self::Both(attention, _) => Some(attention),
            Self::Nothing | Self::Recurrent(_) => None,
        }
    }

    /// Its recurrence, if it has one.
    pub fn recurrent(&self) -> Option<&RecurrentConfig> {
        match self {
            Self::Recurrent(recurrent) | Self::Both(_, recurrent) => Some(recurrent),
            Self::Nothing | Self::Attention(_) => None,
        }
    }
}

impl LayerConfig {
    /// Its attention, if it has any.
    pub fn attention(&self) -> Option<&AttentionConfig> {
        self.mixer.attention()
    }
}

/// The layers' sizes, those of the one that predicts the token after the next, and the RoPEs that they use.
pub(super) type Layers = (Vec<LayerConfig>, Option<LayerConfig>, Vec<RopeConfig>);

/// What the layers share.
pub(super) struct Shared<'a> {
    pub(super) spec: &'a ArchSpec,
    pub(super) layers: usize,
    /// Those in the file: some have more, which predict tokens after the next.
    pub(super) stored_layers: usize,
    /// Whether the first of those is wanted too.
    pub(super) nextn: bool,
    pub(super) width: usize,
    pub(super) context: usize,
    /// The inner width of feed-forward networks where the file names none.
    pub(super) ffn: Option<usize>,
}

/// All layers that are wanted.
pub(super) fn layers(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<Layers, LoadError> {
    let ffn = ffn_lengths(keys, shared)?;
    let activations = activations(keys, shared)?;
    let kinds = recurrent::kinds(keys, shared, &ffn)?;
    let attention = match shared.nextn || kinds.iter().any(|kind| kind.attends()) {
        true => Some(AttentionKeys::new(keys, shared)?),
        false => None,
    };
    let expert_ffn = match shared.ffn {
        Some(_) => experts::widths(keys, shared.stored_layers)?,
        None => None,
    };
    let key = keys.key("activation_sparsity_scale");
    let sparsity = match keys.metadata.get(&key) {
        None => None,
        Some(_) => Some(keys.numbers(&key, shared.stored_layers)?),
    };
    let mut ropes = Vec::new();
    let mut layer = |layer: usize, kind: &LayerKind| {
        let recurrent = || recurrent::recurrent(keys, shared);
        let mut attend = || match &attention {
            Some(attention) => attention.layer(keys, shared, layer, &mut ropes),
            None => unreachable!("it is read where a layer attends"),
        };
        Ok::<_, LoadError>(LayerConfig {
            mixer: match kind {
                LayerKind::Network => MixerConfig::Nothing,
                LayerKind::Attention => MixerConfig::Attention(attend()?),
                LayerKind::Recurrent => MixerConfig::Recurrent(recurrent()?),
                LayerKind::Both => MixerConfig::Both(attend()?, recurrent()?),
            },
            ffn: ffn[layer],
            expert_ffn: expert_ffn.as_ref().map(|widths| widths[layer]),
            activation: activations[layer],
            sparsity: sparsity
                .as_ref()
                .map(|all| all[layer])
                .filter(|s| s.is_finite()),
        })
    };
    let layers = kinds.iter().enumerate();
    let layers = layers.map(|(index, kind)| layer(index, kind));
    let layers = layers.collect::<Result<_, _>>()?;
    let nextn = match shared.nextn {
        true => Some(layer(shared.layers, &LayerKind::Attention)?),
        false => None,
    };
    Ok((layers, nextn, ropes))
}

/// The inner widths of all layers' feed-forward networks; 0 for those that have none.
fn ffn_lengths(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<Vec<usize>, LoadError> {
    let (name, count) = ("feed_forward_length", shared.stored_layers);
    let fewest = match shared.spec.branches {
        Branches::MixerAlone => return Ok(vec![0; count]),
        Branches::Both | Branches::ChannelMix => 1,
        Branches::One => 0,
    };
    let ffn = keys.sizes(name, count, fewest..=MAX_SIZE)?;
    let ffn = ffn.or_else(|| shared.ffn.map(|ffn| vec![ffn; count]));
    let mut ffn = keys.required(name, ffn)?;
    if shared.spec.ffn_length == FfnLength::GateAndUp {
        ffn.iter_mut().for_each(|ffn| *ffn /= 2);
    }
    Ok(ffn)
}

/// Each layer's activation: xIELU has numbers of its own in every layer.
fn activations(keys: &Keys<'_, '_>, shared: &Shared<'_>) -> Result<Vec<Activation>, LoadError> {
    let activation = shared.spec.activation;
    let Activation::Xielu { .. } = activation else {
        return Ok(vec![activation; shared.stored_layers]);
    };
    let softplus = |x: f32| libm::log1pf(libm::expf(x));
    let floats = |name| keys.floats(name, shared.stored_layers);
    let (positive, negative) = (floats("xielu.alpha_p")?, floats("xielu.alpha_n")?);
    let slopes = floats("xielu.beta")?;
    let layers = positive.into_iter().zip(negative).zip(slopes);
    Ok(layers
        .map(|((positive, negative), slope)| Activation::Xielu {
            positive: softplus(positive),
            negative: slope + softplus(negative),
            slope,
        })
        .collect())
}
