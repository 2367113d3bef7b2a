//! The families of audio towers.

use super::spec::{AudioMerge, AudioStep, AudioTowerSpec, Heed};
use AudioStep::{Gelu, Linear, Rms, SwiGlu};

/// Qwen2-Audio (<https://arxiv.org/abs/2407.10759>).
const QWEN2A: AudioTowerSpec = AudioTowerSpec {
    name: "qwen2a",
    merge: AudioMerge::Mean(2),
    heed: Heed::Sound,
    projector: &[Linear("mm.a.fc")],
};

/// Voxtral (<https://arxiv.org/abs/2507.13264>).
const VOXTRAL: AudioTowerSpec = AudioTowerSpec {
    name: "voxtral",
    merge: AudioMerge::Stack,
    heed: Heed::Window,
    projector: &[Linear("mm.a.mlp.1"), Gelu, Linear("mm.a.mlp.2")],
};

/// Ultravox from its release 0.5 on (<https://github.com/fixie-ai/ultravox>), whose windows llama.cpp fills up too.
const ULTRAVOX: AudioTowerSpec = AudioTowerSpec {
    name: "ultravox",
    projector: &[
        Rms("mm.a.norm_pre", 1e-6),
        Linear("mm.a.mlp.1"),
        SwiGlu,
        Rms("mm.a.norm_mid", 1e-6),
        Linear("mm.a.mlp.2"),
    ],
    ..VOXTRAL
};

/// All families.
pub(super) static ALL: &[AudioTowerSpec] = &[QWEN2A, VOXTRAL, ULTRAVOX];
