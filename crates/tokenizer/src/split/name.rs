//! The names that GGUF's `tokenizer.ggml.pre` gives to pre-tokenizers, and what goes with each.

use super::{Stage, family};

/// How text is cut into words before merging, and the habits that come with the name.
#[derive(Clone, Copy, Debug)]
pub struct PreTokenizer {
    name: &'static str,
    pub(crate) stages: &'static [Stage],
    pub(crate) whole_words: WholeWords,
    pub(crate) alphabet: Alphabet,
    pub(crate) adds_bos: bool,
}

/// Whether a word that is a token is taken at once, without merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WholeWords {
    Merge,
    Take,
    /// Taken at once when it is all line feeds.
    TakeLines,
}

/// What the tokens of a BPE vocabulary are spelled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// GPT-2's printable stand-ins for the 256 bytes.
    Bytes,
    /// The characters themselves, `▁` for a space, and `<0xXX>` for what has no token.
    Escaped,
    /// The characters themselves.
    Plain,
}

impl PreTokenizer {
    /// What llama.cpp falls back to when a file names none.
    pub const DEFAULT: PreTokenizer = merge("default", family::DEFAULT);

    /// The pre-tokenizer of that name, `None` if there is none.
    pub fn by_name(name: &str) -> Option<PreTokenizer> {
        TABLE.iter().find(|pre| pre.name == name).copied()
    }

    /// Its name in GGUF files.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// All of them.
    pub fn all() -> &'static [PreTokenizer] {
        TABLE
    }
}

const fn merge(name: &'static str, stages: &'static [Stage]) -> PreTokenizer {
    PreTokenizer {
        name,
        stages,
        whole_words: WholeWords::Merge,
        alphabet: Alphabet::Bytes,
        adds_bos: false,
    }
}

const fn take(name: &'static str, stages: &'static [Stage]) -> PreTokenizer {
    PreTokenizer {
        whole_words: WholeWords::Take,
        ..merge(name, stages)
    }
}

const fn take_bos(name: &'static str, stages: &'static [Stage]) -> PreTokenizer {
    PreTokenizer {
        adds_bos: true,
        ..take(name, stages)
    }
}

const fn escaped(name: &'static str, whole_words: WholeWords, adds_bos: bool) -> PreTokenizer {
    PreTokenizer {
        whole_words,
        alphabet: Alphabet::Escaped,
        adds_bos,
        ..merge(name, family::GEMMA4)
    }
}

const TABLE: &[PreTokenizer] = &[
    PreTokenizer::DEFAULT,
    merge("gpt-2", family::GPT2),
    merge("phi-2", family::GPT2),
    merge("mpt", family::GPT2),
    merge("olmo", family::GPT2),
    merge("jais", family::GPT2),
    merge("trillion", family::GPT2),
    merge("granite-docling", family::GPT2),
    merge("exaone4", family::GPT2),
    merge("gigachat", family::GPT2),
    merge("a.x-4.0", family::GPT2),
    merge("mellum", family::GPT2),
    merge("modern-bert", family::GPT2),
    merge("roberta-bpe", family::GPT2),
    merge("jina-es", family::GPT2),
    merge("jina-de", family::GPT2),
    merge("jina-v1-en", family::GPT2),
    merge("jina-v2-es", family::GPT2),
    merge("jina-v2-de", family::GPT2),
    merge("jina-v2-code", family::GPT2),
    merge("starcoder", family::STARCODER),
    merge("refact", family::STARCODER),
    merge("command-r", family::STARCODER),
    merge("smollm", family::STARCODER),
    merge("codeshell", family::STARCODER),
    merge("exaone", family::STARCODER),
    merge("minerva-7b", family::STARCODER),
    merge("mellum2", family::STARCODER),
    merge("falcon", family::FALCON),
    take_bos("llama3", family::LLAMA3),
    take_bos("llama-v3", family::LLAMA3),
    take_bos("llama-bpe", family::LLAMA3),
    take_bos("falcon3", family::LLAMA3),
    take_bos("falcon-h1", family::LLAMA3),
    take_bos("pixtral", family::LLAMA3),
    take_bos("midm-2.0", family::LLAMA3),
    take_bos("lfm2", family::LLAMA3),
    take_bos("jina-v5-nano", family::LLAMA3),
    merge("dbrx", family::LLAMA3),
    merge("smaug-bpe", family::LLAMA3),
    merge("chatglm-bpe", family::LLAMA3),
    take("glm4", family::LLAMA3),
    take("glm5", family::LLAMA3),
    merge("jais-2", family::JAIS2),
    take("minicpm5", family::MINICPM5),
    merge("qwen2", family::QWEN2),
    merge("deepseek-r1-qwen", family::QWEN2),
    merge("kormo", family::QWEN2),
    merge("f2llmv2", family::QWEN2),
    merge("megrez", family::QWEN2),
    merge("stablelm2", family::QWEN2),
    merge("hunyuan", family::QWEN2),
    merge("solar-open", family::QWEN2),
    merge("grok-2", family::QWEN2),
    merge("bailingmoe", family::QWEN2),
    merge("bailingmoe2", family::QWEN2),
    merge("llada-moe", family::QWEN2),
    merge("qwen35", family::QWEN35),
    merge("ufakzeka", family::UFAKZEKA),
    merge("laguna", family::LAGUNA),
    merge("seed-coder", family::SEED_CODER),
    merge("exaone-moe", family::EXAONE_MOE),
    merge("gpt-4o", family::O200K),
    merge("llama4", family::O200K),
    merge("kanana2", family::O200K),
    merge("talkie", family::O200K),
    merge("minimax-m2", family::O200K),
    take("granite-embed-multi-97m", family::O200K),
    merge("tiny_aya", family::TINY_AYA),
    merge("cohere2moe", family::TINY_AYA),
    take_bos("tekken", family::TEKKEN),
    merge("kimi-k2", family::KIMI_K2),
    take("youtu", family::YOUTU),
    merge("deepseek-llm", family::DEEPSEEK_LLM),
    merge("deepseek-coder", family::DEEPSEEK_CODER),
    merge("deepseek-v3", family::DEEPSEEK3),
    merge("hunyuan-dense", family::DEEPSEEK3),
    merge("hy_v4", family::DEEPSEEK3),
    merge("joyai-llm", family::DEEPSEEK3),
    merge("spark2_5", family::SPARK),
    merge("afmoe", family::AFMOE),
    merge("bloom", family::BLOOM),
    merge("poro-chat", family::BLOOM),
    merge("gpt3-finnish", family::BLOOM),
    merge("viking", family::VIKING),
    PreTokenizer {
        adds_bos: true,
        ..merge("chameleon", family::CHAMELEON)
    },
    merge("superbpe", family::SUPERBPE),
    escaped("gemma4", WholeWords::TakeLines, true),
    escaped("granite-embed-multi-311m", WholeWords::TakeLines, true),
    escaped("sarvam-moe", WholeWords::Merge, false),
    PreTokenizer {
        alphabet: Alphabet::Plain,
        ..merge("whitespace", family::WHITESPACE)
    },
];
