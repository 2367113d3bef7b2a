//! The weights of one layer.

mod readers;

use crate::altup::AltUp;
use crate::config::{Config, ExpertConfig};
use crate::dense_beside::DenseBesideExperts;
use crate::error::LoadError;
use crate::matrix::{Experts, Linear};
use crate::mixer::Mixer;
use crate::mixer::attention::CrossAttention;
use crate::mixer::channel_mix::ChannelMixWeights;
use crate::per_layer::LayerInput;
use crate::residual::BranchInput;
use crate::spec::{Activation, Branches, DenseBeside, Ffn, Fusion, Presence, SharedJoin};
use crate::tensors::{Tensors, block_name};
use alloc::boxed::Box;
use alloc::vec::Vec;
pub(crate) use readers::{block_linear, block_norm, norm, projection};
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
    /// None: the layer ends with its mixer.
    Nothing,
    ChannelMix(Box<ChannelMixWeights>),
    Dense(DenseFfn),
    Experts(Box<ExpertFfn>),
}

impl FfnWeights {
    /// Experts where the layer has a router, else a dense network.
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let routes = tensors.has(&block_name(layer, "ffn_gate_inp", "weight"));
        match &config.experts {
            Some(experts) if routes => {
                let experts = ExpertFfn::load(tensors, config, experts, layer)?;
                Ok(Self::Experts(Box::new(experts)))
            }
            _ => {
                let ffn = config.layers[layer].ffn;
                DenseFfn::load(tensors, config, layer, ffn).map(Self::Dense)
            }
        }
    }

    /// What its input is encoded in.
    pub(crate) fn formats(&self) -> Formats {
        match self {
            Self::Nothing => Formats::default(),
            Self::ChannelMix(weights) => weights.key.formats().collect(),
            Self::Dense(weights) => weights.input.formats().collect(),
            Self::Experts(weights) => weights.formats(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DenseFfn {
    /// Gate and up, or up alone.
    pub(crate) input: Projections,
    pub(crate) activation: Activation,
    /// How many standard deviations above the mean a gate must be not to be 0, if that is so.
    pub(crate) sparsity: Option<f32>,
    /// Of what goes into `down`.
    pub(crate) sub_norm: Option<NormWeights>,
    pub(crate) down: Linear,
}

#[derive(Clone, Debug)]
pub(crate) struct ExpertFfn {
    pub(crate) config: ExpertConfig,
    pub(crate) router: Linear,
    /// Added to weights for the choice alone.
    pub(crate) choice_bias: Option<Vec<f32>>,
    pub(crate) gate: ExpertMatrices,
    /// None where nothing is gated: `gate` then has what others call up.
    pub(crate) up: Option<ExpertMatrices>,
    pub(crate) down: ExpertMatrices,
    pub(crate) activation: Activation,
    pub(crate) shared: Option<SharedExpert>,
    /// A dense network with norms of its own.
    pub(crate) beside: Option<Box<DenseBesideExperts>>,
    /// What the sum of all is multiplied by.
    pub(crate) scale: f32,
}

/// One of the matrices of every expert.
#[derive(Clone, Debug)]
pub(crate) struct ExpertMatrices {
    pub(crate) matrices: Experts,
    /// (experts, rows).
    biases: Option<Vec<f32>>,
}

impl ExpertMatrices {
    /// All biases: (experts, rows).
    pub(crate) fn biases(&self) -> Option<&[f32]> {
        self.biases.as_deref()
    }

    /// An expert's bias.
    pub(crate) fn bias(&self, expert: usize) -> Option<&[f32]> {
        let rows = self.matrices.0[expert].rows;
        Some(&self.biases.as_deref()?[expert * rows..][..rows])
    }
}

/// The expert that sees every token.
#[derive(Clone, Debug)]
pub(crate) struct SharedExpert {
    /// Its sigmoid multiplies the result.
    pub(crate) gate: Option<Vec<f32>>,
    pub(crate) ffn: DenseFfn,
}

/// Experts as a branch of their own, which sees the layer's input.
#[derive(Clone, Debug)]
pub(crate) struct ExpertBranch {
    pub(crate) norm: NormWeights,
    pub(crate) experts: Box<ExpertFfn>,
}

/// One layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) attn_norm: Option<NormWeights>,
    pub(crate) attn_norm_2: Option<NormWeights>,
    /// None where the layer is a feed-forward network.
    pub(crate) mixer: Option<Mixer>,
    /// Attention over a source, between the mixer and the feed-forward network.
    pub(crate) cross: Option<Box<CrossAttention>>,
    pub(crate) post_attn_norm: Option<NormWeights>,
    pub(crate) parallel: bool,
    pub(crate) expert_branch: Option<ExpertBranch>,
    pub(crate) ffn_norm: Option<NormWeights>,
    pub(crate) ffn: FfnWeights,
    pub(crate) post_ffn_norm: Option<NormWeights>,
    /// What it does with the embedding that it has of a token.
    pub(crate) input_embedding: Option<Box<LayerInput>>,
    /// Where there are several residual streams.
    pub(crate) altup: Option<Box<AltUp>>,
    /// What its result is multiplied by.
    pub(crate) output_scale: Option<f32>,
}

impl Layer {
    /// Whether something comes after the feed-forward network.
    pub(crate) fn has_end(&self) -> bool {
        self.input_embedding.is_some() || self.altup.is_some() || self.output_scale.is_some()
    }

    /// What the layer begins with.
    pub(crate) fn input(&self) -> BranchInput<'_> {
        match &self.mixer {
            Some(mixer) => BranchInput {
                pre_norm: self.attn_norm_2.as_ref().or(self.attn_norm.as_ref()),
                formats: mixer.formats(),
            },
            None => BranchInput {
                pre_norm: self.attn_norm.as_ref(),
                formats: self.ffn.formats(),
            },
        }
    }

    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let spec = config.spec;
        let names = spec.norm_names;
        let [usual, other] = names.post_ffn;
        let has_other = tensors.has(&block_name(layer, other, "weight"));
        let post_ffn = if has_other { other } else { usual };
        let mut norm =
            |presence, name| block_norm(tensors, spec.norm, presence, layer, name, config.width);
        let attn_norm = norm(spec.attn_norm, "attn_norm")?;
        let attn_norm_2 = norm(spec.attn_norm_2, "attn_norm_2")?;
        let post_attn_norm = norm(spec.post_attn_norm, names.post_attn)?;
        let ffn_norm = match spec.branches {
            Branches::Both | Branches::ChannelMix => norm(spec.ffn_norm, names.ffn)?,
            Branches::MixerAlone | Branches::One => None,
        };
        let post_ffn_norm = norm(spec.post_ffn_norm, post_ffn)?;

        let mixer = Mixer::load(tensors, config, layer)?;
        let cross = match config.source {
            Some(_) => Some(Box::new(CrossAttention::load(tensors, config, layer)?)),
            None => None,
        };
        let routes = tensors.has(&block_name(layer, "ffn_gate_inp", "weight"));
        let mut experts = match &config.experts {
            Some(experts) if routes => {
                let experts = ExpertFfn::load(tensors, config, experts, layer)?;
                Some(Box::new(experts))
            }
            _ => None,
        };
        let expert_branch = match &experts {
            Some(weights) if weights.config.routing.dense == DenseBeside::OwnBranch => {
                experts.take()
            }
            _ => None,
        };
        let input_embedding = LayerInput::load(tensors, config, layer)?.map(Box::new);
        let altup = AltUp::load(tensors, config, layer)?.map(Box::new);
        let scale = block_name(layer, "layer_output_scale", "weight");
        let output_scale = tensors.maybe_vector(spec.layer_scale, &scale, &[1])?;
        let expert_branch = match expert_branch {
            Some(experts) => {
                let name = alloc::format!("blk.{layer}.ffn_norm_exps");
                Some(ExpertBranch {
                    norm: self::norm(tensors, spec.norm, &name, config.width)?,
                    experts,
                })
            }
            None => None,
        };
        Ok(Self {
            attn_norm,
            attn_norm_2,
            mixer,
            cross,
            post_attn_norm,
            parallel: config.parallel.unwrap_or(ffn_norm.is_none()),
            ffn_norm,
            ffn: match experts {
                Some(experts) => FfnWeights::Experts(experts),
                None if config.layers[layer].ffn == 0 => FfnWeights::Nothing,
                None if spec.branches == Branches::ChannelMix => {
                    let sizes = (config.width, config.layers[layer].ffn);
                    let weights = ChannelMixWeights::load(tensors, sizes, layer)?;
                    FfnWeights::ChannelMix(Box::new(weights))
                }
                None => {
                    // Beside experts it is as wide as the model.
                    let ffn = match expert_branch {
                        Some(_) => config.width,
                        None => config.layers[layer].ffn,
                    };
                    FfnWeights::Dense(DenseFfn::load(tensors, config, layer, ffn)?)
                }
            },
            expert_branch,
            post_ffn_norm,
            input_embedding,
            altup,
            output_scale: output_scale.map(|scale| scale[0]),
        })
    }
}

