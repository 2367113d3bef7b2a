//! A model's matrices and vectors on a device: panels as the processors have them, byte for byte.

use crate::args::{ActivationArgs, Norm};
use crate::backend::{Address, Backend};
use crate::error::DeviceError;
use std::collections::HashSet;
use strata_model::spec::QkNorm;
use strata_model::{
    AttentionConfig, DeviceAttention, DeviceDense, DeviceExpertMatrices, DeviceExperts,
    DeviceFeedForward, DeviceLayer, DeviceLinear, DeviceMatrix, DeviceModel, DeviceNorm,
    ExpertConfig, GgmlType, NotOnDevice,
};
use strata_platform::{Pool, for_each_chunk};

/// Bytes that are packed before they are copied.
const STEP: usize = 32 << 20;

/// A matrix.
#[derive(Copy, Clone, Debug)]
pub struct Matrix {
    pub ty: GgmlType,
    pub rows: usize,
    pub columns: usize,
    pub at: Address,
}

impl Matrix {
    /// Whether it multiplies floats, and not quantized rows.
    pub fn takes_floats(&self) -> bool {
        matches!(self.ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16)
    }
}

/// A matrix and its bias.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Linear {
    /// The matrix's number, by which adapters know it.
    pub(crate) id: usize,
    pub(crate) matrix: Matrix,
    pub(crate) bias: Address,
}

/// A layer's attention.
pub(crate) struct Attention {
    pub(crate) config: AttentionConfig,
    pub(crate) qkv: Vec<Linear>,
    pub(crate) q_norm: Norm,
    pub(crate) k_norm: Norm,
    pub(crate) whole_norm: bool,
    pub(crate) own_norm: bool,
    pub(crate) norm_after: bool,
    pub(crate) sinks: Address,
    pub(crate) slopes: Address,
    pub(crate) sub_norm: Norm,
    pub(crate) output: Linear,
}

/// A feed-forward network.
pub(crate) struct Dense {
    pub(crate) input: Vec<Linear>,
    pub(crate) gated: bool,
    pub(crate) activation: ActivationArgs,
    pub(crate) sub_norm: Norm,
    pub(crate) down: Linear,
}

/// One of the matrices of every expert, one after the other.
#[derive(Copy, Clone, Debug)]
pub struct ExpertMatrices {
    pub first: Matrix,
    pub stride: u64,
    pub biases: Address,
}

/// A mixture of experts.
pub(crate) struct Experts {
    pub(crate) config: ExpertConfig,
    pub(crate) router: Linear,
    pub(crate) choice_bias: Address,
    pub(crate) gate: ExpertMatrices,
    pub(crate) up: Option<ExpertMatrices>,
    pub(crate) down: ExpertMatrices,
    pub(crate) activation: ActivationArgs,
    pub(crate) shared: Option<Dense>,
    pub(crate) shared_gate: Address,
    pub(crate) scale: f32,
}

/// What comes after attention.
pub(crate) enum FeedForward {
    Nothing,
    Dense(Dense),
    Experts(Box<Experts>),
}

/// A layer.
pub(crate) struct Layer {
    pub(crate) input_norm: Norm,
    pub(crate) attention: Attention,
    pub(crate) post_attn_norm: Norm,
    pub(crate) parallel: bool,
    pub(crate) expert_branch: Option<(Norm, Box<Experts>)>,
    pub(crate) ffn_norm: Norm,
    pub(crate) ffn: FeedForward,
    pub(crate) post_ffn_norm: Norm,
}

/// The weights of some of a decoder's layers.
pub(crate) struct Weights {
    pub(crate) layers: Vec<Layer>,
    /// What comes after the last layer, where that is here.
    pub(crate) output: Option<(Norm, Linear)>,
    /// Bytes of all of them.
    pub(crate) bytes: usize,
}

/// Whether the last layer is among these, and so logits are computed here.
pub(crate) fn ends(model: &DeviceModel<'_>) -> bool {
    model.first + model.layers.len() == model.config.layers.len()
}

/// Bytes that a model's weights take on a device.
pub(crate) fn weight_bytes(model: &DeviceModel<'_>) -> usize {
    let mut all = 0;
    for_each_matrix(model, &mut |matrix| all += matrix_bytes(matrix));
    all
}

/// Bytes that a layer's matrices take on a device.
pub(crate) fn layer_bytes(layer: &DeviceLayer<'_>) -> usize {
    let mut all = 0;
    for_each_of_layer(layer, &mut |matrix| all += matrix_bytes(matrix));
    all
}

/// The numbers of the matrices that are to be on the device.
pub(crate) fn matrix_ids(model: &DeviceModel<'_>) -> HashSet<usize> {
    let mut ids = HashSet::new();
    for_each_matrix(model, &mut |matrix| {
        ids.insert(matrix.id);
    });
    ids
}

/// Calls `seen` with every matrix that is to be on the device.
fn for_each_matrix(model: &DeviceModel<'_>, seen: &mut dyn FnMut(&DeviceMatrix<'_>)) {
    if ends(model) {
        seen(&model.output.matrix);
    }
    for layer in &model.layers {
        for_each_of_layer(layer, seen);
    }
}

