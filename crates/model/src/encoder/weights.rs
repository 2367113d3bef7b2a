//! An encoder's weights.

use crate::config::Config;
use crate::error::LoadError;
use crate::layer::{self, DenseFfn, NormWeights, block_norm};
use crate::matrix::Linear;
use crate::mixer::attention::AttentionWeights;
use crate::spec::Presence;
use crate::tensors::Tensors;
use alloc::vec::Vec;

/// What comes after the embedding.
pub(crate) struct Encoder {
    /// (types, width): added to a token by the segment that it is in. Empty in models without.
    pub(crate) types: Vec<f32>,
    /// The norm of the embedding.
    pub(crate) norm: NormWeights,
    pub(crate) layers: Vec<EncoderLayer>,
    pub(crate) rank: Option<RankHead>,
}

/// One layer.
pub(crate) struct EncoderLayer {
    pub(crate) attention: AttentionWeights,
    /// After attention and the layer's input.
    pub(crate) attn_norm: NormWeights,
    /// Once more, with the layer's input added once more.
    pub(crate) attn_norm_2: Option<NormWeights>,
    pub(crate) ffn: DenseFfn,
    /// After the feed-forward network and its input.
    pub(crate) ffn_norm: NormWeights,
}

/// From a sequence's first state to scores: tanh(dense), then output; either may be absent.
pub(crate) struct RankHead {
    pub(crate) dense: Option<Linear>,
    pub(crate) output: Option<Linear>,
}

impl RankHead {
    /// How many scores a sequence has.
    pub(crate) fn labels(&self) -> usize {
        let last = self.output.as_ref().or(self.dense.as_ref());
        last.map_or(0, |linear| linear.matrix.rows)
    }

    fn load(tensors: &mut Tensors<'_, '_>, config: &Config) -> Result<Option<Self>, LoadError> {
        let width = config.width;
        let mut linear = |name: &str, rows: Option<usize>| -> Result<Option<Linear>, LoadError> {
            let weight = alloc::format!("{name}.weight");
            let Some(found) = tensors.rows(&weight) else {
                return Ok(None);
            };
            let rows = rows.unwrap_or(found);
            let bias = alloc::format!("{name}.bias");
            Ok(Some(Linear {
                matrix: tensors.matrix(&weight, width, rows)?,
                bias: tensors.maybe_vector(Presence::IfPresent, &bias, &[rows as u64])?,
            }))
        };
        let output = linear("cls.output", None)?;
        let dense = linear("cls", output.as_ref().map(|_| width))?;
        let head = Self { dense, output };
        Ok((head.labels() > 0).then_some(head))
    }
}

impl Encoder {
    pub(crate) fn load(tensors: &mut Tensors<'_, '_>, config: &Config) -> Result<Self, LoadError> {
        let types = match tensors.rows("token_types.weight") {
            Some(rows) => {
                let shape = &[config.width as u64, rows as u64];
                tensors.vector("token_types.weight", shape)?
            }
            None => Vec::new(),
        };
        let norm = layer::norm(tensors, config.spec.norm, "token_embd_norm", config.width)?;
        let layers = (0..config.layers.len())
            .map(|index| EncoderLayer::load(tensors, config, index))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            types,
            norm,
            layers,
            rank: RankHead::load(tensors, config)?,
        })
    }
}

impl EncoderLayer {
    fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (spec, width) = (config.spec, config.width);
        let attention = config.layers[layer].attention();
        let attention = attention.expect("an encoder has attention in every layer");
        let attention = AttentionWeights::load(tensors, config, attention, layer)?;
        let attn_norm_2 = block_norm(
            tensors,
            spec.norm,
            spec.attn_norm_2,
            layer,
            "attn_norm_2",
            width,
        )?;
        let mut norm = |name: &str| {
            layer::norm(
                tensors,
                spec.norm,
                &alloc::format!("blk.{layer}.{name}"),
                width,
            )
        };
        let attn_norm = norm("attn_output_norm")?;
        let ffn_norm = norm("layer_output_norm")?;
        Ok(Self {
            attention,
            attn_norm,
            attn_norm_2,
            ffn: DenseFfn::load(tensors, config, layer, config.layers[layer].ffn)?,
            ffn_norm,
        })
    }
}
