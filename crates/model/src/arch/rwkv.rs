//! RWKV 6 and 7, and Qwen's models with their mixing of tokens.

use super::llama_like::DENSE;
use crate::spec::{ArchSpec, Branches, Norm, NormNames, Presence, Recurrence, RecurrentLayers};

pub(super) const RWKV6: ArchSpec = ArchSpec {
    name: "rwkv6",
    norm: Norm::LayerBias,
    embd_norm: Presence::Always,
    norm_names: NormNames {
        ffn: "attn_norm_2",
        ..ArchSpec::LLAMA.norm_names
    },
    branches: Branches::ChannelMix,
    recurrence: Recurrence::Rwkv6,
    recurrent_layers: RecurrentLayers::All,
    ..DENSE
};

/// RWKV 4, whose name is ours: llama.cpp has none.
pub(super) const RWKV4: ArchSpec = ArchSpec {
    name: "rwkv4",
    recurrence: Recurrence::Rwkv4,
    ..RWKV6
};

pub(super) const RWKV7: ArchSpec = ArchSpec {
    name: "rwkv7",
    recurrence: Recurrence::Rwkv7,
    ..RWKV6
};

/// QRWKV 6: Qwen 2.5 with RWKV 6 in the place of attention.
pub(super) const RWKV6QWEN2: ArchSpec = ArchSpec {
    name: "rwkv6qwen2",
    recurrence: Recurrence::Rwkv6,
    recurrent_layers: RecurrentLayers::All,
    ..DENSE
};

/// ARWKV 7: Qwen 2.5 with RWKV 7 in the place of attention.
pub(super) const ARWKV7: ArchSpec = ArchSpec {
    name: "arwkv7",
    recurrence: Recurrence::Rwkv7,
    ..RWKV6QWEN2
};
