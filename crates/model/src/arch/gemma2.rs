//! Gemma 2: norms after both branches, soft caps, and every other layer sliding.

use super::gemma;
use crate::spec::{ArchSpec, AttnScale, Presence, Window};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "gemma2",
    post_attn_norm: Presence::Always,
    post_ffn_norm: Presence::Always,
    window: Window::AllButEvery(2),
    attn_scale: AttnScale::WidthPerHeadAtLayers(46),
    ..gemma::SPEC
};
