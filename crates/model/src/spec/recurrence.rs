//! What layers have instead of attention, or beside it.

/// What mixes tokens without looking back at each of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// Nothing: all layers have attention.
    Never,
    /// A short convolution.
    ShortConv,
    /// A state space whose steps belong to channels (Mamba).
    Mamba,
    /// A state space whose steps belong to heads (Mamba 2).
    Mamba2,
    /// The gated delta rule.
    DeltaNet(SharedKeys),
    /// Kimi's delta rule.
    KimiDelta,
    /// Lightning attention.
    Lightning,
    /// A real-gated linear recurrent unit (RecurrentGemma).
    RgLru,
    /// RWKV 4.
    Rwkv4,
    /// RWKV 6.
    Rwkv6,
    /// RWKV 7.
    Rwkv7,
}

/// Which key head a value head reads, where there are more value heads than key heads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SharedKeys {
    /// Neighbours share one.
    Neighbours,
    /// Those whose numbers differ by the number of key heads share one.
    Striding,
}

/// Which layers are recurrent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum RecurrentLayers {
    /// Those without key heads.
    WithoutKeyHeads,
    /// All of them.
    All,
    /// Those that `attention.recurrent_layers` names; else all but the last of every `full_attention_interval`, or of
    /// every so many.
    AllButEvery(u32),
    /// All of them, and all have attention too: the sum of both is added.
    BesideAttention,
}

/// The branches of a layer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Branches {
    /// What mixes tokens, then the feed-forward network.
    Both,
    /// The same, and the network sees the token before, too (RWKV).
    ChannelMix,
    /// No feed-forward network.
    MixerAlone,
    /// One of them: the feed-forward network where it has a length, attention where there are key heads. Its norm is
    /// `attn_norm`.
    One,
}
