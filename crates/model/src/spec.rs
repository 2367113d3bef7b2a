//! An architecture as data: what distinguishes one family from another.
//!
//! A spec says which tensors a family has and how they are put together; sizes and scales come from the
//! file's metadata. The decoder and the encoder read a spec and never a family's name.

mod attention;
mod nextn;
mod recurrence;
mod rope;

pub use attention::{AttnGate, KeySource, Temperature, TemperatureScale, ValueNorm};
pub use nextn::Nextn;
pub use recurrence::{Branches, Recurrence, RecurrentLayers, SharedKeys};
pub use rope::{ImageLayers, RopeAxes, WindowRope, YarnRange};
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
    /// The same with a bias in the models that have one.
    LayerBiasIfPresent,
    /// By its mean and standard deviation, without a weight either.
    LayerPlain,
}

impl Norm {
    /// Whether the mean is left in.
    pub(crate) fn is_rms(self) -> bool {
        self == Self::Rms
    }
}

/// Norms of queries and keys.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// None.
    None,
    /// Every head by itself, with one weight for all heads.
    PerHead,
    /// The same, in the models that have them.
    PerHeadIfPresent,
    /// Every head that is rotated by itself, without a weight; none in the model of this many experts, which GGUF has no
    /// key for.
    PlainUnlessExperts(u32),
    /// Every head by itself, with its own weights, in the models that have them.
    PerHeadOwnIfPresent,
    /// All heads together as one vector.
    Whole,
    /// The same, in the models that have them.
    WholeIfPresent,
}

/// Whether queries and keys are normed before they are rotated or after.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum QkNormOrder {
    /// Before.
    BeforeRope,
    /// After.
    AfterRope,
}

/// How positions enter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// Not at all: those before a token have left their traces.
    None,
    /// Rotary; dimensions 2i and 2i+1 turn together.
    RopeInterleaved,
    /// Rotary; dimensions i and i + half turn together.
    RopeHalfSplit,
    /// A learned vector for each position is added to the embedding.
    Learned,
    /// ALiBi: scores shrink with the distance, in each head at its own rate.
    Alibi,
    /// ALiBi in the model of this many layers, `RopeInterleaved` in the others: GGUF has no key for it.
    AlibiAtLayers(u32),
    /// ALiBi where `attention.max_alibi_bias` is above 0, learned vectors where it is not.
    AlibiOrLearned,
    /// A learned number for each head and bucket of distances is added to scores.
    Buckets,
}

/// Layers whose queries and keys are not rotated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nope {
    /// None.
    Never,
    /// The last of every so many.
    Every(u32),
    /// Those without a window, in models with windows.
    FullLayers,
    /// All, where `rope.scaling.finetuned` is false.
    UnlessFinetuned,
    /// Those where `attention.rope_pattern` is false.
    Pattern,
    /// Those without a window that come after the leading dense ones.
    FullLayersWithExperts,
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
    /// Sequential; a branch's normed input, times `residual_scale`, is what its result is added to.
    Normed,
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
    /// Gated in the models that have `ffn_gate`, ReLU(up(x)) in the others: GGUF has no key for it.
    GatedOrRelu,
}

/// Mixtures of experts in the place of the feed-forward network.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Experts {
    /// The family has none.
    Never,
    /// Models with an `expert_count` have them.
    IfCounted(Routing),
    /// All models have them.
    Always(Routing),
}

/// How experts are chosen and weighed. What a file has decides on biases of the router, of the choice and of experts, and on
/// which layers have experts at all.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Routing {
    /// How scores become weights, where `expert_gating_func` says nothing.
    pub gate: ExpertGate,
    /// Whether the chosen experts' weights are made to sum to one.
    pub renormalize: bool,
    /// One expert that sees every token, behind a sigmoid gate if the file has one.
    pub shared: Presence,
    /// What is multiplied by an expert's weight.
    pub weighed: Weighed,
    /// A dense network in layers with experts.
    pub dense: DenseBeside,
    /// What the router sees.
    pub sees: RouterInput,
    /// How the shared expert's result and the others' become one.
    pub join: SharedJoin,
    /// Scores pass cap · tanh(x / cap), where the metadata says nothing.
    pub soft_cap: Option<f32>,
}

impl Routing {
    /// That of Mixtral: a softmax over all, made to sum to one.
    pub const MIXTRAL: Self = Self {
        gate: ExpertGate::Softmax,
        renormalize: true,
        shared: Presence::Never,
        weighed: Weighed::Output,
        dense: DenseBeside::Never,
        sees: RouterInput::Experts,
        join: SharedJoin::Sum,
        soft_cap: None,
    };
}

/// How a router's scores become weights.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ExpertGate {
    /// A softmax over all experts.
    Softmax,
    /// Each by itself.
    Sigmoid,
    /// A softmax over those that were chosen.
    SoftmaxOfChosen,
    /// SparseMixer (<https://arxiv.org/abs/2409.12136>): for each choice, a softmax over those left that come within 2%.
    SparseMixer,
}

