//! What an executor on a device is built from: a decoder's matrices, vectors and sizes, as data.
//!
//! A device computes what [`Model::forward`] does, with the same bits. It reads the parts once, when it uploads them;
//! embeddings and rotations are made here for each batch.

use crate::batch::{self, BatchLimits, Span};
use crate::blueprint::Body;
use crate::config::{AttentionConfig, Config, ExpertConfig};
use crate::error::BatchError;
use crate::layer::{DenseFfn, ExpertFfn, ExpertMatrices, FfnWeights, Layer, NormWeights};
use crate::matrix::{Linear, Matrix};
use crate::mixer::Mixer;
use crate::mixer::attention::AttentionWeights;
use crate::model::Model;
use crate::pages::PageLayout;
use crate::spec::{
    Activation, AttnGate, Ffn, Norm, Position, QkNorm, QkNormOrder, RouterInput, ValueNorm,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::{Kernels, RopeKind, Weights};
use strata_quant::GgmlType;

/// What goes from layer to layer beside the residual stream.
const PASSED_ON: &str = "layers with embeddings or residual streams of their own";

/// What a model has that no device computes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} run on the processors only")]
pub struct NotOnDevice {
    /// In words, in the plural.
    pub what: &'static str,
}

/// A decoder.
pub struct DeviceModel<'m> {
    /// Its sizes and scales.
    pub config: &'m Config,
    /// The number of the first layer.
    pub first: usize,
    /// The layers.
    pub layers: Vec<DeviceLayer<'m>>,
    /// The last norm.
    pub output_norm: DeviceNorm<'m>,
    /// The matrix of logits, and its bias.
    pub output: DeviceLinear<'m>,
}

/// A matrix.
#[derive(Copy, Clone)]
pub struct DeviceMatrix<'m> {
    /// Its number, by which adapters know it.
    pub id: usize,
    /// Rows: outputs.
    pub rows: usize,
    /// Columns: inputs.
    pub columns: usize,
    /// The type of its weights.
    pub ty: GgmlType,
    /// The weights.
    pub weights: Weights<'m>,
}

/// A matrix and the bias that is added to its product.
#[derive(Copy, Clone)]
pub struct DeviceLinear<'m> {
    /// The matrix.
    pub matrix: DeviceMatrix<'m>,
    /// The bias.
    pub bias: Option<&'m [f32]>,
}

/// A norm's weights.
#[derive(Copy, Clone)]
pub struct DeviceNorm<'m> {
    /// What is multiplied.
    pub weight: &'m [f32],
    /// What is added.
    pub bias: Option<&'m [f32]>,
}

/// A layer of attention and a feed-forward network.
pub struct DeviceLayer<'m> {
    /// The norm of what attention reads.
    pub input_norm: Option<DeviceNorm<'m>>,
    /// Attention.
    pub attention: DeviceAttention<'m>,
    /// The norm of attention's result.
    pub post_attn_norm: Option<DeviceNorm<'m>>,
    /// Whether the feed-forward network reads what attention read.
    pub parallel: bool,
    /// Experts beside the feed-forward network, which read the layer's input, and the norm of that.
    pub expert_branch: Option<(DeviceNorm<'m>, DeviceExperts<'m>)>,
    /// The norm of what the feed-forward network reads.
    pub ffn_norm: Option<DeviceNorm<'m>>,
    /// The feed-forward network.
    pub ffn: DeviceFeedForward<'m>,
    /// The norm of its result.
    pub post_ffn_norm: Option<DeviceNorm<'m>>,
}

/// A layer's attention.
pub struct DeviceAttention<'m> {
    /// Its sizes.
    pub config: &'m AttentionConfig,
    /// Queries, keys, values and gates, or several of them in one matrix.
    pub qkv: Vec<DeviceLinear<'m>>,
    /// The norm of queries.
    pub q_norm: Option<DeviceNorm<'m>>,
    /// The norm of keys.
    pub k_norm: Option<DeviceNorm<'m>>,
    /// What heads these norms see.
    pub qk_norm: QkNorm,
    /// Whether they come after the rotation.
    pub norm_after_rope: bool,
    /// A score without a value for each head.
    pub sinks: Option<&'m [f32]>,
    /// How much scores shrink with each step of distance, by head; empty without ALiBi.
    pub slopes: &'m [f32],
    /// The norm of what goes into `output`.
    pub sub_norm: Option<DeviceNorm<'m>>,
    /// The last matrix.
    pub output: DeviceLinear<'m>,
}

