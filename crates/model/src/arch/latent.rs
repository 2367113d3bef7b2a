//! Families whose keys and values are made from a short vector (multi-head latent attention).

use super::llama_like::{DENSE, HALF_SPLIT, MINICPM};
use crate::spec::{
    Activation, ArchSpec, Experts, Ffn, KeySource, Position, Presence, Recurrence, Routing, Scale,
    Temperature,
};

/// DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash, Mistral Large 3.
pub(super) const DEEPSEEK2: ArchSpec = ArchSpec {
    name: "deepseek2",
    keys: KeySource::Latent,
    temperature: Temperature::Metadata,
    experts: Experts::IfCounted(Routing {
        renormalize: false,
        shared: Presence::IfPresent,
        ..Routing::MIXTRAL
    }),
    ..DENSE
};

/// DeepSeek V3.2, as long as its indexer would choose every key: then it is DeepSeek V3.
pub(super) const DEEPSEEK32: ArchSpec = ArchSpec {
    name: "deepseek32",
    indexer: Presence::Always,
    ..DEEPSEEK2
};

/// GLM 5: the same.
pub(super) const GLM_DSA: ArchSpec = ArchSpec {
    name: "glm-dsa",
    ..DEEPSEEK32
};

/// Mistral Small 4.
pub(super) const MISTRAL4: ArchSpec = ArchSpec {
    name: "mistral4",
    ..DEEPSEEK2
};

/// Kimi Linear: latent attention without positions in every fourth layer, Kimi's delta rule in the others.
pub(super) const KIMI_LINEAR: ArchSpec = ArchSpec {
    name: "kimi-linear",
    recurrence: Recurrence::KimiDelta,
    position: Position::None,
    temperature: Temperature::Never,
    ..DEEPSEEK2
};

/// MiniCPM 3: MiniCPM's scales, which files leave out.
pub(super) const MINICPM3: ArchSpec = ArchSpec {
    name: "minicpm3",
    keys: KeySource::Latent,
    embedding_scale: Scale::MultiplyOr(12.0),
    residual_scale: MINICPM.residual_scale,
    logit_scale: MINICPM.logit_scale,
    ..HALF_SPLIT
};

/// PLM: plain networks, ReLU².
pub(super) const PLM: ArchSpec = ArchSpec {
    name: "plm",
    keys: KeySource::Latent,
    ffn: Ffn::Plain,
    activation: Activation::ReluSquared,
    ..DENSE
};
