//! What kernels take: the structs of `kernels/*.cu`, field by field.

use crate::backend::Address;
use strata_model::spec::Activation;

/// Marks the struct that a kernel takes.
pub(crate) trait Arguments: Copy {}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct MatmulPart {
    pub(crate) w: Address,
    pub(crate) out: Address,
    pub(crate) rows: u32,
    pub(crate) panels: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Matmul {
    pub(crate) parts: [MatmulPart; 3],
    pub(crate) x: Address,
    pub(crate) experts: Address,
    pub(crate) expert_bytes: u64,
    pub(crate) columns: u32,
    pub(crate) tokens: u32,
    pub(crate) x_stride: u32,
    pub(crate) out_stride: u32,
    pub(crate) x_shared_by: u32,
    pub(crate) staged: u32,
    pub(crate) depth: u32,
    pub(crate) second: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Norm {
    pub(crate) weight: Address,
    pub(crate) bias: Address,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct AddNorm {
    pub(crate) x: Address,
    pub(crate) branch: Address,
    pub(crate) branch_bias: Address,
    pub(crate) post: Norm,
    pub(crate) pre: Norm,
    pub(crate) normed: Address,
    pub(crate) acts: Address,
    pub(crate) width: u32,
    pub(crate) act_stride: u32,
    pub(crate) epsilon: f32,
    pub(crate) residual_scale: f32,
    pub(crate) has_branch: u32,
    pub(crate) has_next: u32,
    pub(crate) parallel: u32,
    pub(crate) halve: u32,
    pub(crate) rms: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct OutputRows {
    pub(crate) x: Address,
    pub(crate) tokens: Address,
    pub(crate) norm: Norm,
    pub(crate) normed: Address,
    pub(crate) acts: Address,
    pub(crate) width: u32,
    pub(crate) act_stride: u32,
    pub(crate) epsilon: f32,
    pub(crate) rms: u32,
}

/// An activation function by its number in `kernels/math.cuh`.
#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct ActivationArgs {
    kind: u32,
    positive: f32,
    negative: f32,
    slope: f32,
}

impl ActivationArgs {
    /// `None` for one that the kernels do not know.
    pub(crate) fn new(activation: Activation) -> Option<Self> {
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
pub(crate) struct Activate {
    pub(crate) hidden: Address,
    pub(crate) gate_bias: Address,
    pub(crate) up_bias: Address,
    pub(crate) experts: Address,
    pub(crate) norm: Norm,
    pub(crate) acts: Address,
    pub(crate) inner: u32,
    pub(crate) stride: u32,
    pub(crate) act_stride: u32,
    pub(crate) gated: u32,
    pub(crate) activation: ActivationArgs,
    pub(crate) epsilon: f32,
    pub(crate) rms: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Logits {
    pub(crate) logits: Address,
    pub(crate) bias: Address,
    pub(crate) vocabulary: u32,
    pub(crate) scale: f32,
    pub(crate) cap: f32,
    pub(crate) inverse_cap: f32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct BatchPlace {
    pub(crate) positions: Address,
    pub(crate) starts: Address,
    pub(crate) header: Address,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct KvPlace {
    pub(crate) memory: Address,
    pub(crate) blocks: Address,
    pub(crate) layer: u32,
    pub(crate) kind: u32,
    pub(crate) kv_heads: u32,
    pub(crate) row_bytes: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Projection {
    pub(crate) projected: Address,
    pub(crate) queries: Address,
    pub(crate) biases: [Address; 4],
    pub(crate) bias_rows: [u32; 4],
    pub(crate) q_norm: Norm,
    pub(crate) k_norm: Norm,
    pub(crate) rotations: Address,
    pub(crate) temperatures: Address,
    pub(crate) batch: BatchPlace,
    pub(crate) kv: KvPlace,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) head_size: u32,
    pub(crate) stride: u32,
    pub(crate) query_stride: u32,
    pub(crate) pairs: u32,
    pub(crate) interleaved: u32,
    pub(crate) whole_norm: u32,
    pub(crate) own_norm: u32,
    pub(crate) norm_after: u32,
    pub(crate) rms: u32,
    pub(crate) clamp: f32,
    pub(crate) epsilon: f32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Attention {
    pub(crate) queries: Address,
    pub(crate) out: Address,
    pub(crate) partials: Address,
    pub(crate) sinks: Address,
    pub(crate) slopes: Address,
    pub(crate) batch: BatchPlace,
    pub(crate) kv: KvPlace,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) head_size: u32,
    pub(crate) query_stride: u32,
    pub(crate) window: u32,
    pub(crate) chunked: u32,
    pub(crate) most_chunks: u32,
    pub(crate) scale: f32,
    pub(crate) cap: f32,
    pub(crate) inverse_cap: f32,
    pub(crate) act_stride: u32,
    pub(crate) acts: Address,
    pub(crate) first: u32,
    pub(crate) tokens: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Mixed {
    pub(crate) mixed: Address,
    pub(crate) gates: Address,
    pub(crate) norm: Norm,
    pub(crate) acts: Address,
    pub(crate) width: u32,
    pub(crate) gate_stride: u32,
    pub(crate) act_stride: u32,
    pub(crate) epsilon: f32,
    pub(crate) rms: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Choose {
    pub(crate) scores: Address,
    pub(crate) router_bias: Address,
    pub(crate) choice_bias: Address,
    pub(crate) experts: Address,
    pub(crate) weights: Address,
    pub(crate) count: u32,
    pub(crate) used: u32,
    pub(crate) groups: u32,
    pub(crate) groups_used: u32,
    pub(crate) gate: u32,
    pub(crate) renormalize: u32,
    pub(crate) cap: f32,
    pub(crate) inverse_cap: f32,
    pub(crate) scale: f32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct ExpertInput {
    pub(crate) normed: Address,
    pub(crate) weights: Address,
    pub(crate) scaled: Address,
    pub(crate) acts: Address,
    pub(crate) width: u32,
    pub(crate) act_stride: u32,
    pub(crate) used: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Default)]
pub(crate) struct Gather {
    pub(crate) results: Address,
    pub(crate) biases: Address,
    pub(crate) experts: Address,
    pub(crate) weights: Address,
    pub(crate) normed: Address,
    pub(crate) shared_gate: Address,
    pub(crate) out: Address,
    pub(crate) width: u32,
    pub(crate) used: u32,
    pub(crate) shared: u32,
    pub(crate) scale: f32,
}

macro_rules! arguments {
    ($($name:ident)*) => { $(impl Arguments for $name {})* };
}
arguments! { Matmul AddNorm OutputRows Activate Logits Projection Attention Mixed Choose ExpertInput Gather }
