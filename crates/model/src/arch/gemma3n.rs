//! Gemma 3n and 4: embeddings for each layer, keys and values that the last layers share.

use super::gemma3;
use crate::spec::{
    ArchSpec, AttnScale, DenseBeside, Experts, ImageLayers, Presence, Routing, ValueNorm, Window,
};

/// Gemma 3n: several residual streams, of which a layer computes one.
pub(super) const GEMMA3N: ArchSpec = ArchSpec {
    name: "gemma3n",
    value_norm: ValueNorm::Plain,
    attn_scale: AttnScale::One,
    window: Window::AllButEvery(5),
    streams: Presence::Always,
    ..gemma3::SPEC
};

/// Gemma 4: sizes of heads by layer. Layers without windows may make values from their keys.
pub(super) const GEMMA4: ArchSpec = ArchSpec {
    name: "gemma4",
    streams: Presence::Never,
    layer_scale: Presence::IfPresent,
    window: Window::AllButEvery(6),
    image_layers: ImageLayers::Windowed,
    experts: Experts::IfCounted(Routing {
        dense: DenseBeside::Normed,
        ..Routing::MIXTRAL
    }),
    ..GEMMA3N
};
