//! What constrains an answer, for whoever compiles it into the engine's constraint.

use super::CallFormat;
use crate::json::Json;
use crate::{Format, Tool};
use alloc::string::String;
use alloc::vec::Vec;

/// What constrains an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerConstraint {
    /// Nothing.
    Free,
    /// The request's format.
    Format(Format),
    /// It must be at least one tool call and nothing else.
    Calls(CallGrammar),
}

/// Tool calls as a model writes them: `begin`, then calls separated by `between`, then `end`. A call is an object with
/// the tool's `name`, and its arguments under `arguments_key`.
#[derive(Clone, Debug, PartialEq)]
pub struct CallGrammar {
    /// The tools' names with the schemas of their arguments.
    pub tools: Vec<(String, Json)>,
    /// Before the calls.
    pub begin: &'static str,
    /// Between two calls.
    pub between: &'static str,
    /// After the calls.
    pub end: &'static str,
    /// The key of the arguments.
    pub arguments_key: &'static str,
    /// Whether several calls are allowed.
    pub several: bool,
}

impl CallFormat {
    /// The format that a grammar can enforce: this one, or a bare JSON list if this one is not made of JSON objects.
    pub fn for_grammar(self) -> Self {
        match self.layout() {
            Some(_) => self,
            None => Self::Generic,
        }
    }

    /// `begin`, `between`, `end` and `arguments_key` of the grammar.
    fn layout(self) -> Option<[&'static str; 4]> {
        Some(match self {
            Self::Generic => ["[", ", ", "]", "arguments"],
            Self::Mistral => ["[TOOL_CALLS][", ", ", "]", "arguments"],
            Self::Granite3 => ["<|tool_call|>[", ", ", "]", "arguments"],
            Self::Nemotron => ["<TOOLCALL>[", ", ", "]</TOOLCALL>", "arguments"],
            Self::Apriel => ["<tool_calls>[", ", ", "]</tool_calls>", "arguments"],
            Self::MiniMax => ["<tool_calls>\n", "\n", "\n</tool_calls>", "arguments"],
            Self::FireFunction => ["functools[", ", ", "]", "arguments"],
            Self::Llama3 => ["", "; ", "", "parameters"],
            Self::Hermes => [
                "<tool_call>\n",
                "\n</tool_call>\n<tool_call>\n",
                "\n</tool_call>",
                "arguments",
            ],
            Self::QwenCoder
            | Self::Seed
            | Self::Glm
            | Self::Hunyuan3
            | Self::DeepSeek
            | Self::DeepSeekMarkup
            | Self::Functionary31
            | Self::Functionary32
            | Self::Command
            | Self::CommandR
            | Self::Kimi
            | Self::Lfm2
            | Self::Olmo3
            | Self::Gemma4
            | Self::MiniMaxM2
            | Self::MiniMaxM3
            | Self::MiniCpm5
            | Self::Apertus
            | Self::GigaChat
            | Self::Harmony
            | Self::Solar
            | Self::Glimmer => return None,
        })
    }

    /// A grammar for calls to these tools.
    pub(crate) fn calls(self, tools: &[&Tool], several: bool) -> CallGrammar {
        let generic = || Self::Generic.layout().expect("bare lists have one");
        let [begin, between, end, arguments_key] = self.layout().unwrap_or_else(generic);
        let schema = |tool: &Tool| match &tool.parameters {
            Json::Object(_) => tool.parameters.clone(),
            _ => Json::object([("type", "object".into())]),
        };
        CallGrammar {
            tools: tools
                .iter()
                .map(|tool| (tool.name.clone(), schema(tool)))
                .collect(),
            begin,
            between,
            end,
            arguments_key,
            several,
        }
    }
}