/// What a layer does after attention.
pub enum DeviceFeedForward<'m> {
    /// Nothing.
    Nothing,
    /// One network.
    Dense(DeviceDense<'m>),
    /// Experts.
    Experts(Box<DeviceExperts<'m>>),
}

/// A feed-forward network.
pub struct DeviceDense<'m> {
    /// Gate and up, one or two matrices; or up alone.
    pub input: Vec<DeviceLinear<'m>>,
    /// Whether there is a gate.
    pub gated: bool,
    /// The function between the matrices.
    pub activation: Activation,
    /// The norm of what goes into `down`.
    pub sub_norm: Option<DeviceNorm<'m>>,
    /// The last matrix.
    pub down: DeviceLinear<'m>,
}

/// A mixture of experts.
pub struct DeviceExperts<'m> {
    /// Its sizes, and how experts are chosen.
    pub config: &'m ExpertConfig,
    /// The matrix of scores.
    pub router: DeviceLinear<'m>,
    /// Added to scores for the choice alone.
    pub choice_bias: Option<&'m [f32]>,
    /// Gate, or up where nothing is gated.
    pub gate: DeviceExpertMatrices<'m>,
    /// Up, where there is a gate.
    pub up: Option<DeviceExpertMatrices<'m>>,
    /// The last matrices.
    pub down: DeviceExpertMatrices<'m>,
    /// The function between the matrices.
    pub activation: Activation,
    /// The expert that sees every token.
    pub shared: Option<DeviceDense<'m>>,
    /// What its sigmoid multiplies that expert's result by.
    pub shared_gate: Option<&'m [f32]>,
    /// What the sum of all is multiplied by.
    pub scale: f32,
}

/// One of the matrices of every expert.
pub struct DeviceExpertMatrices<'m> {
    /// By expert.
    pub matrices: Vec<DeviceMatrix<'m>>,
    /// (experts, rows).
    pub biases: Option<&'m [f32]>,
}

