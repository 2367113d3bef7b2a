//! The shapes that `synth` knows: those of published models.

use clap::ValueEnum;

/// A named size.
#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// 4 layers, for tests
    Tiny,
    /// Qwen1.5-0.5B's
    #[value(name = "0.5b")]
    B0_5,
    /// Llama-3.2-1B's
    #[value(name = "1b")]
    B1,
    /// Llama-3.2-3B's
    #[value(name = "3b")]
    B3,
    /// Llama-3.1-8B's
    #[value(name = "8b")]
    B8,
    /// Yi-1.5-9B's
    #[value(name = "9b")]
    B9,
    /// Qwen2.5-32B's, as a llama
    #[value(name = "32b")]
    B32,
    /// 4 layers of LFM2, for tests
    TinyLfm2,
    /// LFM2-1.2B's
    #[value(name = "lfm2-1.2b")]
    Lfm2,
    /// 4 layers of experts, for tests
    TinyMoe,
    /// Qwen3-30B-A3B's with half its layers and a quarter of its experts
    #[value(name = "moe-4b")]
    Moe,
    /// 4 layers of Mamba 2 and attention, for tests
    TinyHybrid,
    /// Granite-4.0-H-Micro's
    #[value(name = "hybrid-3b")]
    Hybrid,
    /// 4 layers and a small tower, for tests
    TinyVision,
    /// SigLIP-400m's at 896 pixels, as Gemma 3 has it, before Llama-3.2-1B's
    #[value(name = "vision-1b")]
    Vision,
    /// 2 layers of a Whisper, for tests
    TinyWhisper,
    /// Whisper-small's
    WhisperSmall,
}

/// Whether the output matrix is the embedding's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// `token_embd` serves for both.
    Tied,
    /// `output.weight` is a tensor of its own.
    Own,
}

/// What a model's layers are.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Layers {
    /// A llama's: attention in all of them.
    Attention,
    /// LFM2's: attention with head norms in these, short convolutions in the others.
    ShortConv(&'static [u32]),
    /// Qwen3's with experts: attention with head norms.
    Experts(Experts),
    /// Granite 4's: attention in these, Mamba 2 in the others.
    Mamba2(&'static [u32], StateSpace),
}

/// A layer's experts.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Experts {
    pub(crate) count: u32,
    pub(crate) used: u32,
    pub(crate) ffn: u32,
}

/// A layer's state space, twice as wide as the model.
#[derive(Copy, Clone, Debug)]
pub(crate) struct StateSpace {
    pub(crate) heads: u32,
    pub(crate) state: u32,
}

/// The sizes that make a model.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Dimensions {
    pub(crate) layers: u32,
    pub(crate) hidden: u32,
    pub(crate) ffn: u32,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) vocabulary: u32,
    pub(crate) context: u32,
    pub(crate) rope_base: f32,
    pub(crate) output: Output,
    pub(crate) mixers: Layers,
}

/// A SigLIP tower whose patches of 14 pixels are averaged 4 by 4, as Gemma 3 does.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TowerShape {
    /// Pixels on a side.
    pub(crate) image: u32,
    pub(crate) width: u32,
    pub(crate) ffn: u32,
    pub(crate) layers: u32,
    pub(crate) heads: u32,
}

/// A Whisper, whose encoder and decoder have as many layers and heads.
#[derive(Copy, Clone, Debug)]
pub(crate) struct SpeechShape {
    pub(crate) width: u32,
    pub(crate) layers: u32,
    pub(crate) heads: u32,
    pub(crate) vocabulary: u32,
}

