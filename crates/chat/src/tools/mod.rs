//! How model families write tool calls.
//!
//! A family is recognised by the marks in its chat template ([`signs`]). Most wrap JSON in marks ([`marks`]); the rest of the
//! knowledge is how to read what stands between them ([`block`]). A call that cannot be read is text: the model said it,
//! so the client sees it.

pub(crate) mod block;
pub(crate) mod call_reader;
pub(crate) mod choice;
pub mod grammar;
pub(crate) mod loose;
mod marks;
mod markup;
pub(crate) mod object_reader;
pub(crate) mod schemas;
mod signs;

pub(crate) use marks::Marks;

/// How a model writes tool calls.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CallFormat {
    /// Hermes, Qwen 2.5 and 3, Granite 4, MiMo.
    Hermes,
    /// Qwen3-Coder and its kin: `<function=…><parameter=…>` between Hermes' marks.
    QwenCoder,
    /// Seed-OSS: the same with marks of its own.
    Seed,
    /// GLM and Laguna: keys and values between Hermes' marks.
    Glm,
    /// Hunyuan 3: the same in marks with a suffix, within a list.
    Hunyuan3,
    /// Llama 3.x: bare JSON, or after `<|python_tag|>`; Llama 4.
    Llama3,
    /// `[TOOL_CALLS]` and a list, or names with `[ARGS]`.
    Mistral,
    /// DeepSeek V3 and R1.
    DeepSeek,
    /// DeepSeek V3.2 and V4: parameters in tags of its own markup.
    DeepSeekMarkup,
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
    /// A list between `<tool_calls>` marks: Apriel, Jamba.
    Apriel,
    /// Command-R7B and later.
    Command,
    /// The first Command-R: `Action:` and a fenced list.
    CommandR,
    /// Kimi K2: sections of calls.
    Kimi,
    /// LFM2: Python's calls between marks.
    Lfm2,
    /// OLMo 3: Python's calls, one a line.
    Olmo3,
    /// Gemma 4: `call:name{…}` with quotation marks of its own.
    Gemma4,
    /// MiniMax M1: JSON objects between `<tool_calls>` marks.
    MiniMax,
    /// MiniMax M2: parameters in tags.
    MiniMaxM2,
    /// MiniMax M3: arguments as nested elements, each tag after a mark.
    MiniMaxM3,
    /// MiniCPM 5: `<function name="…"><param name="…">`.
    MiniCpm5,
    /// Apertus: objects with the tool's name as their key.
    Apertus,
    /// GigaChat 3: a message of its own, or after `<|function_call|>`.
    GigaChat,
    /// gpt-oss: channels with recipients.
    Harmony,
    /// Solar Open: messages of several kinds.
    Solar,
    /// Muse Glimmer: messages with recipients, calls in tags.
    Glimmer,
    /// A model without a way of its own: bare JSON, as the system prompt asks for.
    Generic,
}

impl CallFormat {
    /// Whether an answer that is nothing but JSON may be a call.
    pub(crate) fn allows_bare(self) -> bool {
        matches!(self, Self::Llama3 | Self::Generic)
    }

    /// Whether every answer says whom it is for or what it is, also where there are no tools.
    pub fn names_recipients(self) -> bool {
        matches!(
            self,
            Self::Harmony | Self::Functionary32 | Self::Solar | Self::Glimmer
        )
    }
}

#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