impl Model {
    /// The parts of some of a decoder's layers, all of which the model has; an error where it has something that no device
    /// computes.
    pub fn device_parts(&self, layers: Range<usize>) -> Result<DeviceModel<'_>, NotOnDevice> {
        let Body::Decoder(decoder) = &self.parts.body else {
            return Err(NotOnDevice { what: "encoders" });
        };
        if decoder.source.is_some() {
            return Err(NotOnDevice {
                what: "encoder-decoders",
            });
        }
        if decoder.nextn.is_some() {
            return Err(NotOnDevice {
                what: "layers that predict the token after the next",
            });
        }
        if decoder.streams.is_some() || decoder.layer_embeddings.is_some() {
            return Err(NotOnDevice { what: PASSED_ON });
        }
        let first = layers.start;
        let own = layers.start - decoder.first..layers.end - decoder.first;
        let layers = decoder.layers[own].iter();
        let layers = layers.map(|layer| self.device_layer(layer));
        Ok(DeviceModel {
            config: &self.parts.config,
            first,
            layers: layers.collect::<Result<_, _>>()?,
            output_norm: device_norm(&decoder.output_norm),
            output: DeviceLinear {
                matrix: self.device_matrix(&decoder.output),
                bias: decoder.output_bias.as_deref(),
            },
        })
    }

    fn device_layer<'m>(&'m self, layer: &'m Layer) -> Result<DeviceLayer<'m>, NotOnDevice> {
        let Some(Mixer::Attention(attention)) = &layer.mixer else {
            let what = "recurrent layers and layers without attention";
            return Err(NotOnDevice { what });
        };
        let what = match &layer.ffn {
            _ if layer.has_end() => Some(PASSED_ON),
            FfnWeights::Dense(dense) if dense.sparsity.is_some() => {
                Some("feed-forward networks that keep their greatest values alone")
            }
            FfnWeights::Experts(experts) if experts.beside.is_some() => {
                Some("experts beside a dense network")
            }
            FfnWeights::Experts(experts) if experts.config.routing.sees == RouterInput::Layer => {
                Some("experts whose router sees the layer's input")
            }
            _ => None,
        };
        if let Some(what) = what {
            return Err(NotOnDevice { what });
        }
        let ffn_norm = layer.ffn_norm.as_ref().or(layer.attn_norm.as_ref());
        let branch = layer.expert_branch.as_ref();
        Ok(DeviceLayer {
            input_norm: layer.input().pre_norm.map(device_norm),
            attention: self.device_attention(attention)?,
            post_attn_norm: layer.post_attn_norm.as_ref().map(device_norm),
            parallel: layer.parallel,
            expert_branch: branch.map(|branch| {
                (
                    device_norm(&branch.norm),
                    self.device_experts(&branch.experts),
                )
            }),
            ffn_norm: ffn_norm.map(device_norm),
            ffn: match &layer.ffn {
                FfnWeights::Nothing => DeviceFeedForward::Nothing,
                FfnWeights::Dense(dense) => DeviceFeedForward::Dense(self.device_dense(dense)),
                FfnWeights::Experts(experts) => {
                    DeviceFeedForward::Experts(Box::new(self.device_experts(experts)))
                }
                FfnWeights::ChannelMix(_) => {
                    return Err(NotOnDevice {
                        what: "channel mixes",
                    });
                }
            },
            post_ffn_norm: layer.post_ffn_norm.as_ref().map(device_norm),
        })
    }

    fn device_attention<'m>(
        &'m self,
        weights: &'m AttentionWeights,
    ) -> Result<DeviceAttention<'m>, NotOnDevice> {
        let (config, spec) = (&weights.config, self.parts.config.spec);
        let after = spec.qk_norm_order == QkNormOrder::AfterRope;
        let whole = matches!(spec.qk_norm, QkNorm::Whole | QkNorm::WholeIfPresent);
        let what = if weights.latent.is_some() {
            Some("layers with latent attention")
        } else if config.gate == AttnGate::WithQueries {
            Some("layers with gates among their queries")
        } else if !matches!(config.gate, AttnGate::Never | AttnGate::Own) {
            Some("gates of a number a head, or of softplus")
        } else if config.shares.is_some() || spec.value_norm != ValueNorm::Never {
            Some("layers that share their keys or norm their values")
        } else if self.parts.config.normed_residual.is_some() {
            Some("residual streams that are normed")
        } else if config.head_size > 256 {
            Some("heads of more than 256 values")
        } else if after && whole && weights.q_norm.is_some() {
            Some("norms over all heads after their rotation")
        } else {
            None
        };
        if let Some(what) = what {
            return Err(NotOnDevice { what });
        }
        Ok(DeviceAttention {
            config,
            qkv: weights
                .qkv
                .0
                .iter()
                .map(|l| self.device_linear(l))
                .collect(),
            q_norm: weights.q_norm.as_ref().map(device_norm),
            k_norm: weights.k_norm.as_ref().map(device_norm),
            qk_norm: spec.qk_norm,
            norm_after_rope: after,
            sinks: weights.sinks.as_deref(),
            slopes: &weights.slopes,
            sub_norm: weights.sub_norm.as_ref().map(device_norm),
            output: self.device_linear(&weights.output),
        })
    }

    fn device_dense<'m>(&'m self, weights: &'m DenseFfn) -> DeviceDense<'m> {
        DeviceDense {
            input: weights
                .input
                .0
                .iter()
                .map(|l| self.device_linear(l))
                .collect(),
            gated: weights.input.rows() > weights.down.matrix.columns
                && self.parts.config.spec.ffn != Ffn::Plain,
            activation: weights.activation,
            sub_norm: weights.sub_norm.as_ref().map(device_norm),
            down: self.device_linear(&weights.down),
        }
    }

    fn device_experts<'m>(&'m self, weights: &'m ExpertFfn) -> DeviceExperts<'m> {
        let shared = weights.shared.as_ref();
        DeviceExperts {
            config: &weights.config,
            router: self.device_linear(&weights.router),
            choice_bias: weights.choice_bias.as_deref(),
            gate: self.device_expert_matrices(&weights.gate),
            up: weights
                .up
                .as_ref()
                .map(|up| self.device_expert_matrices(up)),
            down: self.device_expert_matrices(&weights.down),
            activation: weights.activation,
            shared: shared.map(|shared| self.device_dense(&shared.ffn)),
            shared_gate: shared.and_then(|shared| shared.gate.as_deref()),
            scale: weights.scale,
        }
    }

    fn device_expert_matrices<'m>(
        &'m self,
        experts: &'m ExpertMatrices,
    ) -> DeviceExpertMatrices<'m> {
        let matrices = experts.matrices.0.iter();
        DeviceExpertMatrices {
            matrices: matrices.map(|matrix| self.device_matrix(matrix)).collect(),
            biases: experts.biases(),
        }
    }

    fn device_linear<'m>(&'m self, linear: &'m Linear) -> DeviceLinear<'m> {
        DeviceLinear {
            matrix: self.device_matrix(&linear.matrix),
            bias: linear.bias.as_deref(),
        }
    }

    fn device_matrix(&self, matrix: &Matrix) -> DeviceMatrix<'_> {
        DeviceMatrix {
            id: matrix.id,
            rows: matrix.rows,
            columns: matrix.columns,
            ty: matrix.ty,
            weights: self.weights(matrix),
        }
    }

    /// Refuses a batch that [`forward`](Model::forward) would refuse.
    pub fn check_batch(
        &self,
        batch: &[Span<'_>],
        limits: BatchLimits,
        layout: &PageLayout,
    ) -> Result<(), BatchError> {
        let embeddings = self.parts.position_embd.as_ref();
        let positions = embeddings.map(|embeddings| embeddings.len() / self.parts.config.width);
        batch::check(batch, limits, self, positions, layout)
    }

    /// Bytes of a token's row of the embedding in the file.
    pub fn embedding_bytes(&self) -> usize {
        self.parts.token_embd.row_bytes()
    }

    /// A token's embedding at a position: scaled, with the position's added and normed where the model has that. `bytes`
    /// is [`embedding_bytes`](Self::embedding_bytes) long, `out` as long as the model is wide.
    pub fn embed_token(
        &self,
        kernels: &Kernels,
        (token, position): (u32, usize),
        bytes: &mut [u8],
        out: &mut [f32],
    ) {
        let config = &self.parts.config;
        self.embedding(token, bytes, out);
        if config.embedding_scale != 1.0 {
            kernels.scale(out, config.embedding_scale);
        }
        if let Some(embeddings) = &self.parts.position_embd {
            kernels.add(out, &embeddings[position * config.width..][..config.width]);
        }
        if let Body::Decoder(decoder) = &self.parts.body
            && let Some(norm) = &decoder.embd_norm
        {
            let weight = Some(&norm.weight[..]);
            if config.spec.norm.is_rms() {
                kernels.rms_norm_in_place(out, weight, config.epsilon);
            } else {
                let bias = norm.bias.as_deref();
                kernels.layer_norm_in_place(out, weight, bias, config.epsilon);
            }
        }
    }

    /// Which values of a head are a pair, if heads are rotated.
    pub fn rope_kind(&self) -> Option<RopeKind> {
        match self.parts.config.spec.position {
            Position::RopeInterleaved | Position::AlibiAtLayers(_) => Some(RopeKind::Interleaved),
            Position::RopeHalfSplit => Some(RopeKind::HalfSplit),
            Position::None
            | Position::Learned
            | Position::Alibi
            | Position::AlibiOrLearned
            | Position::Buckets => None,
        }
    }

    /// How many pairs one of [`Config::ropes`] turns.
    pub fn rope_pairs(&self, rope: usize) -> usize {
        self.parts.ropes[rope].pairs()
    }

    /// Writes a position's cosines, then its sines.
    pub fn write_rotation(&self, rope: usize, position: usize, out: &mut [f32]) {
        self.parts.ropes[rope].write(position, out);
    }

    /// Whether norms divide by the root mean square; by the standard deviation if not.
    pub fn has_rms_norms(&self) -> bool {
        let norm: Norm = self.parts.config.spec.norm;
        norm.is_rms()
    }
}

fn device_norm(norm: &NormWeights) -> DeviceNorm<'_> {
    DeviceNorm {
        weight: &norm.weight,
        bias: norm.bias.as_deref(),
    }
}
