//! LFM2: short convolutions in the layers without key heads, attention with head norms in the others.

use crate::spec::{ArchSpec, Experts, Position, Presence, QkNorm, Recurrence};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "lfm2",
    recurrence: Recurrence::ShortConv,
    qk_norm: QkNorm::PerHead,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    ffn_bias: Presence::Never,
    position: Position::RopeHalfSplit,
    experts: Experts::Never,
    output_norm: "token_embd_norm",
    ..ArchSpec::LLAMA
};
