//! The encoder's weights, which audio towers beside language models have too, under names of their own.

use crate::blocks::{AttentionLayer, BlockReader, Network};
use crate::error::LoadError;
use crate::layer::NormWeights;
use crate::matrix::Linear;
use alloc::format;
use alloc::vec::Vec;

pub(crate) struct EncoderWeights {
    /// Over three frames of all bands, and over three states.
    pub(crate) convolutions: [Linear; 2],
    /// (positions, width).
    pub(super) position: Vec<f32>,
    pub(crate) layers: Vec<EncoderLayer>,
    pub(crate) output_norm: NormWeights,
}

pub(crate) struct EncoderLayer {
    pub(crate) attention: AttentionLayer,
    pub(super) network: Network,
}

/// What a file calls an encoder's tensors, without `.weight` and `.bias`.
pub(crate) struct EncoderNames {
    pub(crate) convolutions: [&'static str; 2],
    pub(crate) position: &'static str,
    /// Before a layer's number.
    pub(crate) block: &'static str,
    /// After it: in the order of [`AttentionLayer`].
    pub(crate) attention: [&'static str; 5],
    /// In the order of [`Network`].
    pub(crate) network: [&'static str; 3],
    pub(crate) output_norm: &'static str,
}

/// An encoder's sizes.
#[derive(Copy, Clone)]
pub(crate) struct EncoderSizes {
    pub(crate) bands: usize,
    pub(crate) positions: usize,
    pub(crate) layers: usize,
    pub(crate) ffn: usize,
}

impl BlockReader<'_, '_, '_> {
    /// A vector for each position.
    pub(super) fn position(&mut self, name: &str, positions: usize) -> Result<Vec<f32>, LoadError> {
        let shape = [self.width as u64, positions as u64];
        self.tensors.vector(&format!("{name}.weight"), &shape)
    }

    /// All of an encoder.
    pub(crate) fn encoder(
        &mut self,
        names: &EncoderNames,
        sizes: EncoderSizes,
    ) -> Result<EncoderWeights, LoadError> {
        let [first, second] = names.convolutions;
        let convolutions = [
            self.convolution(first, sizes.bands)?,
            self.convolution(second, self.width)?,
        ];
        let layers = (0..sizes.layers).map(|index| {
            let name = |part: &str| format!("{}.{index}.{part}", names.block);
            let attention = names.attention.map(name);
            let network = names.network.map(name);
            Ok(EncoderLayer {
                attention: self.attention(attention.each_ref().map(|name| &**name))?,
                network: self.network(network.each_ref().map(|name| &**name), sizes.ffn)?,
            })
        });
        let layers = layers.collect::<Result<_, LoadError>>()?;
        Ok(EncoderWeights {
            convolutions,
            position: self.position(names.position, sizes.positions)?,
            layers,
            output_norm: self.norm(names.output_norm)?,
        })
    }
}
