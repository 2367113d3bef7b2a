//! Jina BERT 2: BERT with ALiBi and a network gated by GELU; the one for code also norms queries and keys, and
//! attention twice.

use super::bert;
use crate::spec::{ArchSpec, Ffn, Fusion, Position, Presence, QkNorm};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "jina-bert-v2",
    position: Position::Alibi,
    qk_norm: QkNorm::WholeIfPresent,
    attn_norm_2: Presence::IfPresent,
    ffn: Ffn::Gated(Fusion::AsFound),
    ..bert::SPEC
};
