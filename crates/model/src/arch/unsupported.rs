//! Families that are known by name and cannot be run yet, with what they wait for.

const MLA: &str = "multi-head latent attention";
const MAMBA: &str = "state-space layers (Mamba)";
const DELTA_NET: &str = "gated delta-net layers";
const DIFFUSION: &str = "decoding by diffusion";
const SPARSE: &str = "sparse attention with an indexer";
const SPEECH: &str = "speech output";
const DRAFTS: &str = "a draft model that reads another model's states";

/// Names in `general.architecture`, and what is missing.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    ("bailingmoe3", MLA),
    (
        "chameleon",
        "layer norms of heads with biases, and image tokens",
    ),
    (
        "clip",
        "the text model that it is the projector of: pass that, and this with --mmproj",
    ),
    ("cogvlm", "second weights for image tokens"),
    ("cohere2moe", "the mean of routed and shared experts"),
    ("deci", "layers without attention or without a network"),
    ("deepseek4", SPARSE),
    ("dflash", DRAFTS),
    ("dots3note", MLA),
    ("dream", DIFFUSION),
    ("eagle3", DRAFTS),
    ("gemma4-assistant", DRAFTS),
    ("glm5-next", MLA),
    ("graniteswitch", "adapters that switch by token"),
    ("grovemoe", "experts that share chunks"),
    ("hrm_text", "layers that are run several times"),
    ("hy_v4", MLA),
    ("kimi-k3", DELTA_NET),
    ("laguna", "attention gates of one number a head"),
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
    ("plamo2", MAMBA),
    ("pockettts", SPEECH),
    ("qwen3tts", SPEECH),
    ("qwen4exp", DELTA_NET),
    ("rnd1", DIFFUSION),
    ("smallthinker", "routers that read a layer's input"),
    ("spark2_5", "attention gates of one number a head"),
    ("step35", "attention gates of one number a head"),
    ("talkie", "skips from the embedding to every layer"),
    ("wavtokenizer-dec", SPEECH),
    ("whisper", "sound to read: `strata transcribe` runs it"),
];

/// What a known family waits for.
pub fn missing(name: &str) -> Option<&'static str> {
    let known = UNSUPPORTED.iter().find(|(known, _)| *known == name);
    known.map(|&(_, missing)| missing)
}