impl Dimensions {
    /// `general.architecture`.
    pub(crate) fn arch(&self) -> &'static str {
        match self.mixers {
            Layers::Attention => "llama",
            Layers::ShortConv(_) => "lfm2",
            Layers::Experts(_) => "qwen3moe",
            Layers::Mamba2(..) => "granitehybrid",
        }
    }

    /// Whether a layer is attention.
    pub(crate) fn attends(&self, layer: u32) -> bool {
        match self.mixers {
            Layers::Attention | Layers::Experts(_) => true,
            Layers::ShortConv(attention) | Layers::Mamba2(attention, _) => {
                attention.contains(&layer)
            }
        }
    }

    pub(crate) fn head_dim(&self) -> u32 {
        self.hidden / self.heads
    }

    pub(crate) fn kv_width(&self) -> u32 {
        self.head_dim() * self.kv_heads
    }
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::B0_5 => "0.5b",
            Self::B1 => "1b",
            Self::B3 => "3b",
            Self::B8 => "8b",
            Self::B9 => "9b",
            Self::B32 => "32b",
            Self::TinyLfm2 => "tiny-lfm2",
            Self::Lfm2 => "lfm2-1.2b",
            Self::TinyMoe => "tiny-moe",
            Self::Moe => "moe-4b",
            Self::TinyHybrid => "tiny-hybrid",
            Self::Hybrid => "hybrid-3b",
            Self::TinyVision => "tiny-vision",
            Self::Vision => "vision-1b",
            Self::TinyWhisper => "tiny-whisper",
            Self::WhisperSmall => "whisper-small",
        }
    }

    /// The tower beside the language model.
    pub(crate) fn tower(self) -> Option<TowerShape> {
        match self {
            Self::TinyVision => Some(TowerShape {
                image: 56,
                width: 64,
                ffn: 112,
                layers: 2,
                heads: 4,
            }),
            Self::Vision => Some(TowerShape {
                image: 896,
                width: 1152,
                ffn: 4304,
                layers: 27,
                heads: 16,
            }),
            _ => None,
        }
    }

    /// The Whisper that this is.
    pub(crate) fn speech(self) -> Option<SpeechShape> {
        match self {
            Self::TinyWhisper => Some(SpeechShape {
                width: 64,
                layers: 2,
                heads: 4,
                vocabulary: 2048,
            }),
            Self::WhisperSmall => Some(SpeechShape {
                width: 768,
                layers: 12,
                heads: 12,
                vocabulary: 51_865,
            }),
            _ => None,
        }
    }

    /// The language model's sizes; those of the smallest one for what has none.
    pub(crate) fn dimensions(self) -> Dimensions {
        let llama3 = Dimensions {
            layers: 16,
            hidden: 2048,
            ffn: 8192,
            heads: 32,
            kv_heads: 8,
            vocabulary: 128_256,
            context: 131_072,
            rope_base: 500_000.0,
            output: Output::Tied,
            mixers: Layers::Attention,
        };
        let tiny = Dimensions {
            layers: 4,
            hidden: 256,
            ffn: 768,
            heads: 4,
            kv_heads: 2,
            vocabulary: 2048,
            context: 2048,
            rope_base: 10_000.0,
            output: Output::Own,
            mixers: Layers::Attention,
        };
        match self {
            Self::Tiny | Self::TinyVision | Self::TinyWhisper | Self::WhisperSmall => tiny,
            Self::TinyLfm2 => Dimensions {
                output: Output::Tied,
                mixers: Layers::ShortConv(&[1, 3]),
                ..tiny
            },
            Self::Lfm2 => Dimensions {
                vocabulary: 65_536,
                context: 128_000,
                rope_base: 1_000_000.0,
                mixers: Layers::ShortConv(&[2, 5, 8, 10, 12, 14]),
                ..llama3
            },
            Self::TinyMoe => Dimensions {
                mixers: Layers::Experts(Experts {
                    count: 8,
                    used: 2,
                    ffn: 256,
                }),
                ..tiny
            },
            Self::B32 => Dimensions {
                layers: 64,
                hidden: 5120,
                ffn: 27_648,
                heads: 40,
                vocabulary: 152_064,
                rope_base: 1_000_000.0,
                output: Output::Own,
                ..llama3
            },
            Self::Moe => Dimensions {
                layers: 24,
                ffn: 6144,
                heads: 16,
                kv_heads: 4,
                vocabulary: 151_936,
                context: 40_960,
                rope_base: 1_000_000.0,
                output: Output::Own,
                mixers: Layers::Experts(Experts {
                    count: 32,
                    used: 8,
                    ffn: 768,
                }),
                ..llama3
            },
            Self::TinyHybrid => Dimensions {
                output: Output::Tied,
                mixers: Layers::Mamba2(
                    &[1, 3],
                    StateSpace {
                        heads: 8,
                        state: 32,
                    },
                ),
                ..tiny
            },
            Self::Hybrid => Dimensions {
                layers: 40,
                vocabulary: 100_352,
                rope_base: 10_000.0,
                mixers: Layers::Mamba2(
                    &[5, 15, 25, 35],
                    StateSpace {
                        heads: 64,
                        state: 128,
                    },
                ),
                ..llama3
            },
            Self::B0_5 => Dimensions {
                layers: 24,
                hidden: 1024,
                ffn: 2816,
                heads: 16,
                kv_heads: 16,
                vocabulary: 151_936,
                context: 32_768,
                rope_base: 1_000_000.0,
                ..llama3
            },
            Self::B1 | Self::Vision => llama3,
            Self::B3 => Dimensions {
                layers: 28,
                hidden: 3072,
                heads: 24,
                ..llama3
            },
            Self::B8 => Dimensions {
                layers: 32,
                hidden: 4096,
                ffn: 14_336,
                output: Output::Own,
                ..llama3
            },
            Self::B9 => Dimensions {
                layers: 48,
                hidden: 4096,
                ffn: 11_008,
                heads: 32,
                kv_heads: 4,
                vocabulary: 64_000,
                context: 4096,
                rope_base: 5_000_000.0,
                output: Output::Own,
                ..llama3
            },
        }
    }
}