fn for_each_of_layer(layer: &DeviceLayer<'_>, seen: &mut dyn FnMut(&DeviceMatrix<'_>)) {
    fn dense(dense: &DeviceDense<'_>, seen: &mut dyn FnMut(&DeviceMatrix<'_>)) {
        dense.input.iter().for_each(|linear| seen(&linear.matrix));
        seen(&dense.down.matrix);
    }
    fn experts(experts: &DeviceExperts<'_>, seen: &mut dyn FnMut(&DeviceMatrix<'_>)) {
        seen(&experts.router.matrix);
        let parts = [
            Some(&experts.gate),
            experts.up.as_ref(),
            Some(&experts.down),
        ];
        for part in parts.into_iter().flatten() {
            part.matrices.iter().for_each(&mut *seen);
        }
        if let Some(shared) = &experts.shared {
            dense(shared, seen);
        }
    }
    let attention = &layer.attention;
    attention.qkv.iter().for_each(|linear| seen(&linear.matrix));
    seen(&attention.output.matrix);
    if let Some((_, branch)) = &layer.expert_branch {
        experts(branch, seen);
    }
    match &layer.ffn {
        DeviceFeedForward::Nothing => {}
        DeviceFeedForward::Dense(ffn) => dense(ffn, seen),
        DeviceFeedForward::Experts(ffn) => experts(ffn, seen),
    }
}

/// The types of the panels of a model's layers, each once.
pub(crate) fn panel_types(model: &DeviceModel<'_>) -> Vec<GgmlType> {
    let mut types = Vec::new();
    for_each_matrix(model, &mut |matrix| {
        let ty = matrix.weights.panel_type();
        if !types.contains(&ty) {
            types.push(ty);
        }
    });
    types
}

pub(crate) fn matrix_bytes(matrix: &DeviceMatrix<'_>) -> usize {
    matrix.rows.div_ceil(16) * matrix.weights.device_panel_bytes()
}

/// Who copies a model to a device.
pub(crate) struct Uploader<'a> {
    pub(crate) backend: &'a mut dyn Backend,
    pub(crate) pool: &'a dyn Pool,
    /// Hears of bytes copied; false cancels.
    pub(crate) progress: &'a mut dyn FnMut(usize) -> bool,
    bytes: usize,
    staging: Vec<u8>,
}

impl<'a> Uploader<'a> {
    pub(crate) fn new(
        backend: &'a mut dyn Backend,
        pool: &'a dyn Pool,
        progress: &'a mut dyn FnMut(usize) -> bool,
    ) -> Self {
        Self {
            backend,
            pool,
            progress,
            bytes: 0,
            staging: Vec::new(),
        }
    }

    /// All of it.
    pub(crate) fn upload(mut self, model: &DeviceModel<'_>) -> Result<Weights, DeviceError> {
        let mut layers = Vec::new();
        for layer in &model.layers {
            layers.push(self.layer(layer)?);
        }
        let output = if ends(model) {
            Some((
                self.norm(Some(&model.output_norm))?,
                self.linear(&model.output)?,
            ))
        } else {
            None
        };
        self.backend.wait()?;
        Ok(Weights {
            layers,
            output,
            bytes: self.bytes,
        })
    }

    fn layer(&mut self, layer: &DeviceLayer<'_>) -> Result<Layer, DeviceError> {
        Ok(Layer {
            input_norm: self.norm(layer.input_norm.as_ref())?,
            attention: self.attention(&layer.attention)?,
            post_attn_norm: self.norm(layer.post_attn_norm.as_ref())?,
            parallel: layer.parallel,
            expert_branch: match &layer.expert_branch {
                Some((norm, experts)) => {
                    Some((self.norm(Some(norm))?, Box::new(self.experts(experts)?)))
                }
                None => None,
            },
            ffn_norm: self.norm(layer.ffn_norm.as_ref())?,
            ffn: match &layer.ffn {
                DeviceFeedForward::Nothing => FeedForward::Nothing,
                DeviceFeedForward::Dense(dense) => FeedForward::Dense(self.dense(dense)?),
                DeviceFeedForward::Experts(experts) => {
                    FeedForward::Experts(Box::new(self.experts(experts)?))
                }
            },
            post_ffn_norm: self.norm(layer.post_ffn_norm.as_ref())?,
        })
    }

    fn attention(&mut self, weights: &DeviceAttention<'_>) -> Result<Attention, DeviceError> {
        Ok(Attention {
            config: *weights.config,
            qkv: self.linears(&weights.qkv)?,
            q_norm: self.norm(weights.q_norm.as_ref())?,
            k_norm: self.norm(weights.k_norm.as_ref())?,
            whole_norm: matches!(weights.qk_norm, QkNorm::Whole | QkNorm::WholeIfPresent),
            own_norm: weights.qk_norm == QkNorm::PerHeadOwnIfPresent,
            norm_after: weights.norm_after_rope,
            sinks: self.vector(weights.sinks)?,
            slopes: self.vector(Some(weights.slopes).filter(|slopes| !slopes.is_empty()))?,
            sub_norm: self.norm(weights.sub_norm.as_ref())?,
            output: self.linear(&weights.output)?,
        })
    }

