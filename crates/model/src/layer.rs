//! The weights of one layer.

use crate::config::{Config, ExpertConfig};
use crate::error::LoadError;
use crate::matrix::{Experts, Linear, Matrix};
use crate::mixer::Mixer;
use crate::residual::BranchInput;
use crate::spec::{Ffn, Fusion, Norm, Presence};
use crate::tensors::{Tensors, block_name};
use alloc::vec::Vec;
use strata_kernels::{ActFormat, Kernels, act_format};

/// A norm's weights.
#[derive(Clone, Debug)]
pub(crate) struct NormWeights {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
}

/// Projections of one input, side by side in one output.
#[derive(Clone, Debug)]
pub(crate) struct Projections(pub(crate) Vec<Linear>);

impl Projections {
    /// The width of what they see.
    pub(crate) fn columns(&self) -> usize {
        self.0[0].matrix.columns
    }

    /// The width of all results together.
    pub(crate) fn rows(&self) -> usize {
        self.0.iter().map(|linear| linear.matrix.rows).sum()
    }

    /// Adds the biases to one row of results.
    pub(crate) fn add_biases(&self, kernels: &Kernels, row: &mut [f32]) {
        let mut start = 0;
        for linear in &self.0 {
            if let Some(bias) = &linear.bias {
                kernels.add(&mut row[start..][..linear.matrix.rows], bias);
            }
            start += linear.matrix.rows;
        }
    }

    pub(crate) fn formats(&self) -> impl Iterator<Item = ActFormat> {
        self.0.iter().map(|linear| act_format(linear.matrix.ty))
    }
}

/// The formats that an input is encoded in: as many as its matrices need.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Formats([Option<ActFormat>; 3]);

impl FromIterator<ActFormat> for Formats {
    fn from_iter<I: IntoIterator<Item = ActFormat>>(formats: I) -> Self {
        let mut all = Self::default();
        for format in formats {
            if let Some(slot) = all.0.iter_mut().find(|f| f.is_none_or(|f| f == format)) {
                *slot = Some(format);
            }
        }
        all
    }
}

impl Formats {
    pub(crate) fn iter(&self) -> impl Iterator<Item = ActFormat> {
        self.0.iter().copied().flatten()
    }
}

/// The feed-forward network, or experts.
#[derive(Clone, Debug)]
pub(crate) enum FfnWeights {
    Dense(DenseFfn),
    Experts(ExpertFfn, ExpertConfig),
}

#[derive(Clone, Debug)]
pub(crate) struct DenseFfn {
    /// Gate and up, or up alone.
    pub(crate) input: Projections,
    pub(crate) down: Linear,
}

#[derive(Clone, Debug)]
pub(crate) struct ExpertFfn {
    pub(crate) router: Matrix,
    pub(crate) gate: Experts,
    pub(crate) up: Experts,
    pub(crate) down: Experts,
    pub(crate) shared: Option<SharedExpert>,
}

/// The expert that sees every token, behind a sigmoid gate.
#[derive(Clone, Debug)]
pub(crate) struct SharedExpert {
    pub(crate) gate: Vec<f32>,
    pub(crate) ffn: DenseFfn,
}

/// One layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) attn_norm: Option<NormWeights>,
    pub(crate) attn_norm_2: Option<NormWeights>,
    pub(crate) mixer: Mixer,
    pub(crate) post_attn_norm: Option<NormWeights>,
    pub(crate) parallel: bool,
    pub(crate) ffn_norm: Option<NormWeights>,
    pub(crate) ffn: FfnWeights,
    pub(crate) post_ffn_norm: Option<NormWeights>,
}

impl Layer {
    /// What the mixer begins with.
    pub(crate) fn mixer_input(&self) -> BranchInput<'_> {
        BranchInput {
            pre_norm: self.attn_norm_2.as_ref().or(self.attn_norm.as_ref()),
            formats: self.mixer.input().formats().collect(),
        }
    }

    /// What the feed-forward network's input is encoded in.
    pub(crate) fn ffn_formats(&self) -> Formats {
        match &self.ffn {
            FfnWeights::Dense(weights) => weights.input.formats().collect(),
            FfnWeights::Experts(weights, _) => {
                let shared = weights.shared.iter();
                let shared = shared.flat_map(|shared| shared.ffn.input.formats());
                shared.chain([act_format(weights.router.ty)]).collect()
            }
        }
    }

    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let spec = config.spec;
        let mut norm =
            |presence, name| block_norm(tensors, spec.norm, presence, layer, name, config.width);
        let attn_norm = norm(spec.attn_norm, "attn_norm")?;
        let attn_norm_2 = norm(spec.attn_norm_2, "attn_norm_2")?;
        let post_attn_norm = norm(spec.post_attn_norm, "post_attention_norm")?;
        let ffn_norm = norm(spec.ffn_norm, "ffn_norm")?;
        let post_ffn_norm = norm(spec.post_ffn_norm, "post_ffw_norm")?;

        let mixer = Mixer::load(tensors, config, layer)?;
        Ok(Self {
            attn_norm,
            attn_norm_2,
            mixer,
            post_attn_norm,
            parallel: config.parallel.unwrap_or(ffn_norm.is_none()),
            ffn_norm,
            ffn: match &config.experts {
                Some(experts) => {
                    let weights = ExpertFfn::load(tensors, config, experts, layer)?;
                    FfnWeights::Experts(weights, *experts)
                }
                None => FfnWeights::Dense(DenseFfn::load(tensors, config, layer)?),
            },
            post_ffn_norm,
        })
    }
}

