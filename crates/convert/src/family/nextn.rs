//! The layer after the last, which predicts the token after the next.

use super::{Rule, same, shifted};

/// What is around the layer itself, as GLM-4.5 and DeepSeek-V3 call it.
pub(super) const NEXTN: &[Rule] = &[
    same(JOIN, "blk.#.nextn.eh_proj"),
    same("layers.#.enorm", "blk.#.nextn.enorm"),
    same("layers.#.hnorm", "blk.#.nextn.hnorm"),
    same("layers.#.embed_tokens", "blk.#.nextn.embed_tokens"),
    same("layers.#.shared_head.norm", "blk.#.nextn.shared_head_norm"),
    same("layers.#.shared_head.head", "blk.#.nextn.shared_head_head"),
];

/// The same where norms' weights are stored less 1.
pub(super) const SHIFTED_NEXTN: &[Rule] = &[
    same(JOIN, "blk.#.nextn.eh_proj"),
    shifted("layers.#.enorm", "blk.#.nextn.enorm"),
    shifted("layers.#.hnorm", "blk.#.nextn.hnorm"),
    shifted("layers.#.shared_head.norm", "blk.#.nextn.shared_head_norm"),
];

/// The matrix that every such layer has.
pub(crate) const JOIN: &str = "layers.#.eh_proj";