/// What an expert's weight multiplies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Weighed {
    /// Its result.
    Output,
    /// What it sees.
    Input,
}

/// What a router sees.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RouterInput {
    /// What experts see.
    Experts,
    /// The residual stream before the layer.
    Layer,
}

/// How the shared expert's result and the others' become one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SharedJoin {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
}

/// What a file has where models of a family differ and no key says so.
#[derive(Copy, Clone, Debug)]
pub enum Variant {
    /// The epsilon of RMS norms.
    RmsNorms(&'static ArchSpec),
    /// A gate of attention that is as wide as what it gates.
    WideGates(&'static ArchSpec),
}

/// A dense network in layers with experts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DenseBeside {
    /// None.
    Never,
    /// It sees what experts see, in the models that have it; the sum of both is multiplied by √½.
    Averaged,
    /// A branch of its own, as wide as the model. Experts see the layer's input, with `ffn_norm_exps`.
    OwnBranch,
    /// Both see the residual stream, each through its own norm, and so does the router; the sum of what they find,
    /// normed, is the branch.
    Normed,
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
    /// All but the first of every so many.
    AllButFirstOf(u32),
    /// All but the last, with chunks of so many positions where the metadata names no window: a token sees its own chunk.
    ChunksAllButEvery(u32, u32),
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
    /// The metadata's, or this.
    MultiplyOr(f32),
    /// The metadata's, or this over the square root of the number of layers.
    MultiplyOrOverSqrtLayers(f32),
    /// One over the metadata's.
    Divide,
    /// One over the metadata's, or this over the width.
    DivideOrOverWidth(f32),
    /// The metadata's, or one over the square root of the width where the output is the embedding, which GGUF has no key
    /// for.
    OverSqrtWidthIfTied,
}

/// What attention scores are multiplied by, where the metadata says nothing.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum AttnScale {
    /// 1/√(head size).
    HeadSize,
    /// 1/√(width / heads) in the model of this many layers, 1/√(head size) in the others. GGUF has no key for
    /// it, and the family's largest model differs from its siblings in just this.
    WidthPerHeadAtLayers(u32),
    /// 1 / head size.
    OverHeadSize,
    /// `attention.output_scale`, or this.
    OutputScaleOr(f32),
    /// Nothing.
    One,
}

/// What norms are called: families give the same place other names, and the same name to other places.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NormNames {
    /// [`ArchSpec::post_attn_norm`].
    pub post_attn: &'static str,
    /// [`ArchSpec::ffn_norm`].
    pub ffn: &'static str,
    /// [`ArchSpec::post_ffn_norm`]; a file that has no such tensor may have the other.
    pub post_ffn: [&'static str; 2],
}

/// What `feed_forward_length` counts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FfnLength {
    /// The inner width.
    Inner,
    /// Gate and up together.
    GateAndUp,
}

