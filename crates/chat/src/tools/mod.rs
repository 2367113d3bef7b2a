//! How model families write tool calls.
//!
//! A family is recognised by the marks in its chat template. Most wrap JSON in marks; the rest of the knowledge is how
//! to read what stands between them ([`block`]). A call that cannot be read is text: the model said it, so the client
//! sees it.

pub(crate) mod block;
pub(crate) mod call_reader;
pub(crate) mod choice;
pub mod grammar;
pub(crate) mod loose;
pub(crate) mod object_reader;

use block::Block;

/// How a model writes tool calls.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CallFormat {
    /// Hermes, Qwen 2.5 and 3, Granite 4, MiMo.
    Hermes,
    /// Qwen3-Coder and its kin: `<function=…><parameter=…>` between Hermes' marks.
    QwenCoder,
    /// Seed-OSS: the same with marks of its own.
    Seed,
    /// GLM: keys and values between Hermes' marks.
    Glm,
    /// Llama 3.x: bare JSON, or after `<|python_tag|>`.
    Llama3,
    /// `[TOOL_CALLS]` and a list, or names with `[ARGS]`.
    Mistral,
    /// DeepSeek V3 and R1.
    DeepSeek,
    /// Functionary 3.1: `<function=name>{…}</function>`.
    Functionary31,
    /// Functionary 3.2: `>>>name` and JSON on the next line.
    Functionary32,
    /// `functools` and a list.
    FireFunction,
    /// `<|tool_call|>` and a list.
    Granite3,
    /// A list between `<TOOLCALL>` marks.
    Nemotron,
    /// Command-R7B and later.
    Command,
    /// The first Command-R: `Action:` and a fenced list.
    CommandR,
    /// Kimi K2: sections of calls.
    Kimi,
    /// LFM2: Python's calls between marks.
    Lfm2,
    /// Gemma 4: `call:name{…}` with quotation marks of its own.
    Gemma4,
    /// MiniMax: JSON objects between `<tool_calls>` marks.
    MiniMax,
    /// Apertus: objects with the tool's name as their key.
    Apertus,
    /// gpt-oss: channels with recipients.
    Harmony,
    /// A model without a way of its own: bare JSON, as the system prompt asks for.
    Generic,
}

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

impl CallFormat {
    /// The format that a chat template teaches: the first whose mark it contains, from the particular to the general.
    pub fn of_template(template: &str) -> Self {
        const SIGNS: &[(&[&str], CallFormat)] = &[
            (&["<|channel|>", "functions."], CallFormat::Harmony),
            (&["<seed:tool_call>"], CallFormat::Seed),
            (&["<tool_call>", "<arg_key>"], CallFormat::Glm),
            (&["<tool_call>", "<function="], CallFormat::QwenCoder),
            (&["<|tool_calls_section_begin|>"], CallFormat::Kimi),
            (&["<｜tool▁calls▁begin｜>"], CallFormat::DeepSeek),
            (&["<|START_ACTION|>"], CallFormat::Command),
            (&["<TOOLCALL>"], CallFormat::Nemotron),
            (&["[TOOL_CALLS]"], CallFormat::Mistral),
            (&["<|tool_call_start|>"], CallFormat::Lfm2),
            (&["<|tool_list_start|>"], CallFormat::Lfm2),
            (&["<|tool_call>", "call:"], CallFormat::Gemma4),
            (&["<|tools_prefix|>"], CallFormat::Apertus),
            (&["<tool_call>"], CallFormat::Hermes),
            (&["<tool_calls>"], CallFormat::MiniMax),
            (&["<|tool_call|>"], CallFormat::Granite3),
            (&["<function="], CallFormat::Functionary31),
            (&[">>>all"], CallFormat::Functionary32),
            (&["functools["], CallFormat::FireFunction),
            (&["directly_answer", "Action:"], CallFormat::CommandR),
            (&["<|python_tag|>"], CallFormat::Llama3),
            (
                &["<|start_header_id|>", "\"parameters\":"],
                CallFormat::Llama3,
            ),
        ];
        SIGNS
            .iter()
            .find(|(signs, _)| signs.iter().all(|sign| template.contains(sign)))
            .map_or(Self::Generic, |&(_, format)| format)
    }