impl DenseFfn {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
        ffn: usize,
    ) -> Result<Self, LoadError> {
        let (width, spec) = (config.width, config.spec);
        let bias = spec.ffn_bias;
        let name = "ffn_sub_norm";
        let sub_norm = block_norm(tensors, spec.norm, spec.ffn_sub_norm, layer, name, ffn)?;
        let separate = tensors.has(&block_name(layer, "ffn_gate", "weight"));
        let mut linear =
            |name, columns, rows| block_linear(tensors, layer, name, columns, rows, bias);
        let input = match spec.ffn {
            Ffn::Gated(Fusion::AsFound) if !separate => [linear("ffn_up", width, 2 * ffn)?].into(),
            Ffn::GatedOrRelu if !separate => [linear("ffn_up", width, ffn)?].into(),
            Ffn::Gated(Fusion::Separate | Fusion::AsFound) | Ffn::GatedOrRelu => [
                linear("ffn_gate", width, ffn)?,
                linear("ffn_up", width, ffn)?,
            ]
            .into(),
            Ffn::Gated(Fusion::Fused) => [linear("ffn_up", width, 2 * ffn)?].into(),
            Ffn::Plain => [linear("ffn_up", width, ffn)?].into(),
        };
        let activation = match spec.ffn {
            Ffn::GatedOrRelu if !separate => Activation::Relu,
            _ => config.layers[layer].activation,
        };
        Ok(Self {
            input: Projections(input),
            activation,
            sparsity: config.layers[layer].sparsity,
            sub_norm,
            down: linear("ffn_down", ffn, width)?,
        })
    }
}