/// An architecture.
#[derive(Copy, Clone, Debug)]
pub struct ArchSpec {
    /// `general.architecture`.
    pub name: &'static str,
    /// The models that differ from the others, and in what.
    pub variant: Option<Variant>,
    /// How it reads.
    pub role: Role,
    /// What the names of its layers and its last norm begin with: `enc.` or `dec.` in encoder-decoders.
    pub part: &'static str,
    /// The encoder whose states a decoder reads beside its own tokens, under the same keys.
    pub source: Option<&'static ArchSpec>,
    /// All norms. Those of a decoder's queries and keys have the same kind but never a bias.
    pub norm: Norm,
    /// A decoder's norm of the embedding.
    pub embd_norm: Presence,
    /// The norm before attention.
    pub attn_norm: Presence,
    /// A decoder's second norm of the layer's input, for attention; the first then serves the feed-forward network.
    /// An encoder's second norm after attention, with the layer's input added once more.
    pub attn_norm_2: Presence,
    /// The norm of what goes into attention's last matrix.
    pub attn_sub_norm: Presence,
    /// The norm of attention's result.
    pub post_attn_norm: Presence,
    /// The norm before the feed-forward network.
    pub ffn_norm: Presence,
    /// The norm of what goes into the feed-forward network's last matrix.
    pub ffn_sub_norm: Presence,
    /// The norm of the feed-forward network's result.
    pub post_ffn_norm: Presence,
    /// What the norms are called.
    pub norm_names: NormNames,
    /// How the branches join.
    pub residual: Residual,
    /// The branches of a layer.
    pub branches: Branches,
    /// What mixes tokens in recurrent layers.
    pub recurrence: Recurrence,
    /// Which those are.
    pub recurrent_layers: RecurrentLayers,
    /// Norms of queries and keys.
    pub qk_norm: QkNorm,
    /// When they are normed.
    pub qk_norm_order: QkNormOrder,
    /// What keys and values are made from.
    pub keys: KeySource,
    /// An indexer that chooses keys. It is left out, and with it the positions past as many as it chooses.
    pub indexer: Presence,
    /// The norm of values.
    pub value_norm: ValueNorm,
    /// Whether queries, keys and values are one tensor.
    pub qkv: Fusion,
    /// Biases of queries, keys and values.
    pub qkv_bias: Presence,
    /// The bias of attention's output.
    pub attn_output_bias: Presence,
    /// Scores without values, one for each head (`attn_sinks`), that take part in the softmax.
    pub attn_sinks: Presence,
    /// What multiplies what goes into attention's last matrix.
    pub attn_gate: AttnGate,
    /// How positions enter.
    pub position: Position,
    /// Layers that are not rotated.
    pub nope: Nope,
    /// What queries are multiplied by at large positions.
    pub temperature: Temperature,
    /// Which layers slide.
    pub window: Window,
    /// The RoPE of sliding layers.
    pub window_rope: WindowRope,
    /// How YaRN bounds what it stretches in part.
    pub yarn_range: YarnRange,
    /// The axes of positions.
    pub rope_axes: RopeAxes,
    /// The layers in which an image's positions may see each other.
    pub image_layers: ImageLayers,
    /// What attention scores are multiplied by.
    pub attn_scale: AttnScale,
    /// Scores pass cap · tanh(x / cap), where the metadata says nothing.
    pub attn_soft_cap: Option<f32>,
    /// The feed-forward network.
    pub ffn: Ffn,
    /// What `feed_forward_length` counts.
    pub ffn_length: FfnLength,
    /// Its biases.
    pub ffn_bias: Presence,
    /// Its activation.
    pub activation: Activation,
    /// Mixtures of experts.
    pub experts: Experts,
    /// What embeddings are multiplied by (`embedding_scale`).
    pub embedding_scale: Scale,
    /// What each branch is multiplied by before it is added (`residual_scale`).
    pub residual_scale: Scale,
    /// What logits are multiplied by (`logit_scale`).
    pub logit_scale: Scale,
    /// What a layer's result is multiplied by (`layer_output_scale`).
    pub layer_scale: Presence,
    /// Whether there are several residual streams, of which a layer computes one (`altup`).
    pub streams: Presence,
    /// The name of a decoder's last norm.
    pub output_norm: &'static str,
    /// The bias of the output matrix.
    pub output_bias: Presence,
    /// Layers after the last.
    pub nextn: Nextn,
}

impl ArchSpec {
    /// The family that most others vary.
    pub const LLAMA: Self = Self {
        name: "llama",
        variant: None,
        role: Role::Decoder,
        part: "",
        source: None,
        norm: Norm::Rms,
        embd_norm: Presence::Never,
        attn_norm: Presence::Always,
        attn_norm_2: Presence::Never,
        attn_sub_norm: Presence::Never,
        post_attn_norm: Presence::Never,
        ffn_norm: Presence::Always,
        ffn_sub_norm: Presence::Never,
        post_ffn_norm: Presence::Never,
        norm_names: NormNames {
            post_attn: "post_attention_norm",
            ffn: "ffn_norm",
            post_ffn: ["post_ffw_norm", "layer_output_norm"],
        },
        residual: Residual::Sequential,
        branches: Branches::Both,
        recurrence: Recurrence::Never,
        recurrent_layers: RecurrentLayers::WithoutKeyHeads,
        qk_norm: QkNorm::None,
        qk_norm_order: QkNormOrder::BeforeRope,
        keys: KeySource::Input,
        indexer: Presence::Never,
        value_norm: ValueNorm::Never,
        qkv: Fusion::Separate,
        qkv_bias: Presence::IfPresent,
        attn_output_bias: Presence::IfPresent,
        attn_sinks: Presence::Never,
        attn_gate: AttnGate::Never,
        position: Position::RopeInterleaved,
        nope: Nope::Never,
        temperature: Temperature::Never,
        window: Window::Always,
        window_rope: WindowRope::Same,
        yarn_range: YarnRange::Rounded,
        rope_axes: RopeAxes::One,
        image_layers: ImageLayers::All,
        attn_scale: AttnScale::HeadSize,
        attn_soft_cap: None,
        ffn: Ffn::Gated(Fusion::Separate),
        ffn_length: FfnLength::Inner,
        ffn_bias: Presence::IfPresent,
        activation: Activation::Silu,
        experts: Experts::IfCounted(Routing::MIXTRAL),
        embedding_scale: Scale::One,
        residual_scale: Scale::Multiply,
        logit_scale: Scale::One,
        layer_scale: Presence::Never,
        streams: Presence::Never,
        output_norm: "output_norm",
        output_bias: Presence::Never,
        nextn: Nextn::Skipped,
    };
}
