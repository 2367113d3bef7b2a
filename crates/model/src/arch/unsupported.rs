//! Families that are known by name and cannot be run yet, with what they wait for.

const HYPER: &str = "hyper-connections, and sparse attention with an indexer";
const DIFFUSION: &str = "decoding by diffusion";
const SPARSE: &str = "sparse attention with an indexer";
const SPEECH: &str = "speech output";
const DRAFTS: &str = "a draft model that reads another model's states";

/// Names in `general.architecture`, and what is missing.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "bailingmoe3",
        "gates of one number a head over latent attention, and decays with a lower bound",
    ),
    (
        "chameleon",
        "layer norms of heads with biases, and image tokens",
    ),
    (
        "clip",
        "the text model that it is the projector of: pass that, and this with --mmproj",
    ),
    ("cogvlm", "second weights for image tokens"),
    ("deci", "layers without attention or without a network"),
    ("deepseek4", SPARSE),
    ("dflash", DRAFTS),
    ("dots3note", SPARSE),
    ("dream", DIFFUSION),
    ("eagle3", DRAFTS),
    ("gemma4-assistant", DRAFTS),
    ("glm5-next", HYPER),
    ("graniteswitch", "adapters that switch by token"),
    ("grovemoe", "experts that share chunks"),
    ("hrm_text", "layers that are run several times"),
    ("hy_v4", HYPER),
    (
        "kimi-k3",
        "attention over earlier layers, and experts of a short vector",
    ),
    ("llada", DIFFUSION),
    ("llada-moe", DIFFUSION),
    ("maple", "experts whose gates are clamped by layer"),
    ("mimo2", "value heads of another size than key heads"),
    ("minimax-m3", SPARSE),
    (
        "muse-glimmer",
        "a norm of the embedding without weights, and a second epsilon",
    ),
    ("nanbeige", "layers that are run several times"),
    (
        "plamo2",
        "state spaces whose steps come from normed vectors and belong to heads",
    ),
    ("pockettts", SPEECH),
    ("qwen3tts", SPEECH),
    ("qwen4exp", "hyper-connections, and embeddings of n-grams"),
    ("rnd1", DIFFUSION),
    ("step35", "experts whose gates are clamped by layer"),
    ("talkie", "skips from the embedding to every layer"),
    ("wavtokenizer-dec", SPEECH),
    ("whisper", "sound to read: `strata transcribe` runs it"),
    ("wav2vec2", "sound to read: `strata transcribe` runs it"),
    ("hubert", "sound to read: `strata transcribe` runs it"),
];

/// What a known family waits for.
pub fn missing(name: &str) -> Option<&'static str> {
    let known = UNSUPPORTED.iter().find(|(known, _)| *known == name);
    known.map(|&(_, missing)| missing)
}