impl DenseFfn {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (width, ffn, bias) = (config.width, config.layers[layer].ffn, config.spec.ffn_bias);
        let separate = tensors.has(&block_name(layer, "ffn_gate", "weight"));
        let mut linear =
            |name, columns, rows| block_linear(tensors, layer, name, columns, rows, bias);
        let input = match config.spec.ffn {
            Ffn::Gated(Fusion::AsFound) if !separate => [linear("ffn_up", width, 2 * ffn)?].into(),
            Ffn::Gated(Fusion::Separate | Fusion::AsFound) => [
                linear("ffn_gate", width, ffn)?,
                linear("ffn_up", width, ffn)?,
            ]
            .into(),
            Ffn::Gated(Fusion::Fused) => [linear("ffn_up", width, 2 * ffn)?].into(),
            Ffn::Plain => [linear("ffn_up", width, ffn)?].into(),
        };
        Ok(Self {
            input: Projections(input),
            down: linear("ffn_down", ffn, width)?,
        })
    }
}

impl ExpertFfn {
    fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        experts: &ExpertConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (width, ffn, count) = (config.width, experts.ffn, experts.count);
        let name = |name| block_name(layer, name, "weight");
        Ok(Self {
            router: tensors.matrix(&name("ffn_gate_inp"), width, count)?,
            gate: tensors.experts(&name("ffn_gate_exps"), width, ffn, count)?,
            up: tensors.experts(&name("ffn_up_exps"), width, ffn, count)?,
            down: tensors.experts(&name("ffn_down_exps"), ffn, width, count)?,
            shared: if experts.shared_ffn > 0 {
                let ffn = experts.shared_ffn;
                let gate = tensors.vector(&name("ffn_gate_inp_shexp"), &[width as u64])?;
                let mut linear = |name, columns, rows| {
                    block_linear(tensors, layer, name, columns, rows, Presence::Never)
                };
                Some(SharedExpert {
                    gate,
                    ffn: DenseFfn {
                        input: Projections(
                            [
                                linear("ffn_gate_shexp", width, ffn)?,
                                linear("ffn_up_shexp", width, ffn)?,
                            ]
                            .into(),
                        ),
                        down: linear("ffn_down_shexp", ffn, width)?,
                    },
                })
            } else {
                None
            },
        })
    }
}

/// A norm by its full name without `.weight` and `.bias`.
pub(crate) fn norm(
    tensors: &mut Tensors<'_, '_>,
    kind: Norm,
    name: &str,
    width: usize,
) -> Result<NormWeights, LoadError> {
    let shape = &[width as u64];
    Ok(NormWeights {
        weight: tensors.vector(&alloc::format!("{name}.weight"), shape)?,
        bias: match kind {
            Norm::LayerBias => Some(tensors.vector(&alloc::format!("{name}.bias"), shape)?),
            Norm::Rms | Norm::Layer => None,
        },
    })
}

pub(crate) fn block_norm(
    tensors: &mut Tensors<'_, '_>,
    kind: Norm,
    presence: Presence,
    layer: usize,
    name: &str,
    width: usize,
) -> Result<Option<NormWeights>, LoadError> {
    match presence {
        Presence::Never => Ok(None),
        Presence::IfPresent if !tensors.has(&block_name(layer, name, "weight")) => Ok(None),
        _ => norm(tensors, kind, &alloc::format!("blk.{layer}.{name}"), width).map(Some),
    }
}

pub(crate) fn block_linear(
    tensors: &mut Tensors<'_, '_>,
    layer: usize,
    name: &str,
    columns: usize,
    rows: usize,
    bias: Presence,
) -> Result<Linear, LoadError> {
    Ok(Linear {
        matrix: tensors.matrix(&block_name(layer, name, "weight"), columns, rows)?,
        bias: tensors.maybe_vector(bias, &block_name(layer, name, "bias"), &[rows as u64])?,
    })
}
