//! What kernels take: the structs of `kernels/*.cu`, field by field.

use crate::backend::Address;
use strata_model::spec::Activation;

/// Marks the struct that a kernel takes.
pub trait Arguments: Copy {}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct MatmulPart {
    pub w: Address,
    pub out: Address,
    pub rows: u32,
    pub panels: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Matmul {
    pub parts: [MatmulPart; 3],
    pub x: Address,
    pub experts: Address,
    pub expert_bytes: u64,
    pub columns: u32,
    pub tokens: u32,
    pub x_stride: u32,
    pub out_stride: u32,
    pub x_shared_by: u32,
    pub staged: u32,
    pub depth: u32,
    pub second: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Norm {
    pub weight: Address,
    pub bias: Address,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct AddNorm {
    pub x: Address,
    pub branch: Address,
    pub branch_bias: Address,
    pub post: Norm,
    pub pre: Norm,
    pub normed: Address,
    pub acts: Address,
    pub width: u32,
    pub act_stride: u32,
    pub epsilon: f32,
    pub residual_scale: f32,
    pub has_branch: u32,
    pub has_next: u32,
    pub parallel: u32,
    pub halve: u32,
    pub rms: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct OutputRows {
    pub x: Address,
    pub tokens: Address,
    pub norm: Norm,
    pub normed: Address,
    pub acts: Address,
    pub width: u32,
    pub act_stride: u32,
    pub epsilon: f32,
    pub rms: u32,
}

/// An activation function by its number in `kernels/math.cuh`.
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ActivationArgs {
    kind: u32,
    positive: f32,
    negative: f32,
    slope: f32,
}

impl ActivationArgs {
    /// `None` for one that the kernels do not know.
    pub fn new(activation: Activation) -> Option<Self> {
        let (mut positive, mut negative, mut slope) = (0.0, 0.0, 0.0);
        let kind = match activation {
            Activation::Silu => 0,
            Activation::GeluTanh => 1,
            Activation::GeluErf => 2,
            Activation::GeluQuick => 3,
            Activation::Relu => 4,
            Activation::ReluSquared => 5,
            Activation::Sigmoid => 6,
            Activation::Tanh => 7,
            Activation::GeluQuickClamped => 8,
            Activation::Xielu {
                positive: p,
                negative: n,
                slope: s,
            } => {
                (positive, negative, slope) = (p, n, s);
                9
            }
            _ => return None,
        };
        Some(Self {
            kind,
            positive,
            negative,
            slope,
        })
    }
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Activate {
    pub hidden: Address,
    pub gate_bias: Address,
    pub up_bias: Address,
    pub experts: Address,
    pub norm: Norm,
    pub acts: Address,
    pub inner: u32,
    pub stride: u32,
    pub act_stride: u32,
    pub gated: u32,
    pub activation: ActivationArgs,
    pub epsilon: f32,
    pub rms: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Logits {
    pub logits: Address,
    pub bias: Address,
    pub vocabulary: u32,
    pub scale: f32,
    pub cap: f32,
    pub inverse_cap: f32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct BatchPlace {
    pub positions: Address,
    pub starts: Address,
    pub header: Address,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct KvPlace {
    pub memory: Address,
    pub blocks: Address,
    pub layer: u32,
    pub kind: u32,
    pub kv_heads: u32,
    pub row_bytes: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Projection {
    pub projected: Address,
    pub queries: Address,
    pub biases: [Address; 4],
    pub bias_rows: [u32; 4],
    pub q_norm: Norm,
    pub k_norm: Norm,
    pub rotations: Address,
    pub temperatures: Address,
    pub batch: BatchPlace,
    pub kv: KvPlace,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_size: u32,
    pub stride: u32,
    pub query_stride: u32,
    pub pairs: u32,
    pub interleaved: u32,
    pub whole_norm: u32,
    pub own_norm: u32,
    pub norm_after: u32,
    pub rms: u32,
    pub clamp: f32,
    pub epsilon: f32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Attention {
    pub queries: Address,
    pub out: Address,
    pub partials: Address,
    pub sinks: Address,
    pub slopes: Address,
    pub batch: BatchPlace,
    pub kv: KvPlace,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_size: u32,
    pub query_stride: u32,
    pub window: u32,
    pub chunked: u32,
    pub most_chunks: u32,
    pub scale: f32,
    pub cap: f32,
    pub inverse_cap: f32,
    pub act_stride: u32,
    pub acts: Address,
    pub first: u32,
    pub tokens: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Mixed {
    pub mixed: Address,
    pub gates: Address,
    pub norm: Norm,
    pub acts: Address,
    pub width: u32,
    pub gate_stride: u32,
    pub act_stride: u32,
    pub epsilon: f32,
    pub rms: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Choose {
    pub scores: Address,
    pub router_bias: Address,
    pub choice_bias: Address,
    pub experts: Address,
    pub weights: Address,
    pub count: u32,
    pub used: u32,
    pub groups: u32,
    pub groups_used: u32,
    pub gate: u32,
    pub renormalize: u32,
    pub cap: f32,
    pub inverse_cap: f32,
    pub scale: f32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct ExpertInput {
    pub normed: Address,
    pub weights: Address,
    pub scaled: Address,
    pub acts: Address,
    pub width: u32,
    pub act_stride: u32,
    pub used: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Gather {
    pub results: Address,
    pub biases: Address,
    pub experts: Address,
    pub weights: Address,
    pub normed: Address,
    pub shared_gate: Address,
    pub out: Address,
    pub width: u32,
    pub used: u32,
    pub shared: u32,
    pub scale: f32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub struct Adapter {
    pub x: Address,
    pub out: Address,
    pub a: Address,
    pub b: Address,
    pub weights: Address,
    pub columns: u32,
    pub rank: u32,
    pub rows: u32,
    pub x_stride: u32,
    pub out_stride: u32,
    pub scale: f32,
}

macro_rules! arguments {
    ($($name:ident)*) => { $(impl Arguments for $name {})* };
}
arguments! { Matmul AddNorm OutputRows Activate Logits Projection Attention Mixed Choose ExpertInput Gather Adapter }
