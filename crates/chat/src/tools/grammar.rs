//! What an answer must look like, for whoever compiles it into a constraint.

use super::CallFormat;
use crate::json::Json;
use crate::{Format, Tool};
use alloc::string::String;
use alloc::vec::Vec;

/// What an answer must look like.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerConstraint {
    /// Anything.
    Free,
    /// What the request says.
    Format(Format),
    /// Nothing but calls of tools, at least one.
    Calls(CallGrammar),
}

/// CallGrammar as a model writes them: `begin`, calls with `between` between them, `end`; each call an object with the tool's
/// `name` and its arguments under `arguments_key`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "said above")]
pub struct CallGrammar {
    /// Names with the schemas of their arguments.
    pub tools: Vec<(String, Json)>,
    pub begin: &'static str,
    pub between: &'static str,
    pub end: &'static str,
    pub arguments_key: &'static str,
    /// Whether there may be more than one call.
    pub several: bool,
}

impl CallFormat {
    /// The format in which this model can be made to call: its own, or a bare list where its own is not marked objects.
    pub fn for_grammar(self) -> Self {
        match self.layout() {
            Some(_) => self,
            None => Self::Generic,
        }
    }

    /// Beginning, what stands between calls, end, and the key of the arguments.
    fn layout(self) -> Option<[&'static str; 4]> {
        Some(match self {
            Self::Generic => ["[", ", ", "]", "arguments"],
            Self::Mistral => ["[TOOL_CALLS][", ", ", "]", "arguments"],
            Self::Granite3 => ["<|tool_call|>[", ", ", "]", "arguments"],
            Self::Nemotron => ["<TOOLCALL>[", ", ", "]</TOOLCALL>", "arguments"],
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
            | Self::DeepSeek
            | Self::Functionary31
            | Self::Functionary32
            | Self::Command
            | Self::CommandR
            | Self::Kimi
            | Self::Harmony => return None,
        })
    }

    /// At least one call of these tools, and at most one unless `several`.
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