impl ExpertFfn {
    /// What their input is encoded in.
    pub(crate) fn formats(&self) -> Formats {
        if let Some(beside) = &self.beside {
            return beside.dense.input.formats().collect();
        }
        let shared = self.shared.iter();
        let shared = shared.flat_map(|shared| shared.ffn.input.formats());
        let router = act_format(self.router.matrix.ty);
        shared.chain([router]).collect()
    }

    fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        experts: &ExpertConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let own = ExpertConfig {
            ffn: config.layers[layer].expert_ffn.unwrap_or(experts.ffn),
            ..*experts
        };
        let experts = &own;
        let (width, ffn, count) = (config.width, experts.ffn, experts.count);
        let activation = config.layers[layer].activation;
        let router = block_linear(
            tensors,
            layer,
            "ffn_gate_inp",
            width,
            count,
            Presence::IfPresent,
        )?;
        // Some files leave the suffix out.
        let bare = alloc::format!("blk.{layer}.exp_probs_b");
        let choice_bias = if tensors.has(&bare) {
            bare
        } else {
            block_name(layer, "exp_probs_b", "bias")
        };
        let choice_bias =
            tensors.maybe_vector(Presence::IfPresent, &choice_bias, &[count as u64])?;
        let mut biases = |name, rows: usize| {
            let shape = [rows as u64, count as u64];
            let name = block_name(layer, name, "bias");
            tensors.maybe_vector(Presence::IfPresent, &name, &shape)
        };
        let gate_biases = biases("ffn_gate_exps", ffn)?;
        let up_biases = biases("ffn_up_exps", ffn)?;
        let down_biases = biases("ffn_down_exps", width)?;
        let name = |name| block_name(layer, name, "weight");
        let fused = name("ffn_gate_up_exps");
        let plain = config.spec.ffn == Ffn::Plain;
        let (gate, up) = if plain {
            let up = tensors.experts(&name("ffn_up_exps"), width, ffn, count)?;
            (up, None)
        } else if tensors.has(&fused) {
            let (gate, up) = tensors.expert_halves(&fused, width, ffn, count)?;
            (gate, Some(up))
        } else {
            let gate = tensors.experts(&name("ffn_gate_exps"), width, ffn, count)?;
            let up = tensors.experts(&name("ffn_up_exps"), width, ffn, count)?;
            (gate, Some(up))
        };
        let down = tensors.experts(&name("ffn_down_exps"), ffn, width, count)?;
        let matrices = |matrices, biases| ExpertMatrices { matrices, biases };
        let averaged =
            experts.routing.dense == DenseBeside::Averaged && tensors.has(&name("ffn_up"));
        let shared = if averaged {
            Some(SharedExpert {
                gate: None,
                ffn: DenseFfn::load(tensors, config, layer, config.layers[layer].ffn)?,
            })
        } else {
            SharedExpert::load(tensors, config, experts.routing.shared, layer)?
        };
        Ok(Self {
            config: *experts,
            router,
            choice_bias,
            gate: matrices(
                gate,
                if plain {
                    up_biases.clone()
                } else {
                    gate_biases
                },
            ),
            up: up.map(|up| matrices(up, up_biases)),
            down: matrices(down, down_biases),
            activation,
            scale: match experts.routing.join {
                _ if averaged => core::f32::consts::FRAC_1_SQRT_2,
                SharedJoin::Mean if shared.is_some() => 0.5,
                _ => 1.0,
            },
            shared,
            beside: DenseBesideExperts::load(tensors, config, experts, layer)?.map(Box::new),
        })
    }
}

