//! Families that are known by name and cannot be run yet, with what they wait for.

const MLA: &str = "multi-head latent attention";
const MAMBA: &str = "state-space layers (Mamba)";
const DELTA_NET: &str = "gated delta-net layers";
const RWKV: &str = "RWKV's recurrent layers";
const DIFFUSION: &str = "decoding by diffusion";
const SPARSE: &str = "sparse attention with an indexer";
const ENCODER: &str = "an encoder with norms before its branches";
const SPEECH: &str = "speech output";
const DRAFTS: &str = "a draft model that reads another model's states";

/// Names in `general.architecture`, and what is missing.
pub const UNSUPPORTED: &[(&str, &str)] = &[
    ("arwkv7", RWKV),
    ("bailingmoe3", MLA),
    (
        "chameleon",
        "layer norms of heads with biases, and image tokens",
    ),
    ("clip", "image encoders: pass the text model's file"),
    ("cogvlm", "second weights for image tokens"),
    ("cohere2moe", "the mean of routed and shared experts"),
    ("deci", "layers without attention or without a network"),
    ("deepseek2", MLA),
    ("deepseek32", SPARSE),
    ("deepseek4", SPARSE),
    ("dflash", DRAFTS),
    ("dots3note", MLA),
    ("dream", DIFFUSION),
    ("eagle3", DRAFTS),
    ("eurobert", ENCODER),
    ("falcon-h1", MAMBA),
    ("gemma-embedding", ENCODER),
    ("gemma3n", "per-layer embeddings, AltUp and Laurel"),
    ("gemma4", "per-layer embeddings and shared keys and values"),
    ("gemma4-assistant", DRAFTS),
    ("glm-dsa", SPARSE),
    ("glm5-next", MLA),
    ("granitehybrid", MAMBA),
    ("graniteswitch", "adapters that switch by token"),
    ("grovemoe", "experts that share chunks"),
    ("hrm_text", "layers that are run several times"),
    ("hy_v4", MLA),
    ("jamba", MAMBA),
    (
        "jina-bert-v3",
        "an encoder with rotary positions and fused networks",
    ),
    ("kimi-k3", DELTA_NET),
    ("kimi-linear", DELTA_NET),
    ("laguna", "attention gates of one number a head"),
    ("llada", DIFFUSION),
    ("llada-moe", DIFFUSION),
    ("llama-embed", "attention in both directions in a decoder"),
    ("mamba", MAMBA),
    ("mamba2", MAMBA),
    ("maple", "experts whose gates are clamped by layer"),
    ("mimo2", "value heads of another size than key heads"),
    ("minicpm3", MLA),
    ("minimax-01", "lightning attention"),
    ("minimax-m3", SPARSE),
    ("mistral4", MLA),
    ("modern-bert", ENCODER),
    (
        "muse-glimmer",
        "a norm of the embedding without weights, and a second epsilon",
    ),
    ("nanbeige", "layers that are run several times"),
    ("nemotron_h", MAMBA),
    ("nemotron_h_moe", MAMBA),
    ("neo-bert", ENCODER),
    ("nomic-bert-moe", "experts in an encoder"),
    ("plamo2", MAMBA),
    ("plm", MLA),
    ("pockettts", SPEECH),
    ("qwen35", DELTA_NET),
    ("qwen35moe", DELTA_NET),
    ("qwen3next", DELTA_NET),
    ("qwen3tts", SPEECH),
    ("qwen4exp", DELTA_NET),
    ("rnd1", DIFFUSION),
    ("rwkv6", RWKV),
    ("rwkv6qwen2", RWKV),
    ("rwkv7", RWKV),
    ("smallthinker", "routers that read a layer's input"),
    ("spark2_5", "attention gates of one number a head"),
    ("step35", "attention gates of one number a head"),
    ("t5", "encoder-decoders"),
    ("t5encoder", "relative position buckets"),
    ("talkie", "skips from the embedding to every layer"),
    ("wavtokenizer-dec", SPEECH),
];

/// What a known family waits for.
pub fn missing(name: &str) -> Option<&'static str> {
    let known = UNSUPPORTED.iter().find(|(known, _)| *known == name);
    known.map(|&(_, missing)| missing)
}
