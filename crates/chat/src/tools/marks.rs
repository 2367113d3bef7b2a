//! The marks that each family writes around its calls.

use super::CallFormat;
use super::block::Block;

/// The marks around a call and what stands between them.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Marks {
    pub(crate) begin: &'static str,
    /// Without one a call goes on to the next beginning or to the end of the answer.
    pub(crate) end: Option<&'static str>,
    pub(crate) block: Block,
}

const fn marks(begin: &'static str, end: &'static str, block: Block) -> Marks {
    Marks {
        begin,
        end: Some(end),
        block,
    }
}

const fn open(begin: &'static str, block: Block) -> Marks {
    Marks {
        begin,
        end: None,
        block,
    }
}

const HERMES: &[Marks] = &[marks("<tool_call>", "</tool_call>", Block::Json)];
const QWEN_CODER: &[Marks] = &[
    marks("<tool_call>", "</tool_call>", Block::Parameters),
    marks("<function=", "</function>", Block::OpenParameters),
];
const SEED: &[Marks] = &[marks(
    "<seed:tool_call>",
    "</seed:tool_call>",
    Block::Parameters,
)];
const GLM: &[Marks] = &[marks(
    "<tool_call>",
    "</tool_call>",
    Block::KeysAndValues(""),
)];
const HUNYUAN3: &[Marks] = &[marks(
    "<tool_calls:opensource>",
    "</tool_calls:opensource>",
    Block::ListedKeysAndValues(":opensource"),
)];
const LLAMA3: &[Marks] = &[
    open("<|python_tag|>", Block::Json),
    marks("<|python_start|>", "<|python_end|>", Block::Python),
];
const MISTRAL: &[Marks] = &[open("[TOOL_CALLS]", Block::NameThenJson("[ARGS]"))];
const DEEPSEEK: &[Marks] = &[marks(
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    Block::DeepSeek,
)];
const DEEPSEEK_MARKUP: &[Marks] = &[
    marks(
        "<｜DSML｜function_calls>",
        "</｜DSML｜function_calls>",
        Block::Invocations("｜DSML｜"),
    ),
    marks(
        "<｜DSML｜tool_calls>",
        "</｜DSML｜tool_calls>",
        Block::Invocations("｜DSML｜"),
    ),
];
const FUNCTIONARY31: &[Marks] = &[marks("<function=", "</function>", Block::NameThenJson(">"))];
const FUNCTIONARY32: &[Marks] = &[open(">>>", Block::NameThenJson("\n"))];
const FIREFUNCTION: &[Marks] = &[open("functools", Block::Json)];
const GRANITE3: &[Marks] = &[open("<|tool_call|>", Block::Json)];
const NEMOTRON: &[Marks] = &[marks("<TOOLCALL>", "</TOOLCALL>", Block::Json)];
const COMMAND: &[Marks] = &[marks("<|START_ACTION|>", "<|END_ACTION|>", Block::Json)];
const COMMAND_R: &[Marks] = &[marks("Action: ```json", "```", Block::Json)];
const KIMI: &[Marks] = &[marks(
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    Block::Kimi,
)];
const LFM2: &[Marks] = &[marks(
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    Block::Python,
)];
const OLMO3: &[Marks] = &[marks(
    "<function_calls>",
    "</function_calls>",
    Block::PythonLines,
)];
const GEMMA4: &[Marks] = &[marks("<|tool_call>", "<tool_call|>", Block::Gemma)];
/// MiniMax M1 and Apriel.
const TOOL_CALLS: &[Marks] = &[marks("<tool_calls>", "</tool_calls>", Block::Json)];
const MINIMAX_M2: &[Marks] = &[marks(
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    Block::Invocations(""),
)];
const MINIMAX_M3: &[Marks] = &[marks(
    "]<]minimax[>[<tool_call>",
    "]<]minimax[>[</tool_call>",
    Block::Elements("]<]minimax[>["),
)];
const MINICPM5: &[Marks] = &[marks("<function name=", "</function>", Block::Function)];
const APERTUS: &[Marks] = &[marks(
    "<|tools_prefix|>",
    "<|tools_suffix|>",
    Block::NamedObjects,
)];
const GIGACHAT: &[Marks] = &[
    marks(
        "<|message_sep|>\n\nfunction call<|role_sep|>\n",
        "<|message_sep|>",
        Block::Json,
    ),
    marks("<|function_call|>", "<|message_sep|>", Block::Json),
];

