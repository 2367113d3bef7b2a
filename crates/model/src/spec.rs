//! An architecture as data: what distinguishes one family from another.
//!
//! A spec says which tensors a family has and how they are put together; sizes and scales come from the
//! file's metadata. The decoder and the encoder read a spec and never a family's name.

pub use strata_kernels::Activation;

/// Whether a tensor belongs to the family.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The family has no such tensor: one in the file is an error.
    Never,
    /// Every model has it: its absence is an error.
    Always,
    /// Some models have it.
    IfPresent,
}

/// How a family reads a sequence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// From left to right: a token sees those before it, and the next is predicted.
    Decoder,
    /// As a whole: a token sees all others. Norms come after the branches, and nothing is predicted.
    Encoder,
}

/// How a vector is normalized.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Norm {
    /// By its root mean square.
    Rms,
    /// By its mean and standard deviation, without a bias.
    Layer,
    /// The same with a bias.
    LayerBias,
}

/// What mixes tokens in layers that have no key heads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// Nothing: all layers have attention.
    Never,
    /// A short convolution.
    ShortConv,
}

/// Norms of queries and keys before they are rotated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// None.
    None,
    /// Every head by itself, with one weight for all heads.
    PerHead,
    /// Every head by itself, with its own weights, in the models that have them.
    PerHeadOwnIfPresent,
    /// All heads together as one vector.
    Whole,
    /// The same, in the models that have them.
    WholeIfPresent,
}

/// How positions enter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// Rotary; dimensions 2i and 2i+1 turn together.
    RopeInterleaved,
    /// Rotary; dimensions i and i + half turn together.
    RopeHalfSplit,
    /// A learned vector for each position is added to the embedding.
    Learned,
    /// ALiBi: scores shrink with the distance, in each head at its own rate.
    Alibi,
}

/// How the two branches of a layer join the residual stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Residual {
    /// Attention's result is added, then the feed-forward network sees the sum.
    Sequential,
    /// Both branches see the layer's input.
    Parallel,
    /// Parallel in the models that have no `ffn_norm`.
    ParallelWithoutFfnNorm,
    /// As `use_parallel_residual` says.
    Metadata,
}

/// Whether projections of the same input are one tensor.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// A tensor each.
    Separate,
    /// One tensor, rows one after the other.
    Fused,
    /// Whichever the file has.
    AsFound,
}

/// The shape of the feed-forward network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Ffn {
    /// activation(gate(x)) · up(x).
    Gated(Fusion),
    /// activation(up(x)).
    Plain,
}

/// Mixtures of experts in the place of the feed-forward network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Experts {
    /// The family has none.
    Never,
    /// Models with an `expert_count` have them.
    IfCounted(Routing),
    /// All models have them.
    Always(Routing),
}

/// How experts are chosen and weighed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Whether the chosen experts' weights are made to sum to one.
    pub renormalize: bool,
    /// Whether one expert sees every token, behind a sigmoid gate.
    pub shared: bool,
}

/// Which layers see only the nearest positions, where the metadata names a window but no pattern.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// None of them.
    Never,
    /// All of them.
    Always,
    /// All but the last of every so many.
    AllButEvery(u32),
}

/// The RoPE of layers with a window.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum WindowRope {
    /// That of the other layers.
    Same,
    /// Without scaling.
    Unscaled {
        /// The base where the file has no `rope.freq_base_swa`; if none, that of the other layers.
        base: Option<f32>,
    },
}

/// A factor, and where it comes from.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Scale {
    /// One.
    One,
    /// The square root of the width.
    SqrtWidth,
    /// The metadata's.
    Multiply,
    /// One over the metadata's.
    Divide,
}

/// What attention scores are multiplied by, where the metadata says nothing.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum AttnScale {
    /// 1/√(head size).
    HeadSize,
    /// 1/√(width / heads) in the model of this many layers, 1/√(head size) in the others. GGUF has no key for
    /// it, and the family's largest model differs from its siblings in just this.
    WidthPerHeadAtLayers(u32),
}

/// An architecture.
#[derive(Copy, Clone, Debug)]
pub struct ArchSpec {
    /// `general.architecture`.
    pub name: &'static str,
    /// How it reads.
    pub role: Role,
    /// All norms. Those of a decoder's queries and keys have the same kind but never a bias.
    pub norm: Norm,
    /// The norm before attention.
    pub attn_norm: Presence,
    /// A decoder's second norm of the layer's input, for attention; the first then serves the feed-forward network.
    /// An encoder's second norm after attention, with the layer's input added once more.
    pub attn_norm_2: Presence,
    /// The norm of attention's result.
    pub post_attn_norm: Presence,
    /// The norm before the feed-forward network.
    pub ffn_norm: Presence,
    /// The norm of the feed-forward network's result.
    pub post_ffn_norm: Presence,
    /// How the branches join.
    pub residual: Residual,
    /// What mixes tokens in layers without attention.
    pub recurrence: Recurrence,
    /// Norms of queries and keys.
    pub qk_norm: QkNorm,
    /// Whether queries, keys and values are one tensor.
    pub qkv: Fusion,
    /// Biases of queries, keys and values.
    pub qkv_bias: Presence,
    /// The bias of attention's output.
    pub attn_output_bias: Presence,
    /// Scores without values, one for each head (`attn_sinks`), that take part in the softmax.
    pub attn_sinks: Presence,
    /// How positions enter.
    pub position: Position,
    /// Which layers slide.
    pub window: Window,
    /// The RoPE of sliding layers.
    pub window_rope: WindowRope,
    /// What attention scores are multiplied by.
    pub attn_scale: AttnScale,
    /// The feed-forward network.
    pub ffn: Ffn,
    /// Its biases.
    pub ffn_bias: Presence,
    /// Its activation.
    pub activation: Activation,
    /// Mixtures of experts.
    pub experts: Experts,
    /// What embeddings are multiplied by (`embedding_scale`).
    pub embedding_scale: Scale,
    /// What logits are multiplied by (`logit_scale`).
    pub logit_scale: Scale,
    /// The name of a decoder's last norm.
    pub output_norm: &'static str,
    /// The bias of the output matrix.
    pub output_bias: Presence,
}

impl ArchSpec {
    /// The family that most others vary.
    pub const LLAMA: Self = Self {
        name: "llama",
        role: Role::Decoder,
        norm: Norm::Rms,
        attn_norm: Presence::Always,
        attn_norm_2: Presence::Never,
        post_attn_norm: Presence::Never,
        ffn_norm: Presence::Always,
        post_ffn_norm: Presence::Never,
        residual: Residual::Sequential,
        recurrence: Recurrence::Never,
        qk_norm: QkNorm::None,
        qkv: Fusion::Separate,
        qkv_bias: Presence::IfPresent,
        attn_output_bias: Presence::IfPresent,
        attn_sinks: Presence::Never,
        position: Position::RopeInterleaved,
        window: Window::Always,
        window_rope: WindowRope::Same,
        attn_scale: AttnScale::HeadSize,
        ffn: Ffn::Gated(Fusion::Separate),
        ffn_bias: Presence::IfPresent,
        activation: Activation::Silu,
        experts: Experts::IfCounted(Routing {
            renormalize: true,
            shared: false,
        }),
        embedding_scale: Scale::One,
        logit_scale: Scale::One,
        output_norm: "output_norm",
        output_bias: Presence::Never,
    };
}