impl SharedExpert {
    fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        presence: Presence,
        layer: usize,
    ) -> Result<Option<Self>, LoadError> {
        let width = config.width;
        let up = block_name(layer, "ffn_up_shexp", "weight");
        let ffn = match (presence, tensors.rows(&up)) {
            (Presence::Never, _) | (Presence::IfPresent, None) => return Ok(None),
            (_, Some(rows)) => rows,
            (Presence::Always, None) => return Err(LoadError::MissingTensor { name: up }),
        };
        let gate = tensors.maybe_vector(
            Presence::IfPresent,
            &block_name(layer, "ffn_gate_inp_shexp", "weight"),
            &[width as u64],
        )?;
        let mut linear = |name, columns, rows| {
            block_linear(tensors, layer, name, columns, rows, Presence::Never)
        };
        let mut input = Vec::new();
        if config.spec.ffn != Ffn::Plain {
            input.push(linear("ffn_gate_shexp", width, ffn)?);
        }
        input.push(linear("ffn_up_shexp", width, ffn)?);
        Ok(Some(Self {
            gate,
            ffn: DenseFfn {
                input: Projections(input),
                activation: config.layers[layer].activation,
                sparsity: None,
                sub_norm: None,
                down: linear("ffn_down_shexp", ffn, width)?,
            },
        }))
    }
}