/// Control tokens within calls.
const INNER: &[&str] = &[
    "[ARGS]",
    "[CALL_ID]",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "｜DSML｜",
    "]<]minimax[>[",
    "<tool_call>",
    "</tool_call>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<tool_call:opensource>",
    "</tool_call:opensource>",
    "<tool_sep:opensource>",
    "<arg_key:opensource>",
    "</arg_key:opensource>",
    "<arg_value:opensource>",
    "</arg_value:opensource>",
    "<|message_sep|>",
    "<|message_sep|>\n\n",
    "<|role_sep|>",
    "<|role_sep|>\n",
];
/// Control tokens of messages.
const HARMONY: &[&str] = &[
    "<|start|>",
    "<|channel|>",
    "<|constrain|>",
    "<|message|>",
    "<|end|>",
];
const SOLAR: &[&str] = &[
    "<|begin|>",
    "<|think|>",
    "<|content|>",
    "<|tool_calls|>",
    "<|tool_call:begin|>",
    "<|tool_call:name|>",
    "<|tool_call:args|>",
    "<|tool_call:end|>",
    "<|calls|>",
    "<|end|>",
];
const GLIMMER: &[&str] = &["<|start|>", "<|message|>", "<|eom|>"];

impl CallFormat {
    pub(crate) fn marks(self) -> &'static [Marks] {
        match self {
            Self::Hermes => HERMES,
            Self::QwenCoder => QWEN_CODER,
            Self::Seed => SEED,
            Self::Glm => GLM,
            Self::Hunyuan3 => HUNYUAN3,
            Self::Llama3 => LLAMA3,
            Self::Mistral => MISTRAL,
            Self::DeepSeek => DEEPSEEK,
            Self::DeepSeekMarkup => DEEPSEEK_MARKUP,
            Self::Functionary31 => FUNCTIONARY31,
            Self::Functionary32 => FUNCTIONARY32,
            Self::FireFunction => FIREFUNCTION,
            Self::Granite3 => GRANITE3,
            Self::Nemotron => NEMOTRON,
            Self::Apriel | Self::MiniMax => TOOL_CALLS,
            Self::Command => COMMAND,
            Self::CommandR => COMMAND_R,
            Self::Kimi => KIMI,
            Self::Lfm2 => LFM2,
            Self::Olmo3 => OLMO3,
            Self::Gemma4 => GEMMA4,
            Self::MiniMaxM2 => MINIMAX_M2,
            Self::MiniMaxM3 => MINIMAX_M3,
            Self::MiniCpm5 => MINICPM5,
            Self::Apertus => APERTUS,
            Self::GigaChat => GIGACHAT,
            Self::Harmony | Self::Solar | Self::Glimmer | Self::Generic => &[],
        }
    }

    /// Texts of control tokens that its calls are written with: they must be spelled out for the reader.
    pub fn spelled(self) -> impl Iterator<Item = &'static str> {
        let messages = match self {
            Self::Harmony => HARMONY,
            Self::Solar => SOLAR,
            Self::Glimmer => GLIMMER,
            _ => &[],
        };
        let marks = self.marks().iter();
        let inner = if marks.len() > 0 { INNER } else { &[] };
        let outer = marks.flat_map(|marks| [Some(marks.begin), marks.end]);
        outer.flatten().chain(inner.iter().chain(messages).copied())
    }
}
