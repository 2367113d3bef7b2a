//! Gemma 3: Gemma 2 with norms on query and key heads, five sliding layers to a full one, no soft caps.

use super::gemma2;
use crate::spec::{ArchSpec, AttnScale, QkNorm, Window, WindowRope};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "gemma3",
    qk_norm: QkNorm::PerHead,
    window: Window::AllButEvery(6),
    window_rope: WindowRope::Unscaled {
        base: Some(10_000.0),
    },
    attn_scale: AttnScale::WidthPerHeadAtLayers(62),
    ..gemma2::SPEC
};