    fn dense(&mut self, weights: &DeviceDense<'_>) -> Result<Dense, DeviceError> {
        Ok(Dense {
            input: self.linears(&weights.input)?,
            gated: weights.gated,
            activation: activation(weights.activation)?,
            sub_norm: self.norm(weights.sub_norm.as_ref())?,
            down: self.linear(&weights.down)?,
        })
    }

    fn experts(&mut self, weights: &DeviceExperts<'_>) -> Result<Experts, DeviceError> {
        Ok(Experts {
            config: *weights.config,
            router: self.linear(&weights.router)?,
            choice_bias: self.vector(weights.choice_bias)?,
            gate: self.expert_matrices(&weights.gate)?,
            up: match &weights.up {
                Some(up) => Some(self.expert_matrices(up)?),
                None => None,
            },
            down: self.expert_matrices(&weights.down)?,
            activation: activation(weights.activation)?,
            shared: match &weights.shared {
                Some(shared) => Some(self.dense(shared)?),
                None => None,
            },
            shared_gate: self.vector(weights.shared_gate)?,
            scale: weights.scale,
        })
    }

    fn expert_matrices(
        &mut self,
        weights: &DeviceExpertMatrices<'_>,
    ) -> Result<ExpertMatrices, DeviceError> {
        let stride = matrix_bytes(&weights.matrices[0]);
        let at = self.alloc(stride * weights.matrices.len())?;
        for (index, matrix) in weights.matrices.iter().enumerate() {
            self.fill(matrix, at + (index * stride) as u64)?;
        }
        Ok(ExpertMatrices {
            first: placed(&weights.matrices[0], at),
            stride: stride as u64,
            biases: self.vector(weights.biases)?,
        })
    }

    fn linears(&mut self, linears: &[DeviceLinear<'_>]) -> Result<Vec<Linear>, DeviceError> {
        linears.iter().map(|linear| self.linear(linear)).collect()
    }

    fn linear(&mut self, linear: &DeviceLinear<'_>) -> Result<Linear, DeviceError> {
        let at = self.alloc(matrix_bytes(&linear.matrix))?;
        self.fill(&linear.matrix, at)?;
        Ok(Linear {
            id: linear.matrix.id,
            matrix: placed(&linear.matrix, at),
            bias: self.vector(linear.bias)?,
        })
    }

    fn norm(&mut self, norm: Option<&DeviceNorm<'_>>) -> Result<Norm, DeviceError> {
        let Some(norm) = norm else {
            return Ok(Norm::default());
        };
        Ok(Norm {
            weight: self.vector(Some(norm.weight))?,
            bias: self.vector(norm.bias)?,
        })
    }

    fn vector(&mut self, floats: Option<&[f32]>) -> Result<Address, DeviceError> {
        let Some(floats) = floats else { return Ok(0) };
        let bytes: Vec<u8> = floats.iter().flat_map(|f| f.to_le_bytes()).collect();
        let at = self.alloc(bytes.len())?;
        self.backend.upload(at, &bytes)?;
        Ok(at)
    }

    fn alloc(&mut self, bytes: usize) -> Result<Address, DeviceError> {
        self.bytes += bytes;
        self.backend.alloc(bytes, "taking memory for weights")
    }

    /// Packs a matrix some panels at a time, shared out among the workers, and copies them.
    fn fill(&mut self, matrix: &DeviceMatrix<'_>, at: Address) -> Result<(), DeviceError> {
        let panel = matrix.weights.device_panel_bytes();
        let panels = matrix.rows.div_ceil(16);
        let together = (STEP / panel).max(1);
        for first in (0..panels).step_by(together) {
            let count = together.min(panels - first);
            self.staging.resize(count * panel, 0);
            for_each_chunk(self.pool, &mut self.staging, panel, |index, out| {
                matrix.weights.write_panel(first + index, out);
            });
            let to = at + (first * panel) as u64;
            self.backend.upload(to, &self.staging)?;
            // Memory that is not a host buffer's has been read by now.
            if !(self.progress)(count * panel) {
                let doing = "loading the model";
                let reason = "it was canceled".into();
                return Err(DeviceError::Driver { doing, reason });
            }
        }
        Ok(())
    }
}

fn placed(matrix: &DeviceMatrix<'_>, at: Address) -> Matrix {
    Matrix {
        ty: matrix.weights.panel_type(),
        rows: matrix.rows,
        columns: matrix.columns,
        at,
    }
}

fn activation(activation: strata_model::spec::Activation) -> Result<ActivationArgs, DeviceError> {
    let what = "networks with this activation";
    Ok(ActivationArgs::new(activation).ok_or(NotOnDevice { what })?)
}
