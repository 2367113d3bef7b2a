//! An encoder's weights.

use crate::config::Config;
use crate::error::LoadError;
use crate::layer::{self, FfnWeights, NormWeights, block_norm};
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
    pub(crate) norm: Option<NormWeights>,
    pub(crate) layers: Vec<EncoderLayer>,
    /// The norm of the last layer's states.
    pub(crate) output_norm: Option<NormWeights>,
    /// What is done to states before they are pooled. It is linear: pooled states would give the same.
    pub(crate) dense: Vec<Linear>,
    pub(crate) rank: Option<RankHead>,
}

/// One layer.
pub(crate) struct EncoderLayer {
    pub(crate) attention: AttentionWeights,
    pub(crate) norms: EncoderNorms,
    pub(crate) ffn: FfnWeights,
}

/// Where the norms of a layer are.
pub(crate) enum EncoderNorms {
    /// After the branches.
    After {
        /// After attention and the layer's input.
        attn: NormWeights,
        /// Once more, with the layer's input added once more.
        attn_2: Option<NormWeights>,
        /// After the feed-forward network and its input.
        ffn: NormWeights,
    },
    /// Before the branches, whose results may be normed too.
    Before {
        attn: Option<NormWeights>,
        post_attn: Option<NormWeights>,
        ffn: Option<NormWeights>,
        post_ffn: Option<NormWeights>,
    },
}

impl EncoderNorms {
    fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let spec = config.spec;
        let mut norm =
            |presence, name| block_norm(tensors, spec.norm, presence, layer, name, config.width);
        if spec.attn_norm != Presence::Never {
            return Ok(Self::Before {
                attn: norm(spec.attn_norm, "attn_norm")?,
                post_attn: norm(spec.post_attn_norm, spec.norm_names.post_attn)?,
                ffn: norm(spec.ffn_norm, spec.norm_names.ffn)?,
                post_ffn: norm(spec.post_ffn_norm, spec.norm_names.post_ffn[0])?,
            });
        }
        let attn_2 = norm(spec.attn_norm_2, "attn_norm_2")?;
        let mut norm = |name: &str| {
            let name = alloc::format!("blk.{layer}.{name}");
            layer::norm(tensors, spec.norm, &name, config.width)
        };
        Ok(Self::After {
            attn: norm("attn_output_norm")?,
            attn_2,
            ffn: norm("layer_output_norm")?,
        })
    }
}

/// From a sequence's first state to scores, or its last in decoders: tanh(dense), then output; either may be absent.
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

    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
    ) -> Result<Option<Self>, LoadError> {
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
        let spec = config.spec;
        let mut norm = |presence, name| match presence {
            Presence::Never => Ok(None),
            _ => layer::norm(tensors, spec.norm, name, config.width).map(Some),
        };
        let embedding = norm(spec.embd_norm, "token_embd_norm")?;
        let output = match spec.attn_norm {
            Presence::Never => Presence::Never,
            Presence::Always | Presence::IfPresent => Presence::Always,
        };
        let output_norm = norm(output, spec.output_norm)?;
        let layers = (0..config.layers.len())
            .map(|index| EncoderLayer::load(tensors, config, index))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            types,
            norm: embedding,
            layers,
            output_norm,
            dense: dense(tensors, config)?,
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
        let attention = config.layers[layer].attention();
        let attention = attention.expect("an encoder has attention in every layer");
        Ok(Self {
            norms: EncoderNorms::load(tensors, config, layer)?,
            attention: AttentionWeights::load(tensors, config, attention, layer)?,
            ffn: FfnWeights::load(tensors, config, layer)?,
        })
    }
}

/// What `dense_2` and `dense_3` do to states.
fn dense(tensors: &mut Tensors<'_, '_>, config: &Config) -> Result<Vec<Linear>, LoadError> {
    let Some(inner) = tensors.rows("dense_2.weight") else {
        return Ok(Vec::new());
    };
    let mut linear = |name, columns, rows| {
        let matrix = tensors.matrix(name, columns, rows)?;
        Ok::<_, LoadError>(Linear { matrix, bias: None })
    };
    Ok(Vec::from([
        linear("dense_2.weight", config.width, inner)?,
        linear("dense_3.weight", inner, config.width)?,
    ]))
}
