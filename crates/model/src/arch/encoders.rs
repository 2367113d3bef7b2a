//! Encoders besides BERT's own: norms before the branches, windows to both sides, rotary positions, experts.

use super::{bert, gemma3, llama_like};
use crate::spec::{
    Activation, ArchSpec, Experts, Ffn, Fusion, Norm, Position, Presence, Role, Routing, Window,
    WindowRope,
};

/// Llama that reads in both directions.
pub(super) const LLAMA_EMBED: ArchSpec = ArchSpec {
    name: "llama-embed",
    role: Role::Encoder,
    ..llama_like::DENSE
};

/// EuroBERT: the same with halves rotated.
pub(super) const EUROBERT: ArchSpec = ArchSpec {
    name: "eurobert",
    role: Role::Encoder,
    ..llama_like::HALF_SPLIT
};

/// NeoBERT: fused projections.
pub(super) const NEO_BERT: ArchSpec = ArchSpec {
    name: "neo-bert",
    ffn: Ffn::Gated(Fusion::Fused),
    output_norm: "enc.output_norm",
    ..LLAMA_EMBED
};

/// ModernBERT: layer norms without bias, windows to both sides in two layers of three.
pub(super) const MODERN_BERT: ArchSpec = ArchSpec {
    name: "modern-bert",
    norm: Norm::Layer,
    embd_norm: Presence::Always,
    attn_norm: Presence::IfPresent,
    window: Window::AllButFirstOf(3),
    window_rope: WindowRope::Unscaled { base: None },
    ffn: Ffn::Gated(Fusion::Fused),
    activation: Activation::GeluErf,
    ..EUROBERT
};

/// EmbeddingGemma: Gemma 3 in both directions.
pub(super) const GEMMA_EMBEDDING: ArchSpec = ArchSpec {
    name: "gemma-embedding",
    role: Role::Encoder,
    ..gemma3::SPEC
};

/// Jina embeddings 3: BERT with rotary positions.
pub(super) const JINA_BERT_V3: ArchSpec = ArchSpec {
    name: "jina-bert-v3",
    position: Position::RopeHalfSplit,
    ..bert::SPEC
};

/// Nomic embeddings 2: the same with experts in every other layer.
pub(super) const NOMIC_BERT_MOE: ArchSpec = ArchSpec {
    name: "nomic-bert-moe",
    experts: Experts::IfCounted(Routing {
        renormalize: false,
        ..Routing::MIXTRAL
    }),
    ..JINA_BERT_V3
};