    /// Whether a template shows tools to its model. Where it does not, the system prompt has to.
    pub fn template_has_tools(template: &str) -> bool {
        template.contains("tools")
    }

    pub(crate) fn marks(self) -> &'static [Marks] {
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
        const GLM: &[Marks] = &[marks("<tool_call>", "</tool_call>", Block::KeysAndValues)];
        const LLAMA3: &[Marks] = &[open("<|python_tag|>", Block::Json)];
        const MISTRAL: &[Marks] = &[open("[TOOL_CALLS]", Block::NameThenJson("[ARGS]"))];
        const DEEPSEEK: &[Marks] = &[marks(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            Block::DeepSeek,
        )];
        const FUNCTIONARY31: &[Marks] =
            &[marks("<function=", "</function>", Block::NameThenJson(">"))];
        const FUNCTIONARY32: &[Marks] = &[open(">>>", Block::NameThenJson("\n"))];
        const FIREFUNCTION: &[Marks] = &[open("functools", Block::Json)];
        const GRANITE3: &[Marks] = &[open("<|tool_call|>", Block::Json)];
        const LFM2: &[Marks] = &[marks(
            "<|tool_call_start|>",
            "<|tool_call_end|>",
            Block::Python,
        )];
        const GEMMA4: &[Marks] = &[marks("<|tool_call>", "<tool_call|>", Block::Gemma)];
        const MINIMAX: &[Marks] = &[marks("<tool_calls>", "</tool_calls>", Block::Json)];
        const APERTUS: &[Marks] = &[marks(
            "<|tools_prefix|>",
            "<|tools_suffix|>",
            Block::NamedObjects,
        )];
        const NEMOTRON: &[Marks] = &[marks("<TOOLCALL>", "</TOOLCALL>", Block::Json)];
        const COMMAND: &[Marks] = &[marks("<|START_ACTION|>", "<|END_ACTION|>", Block::Json)];
        const COMMAND_R: &[Marks] = &[marks("Action: ```json", "```", Block::Json)];
        const KIMI: &[Marks] = &[marks(
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            Block::Kimi,
        )];
        match self {
            Self::Hermes => HERMES,
            Self::QwenCoder => QWEN_CODER,
            Self::Seed => SEED,
            Self::Glm => GLM,
            Self::Llama3 => LLAMA3,
            Self::Mistral => MISTRAL,
            Self::DeepSeek => DEEPSEEK,
            Self::Functionary31 => FUNCTIONARY31,
            Self::Functionary32 => FUNCTIONARY32,
            Self::FireFunction => FIREFUNCTION,
            Self::Granite3 => GRANITE3,
            Self::Nemotron => NEMOTRON,
            Self::Lfm2 => LFM2,
            Self::Gemma4 => GEMMA4,
            Self::MiniMax => MINIMAX,
            Self::Apertus => APERTUS,
            Self::Command => COMMAND,
            Self::CommandR => COMMAND_R,
            Self::Kimi => KIMI,
            Self::Harmony | Self::Generic => &[],
        }
    }

    /// Whether an answer that is nothing but JSON may be a call.
    pub(crate) fn allows_bare(self) -> bool {
        matches!(self, Self::Llama3 | Self::Generic)
    }

    /// Whether every answer says whom it is for, also where there are no tools.
    pub fn names_recipients(self) -> bool {
        matches!(self, Self::Harmony | Self::Functionary32)
    }

    /// Texts of control tokens that its calls are written with: they must be spelled out for the reader.
    pub fn spelled(self) -> impl Iterator<Item = &'static str> {
        const HARMONY: &[&str] = &[
            "<|start|>",
            "<|channel|>",
            "<|constrain|>",
            "<|message|>",
            "<|end|>",
        ];
        const INNER: &[&str] = &[
            "[ARGS]",
            "[CALL_ID]",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ];
        let harmony = if self == Self::Harmony { HARMONY } else { &[] };
        let marks = self.marks().iter();
        let inner = if marks.len() > 0 { INNER } else { &[] };
        let outer = marks.flat_map(|marks| [Some(marks.begin), marks.end]);
        outer.flatten().chain(inner.iter().chain(harmony).copied())
    }
}

#[cfg(test)]
mod tests;
