//! The weights of a model with CTC, asked for by name and shape, and packed into memory.

use super::config::{CtcConfig, CtcNorm};
use crate::blocks::{AttentionLayer, BlockReader, Network};
use crate::error::LoadError;
use crate::layer::{self, NormWeights};
use crate::matrix::{Experts, Linear};
use crate::packed::PackedMatrices;
use crate::spec::Norm;
use crate::tensors::Tensors;
use alloc::format;
use alloc::vec::Vec;
use strata_platform::{Memory, Pool};
use strata_weights::GgufSet;

/// The tensor of the output.
const OUTPUT: &str = "output.weight";

/// Wav2Vec2 or HuBERT with CTC, ready to run.
pub struct Ctc {
    pub(super) config: CtcConfig,
    pub(super) weights: CtcWeights,
    pub(super) packed: PackedMatrices,
}

pub(super) struct CtcWeights {
    pub(super) convolutions: Vec<Convolution>,
    /// Of the rows that they make.
    pub(super) feature_norm: Option<NormWeights>,
    pub(super) features: Linear,
    pub(super) position: PositionWeights,
    /// Before the layers, or after them.
    pub(super) norm: NormWeights,
    pub(super) layers: Vec<(AttentionLayer, Network)>,
    pub(super) output: Linear,
}

/// A convolution over rows of sound: a matrix over as many rows as its kernel has, one after the other.
pub(super) struct Convolution {
    pub(super) linear: Linear,
    pub(super) norm: Option<NormWeights>,
}

/// The convolution that says where a row is: a matrix for each group.
pub(super) struct PositionWeights {
    pub(super) groups: Experts,
    pub(super) bias: Vec<f32>,
}

fn convolutions(
    reader: &mut BlockReader<'_, '_, '_>,
    config: &CtcConfig,
) -> Result<Vec<Convolution>, LoadError> {
    let mut below = 1;
    let layers = config.convolutions.iter().enumerate();
    let layers = layers.map(|(index, layer)| {
        let name = format!("feat.conv.{index}");
        let linear = reader.linear(&name, layer.kernel * below, layer.channels)?;
        below = layer.channels;
        let normed = index == 0 || config.norm == CtcNorm::Layer;
        let name = format!("feat.norm.{index}");
        let norm = normed
            .then(|| layer::norm(reader.tensors, Norm::LayerBias, &name, layer.channels))
            .transpose()?;
        Ok(Convolution { linear, norm })
    });
    layers.collect()
}

fn weights(
    reader: &mut BlockReader<'_, '_, '_>,
    config: &CtcConfig,
) -> Result<CtcWeights, LoadError> {
    let (width, groups) = (config.width, config.position_groups);
    let convolutions = convolutions(reader, config)?;
    let channels = config.convolutions.last().map_or(1, |last| last.channels);
    // Some of HuBERT's models have none.
    let feature_norm = reader
        .tensors
        .has("feat.output_norm.weight")
        .then(|| {
            layer::norm(
                reader.tensors,
                Norm::LayerBias,
                "feat.output_norm",
                channels,
            )
        })
        .transpose()?;
    let features = reader.linear("feat.output", channels, width)?;
    let inner = width / groups;
    let columns = config.position_kernel * inner;
    let position = PositionWeights {
        groups: reader
            .tensors
            .experts("position_conv.weight", columns, inner, groups)?,
        bias: reader
            .tensors
            .vector("position_conv.bias", &[width as u64])?,
    };
    let layers = (0..config.layers).map(|index| {
        let names = |parts: &[&str]| -> Vec<_> {
            let names = parts.iter().map(|part| format!("blk.{index}.{part}"));
            names.collect()
        };
        let of_attention = names(&["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"]);
        let of_network = names(&["ffn_norm", "ffn_up", "ffn_down"]);
        Ok((
            reader.attention(core::array::from_fn(|part| &*of_attention[part]))?,
            reader.network(core::array::from_fn(|part| &*of_network[part]), config.ffn)?,
        ))
    });
    let layers = layers.collect::<Result<_, LoadError>>()?;
    Ok(CtcWeights {
        convolutions,
        feature_norm,
        features,
        position,
        norm: reader.norm("output_norm")?,
        layers,
        output: reader.linear("output", width, config.vocabulary)?,
    })
}

fn read(
    file: &GgufSet<'_>,
    tensors: &mut Tensors<'_, '_>,
) -> Result<(CtcConfig, CtcWeights), LoadError> {
    let vocabulary = tensors.rows(OUTPUT).unwrap_or(0);
    let config = CtcConfig::new(file.metadata(), vocabulary)?;
    let mut reader = BlockReader {
        tensors,
        width: config.width,
    };
    let weights = weights(&mut reader, &config)?;
    tensors.finish()?;
    Ok((config, weights))
}

impl Ctc {
    /// Checks a file and packs its matrices into memory; the file is not needed any more.
    pub fn load(
        file: &GgufSet<'_>,
        memory: &dyn Memory,
        pool: &dyn Pool,
    ) -> Result<Self, LoadError> {
        let mut tensors = Tensors::new(file, "wav2vec2", "");
        let (config, weights) = read(file, &mut tensors)?;
        let packed = PackedMatrices::new(&tensors.sources, memory, pool)?;
        Ok(Self {
            config,
            weights,
            packed,
        })
    }

    /// Looks at a file without taking memory for it: whether it could be loaded, and its sizes.
    pub fn check(file: &GgufSet<'_>) -> Result<CtcConfig, LoadError> {
        let mut tensors = Tensors::new(file, "wav2vec2", "");
        Ok(read(file, &mut tensors)?.0)
    }

    /// Its sizes.
    pub fn config(&self) -> &CtcConfig {
        &self.config
    }

    /// Bytes of its matrices.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len()
    }
}
