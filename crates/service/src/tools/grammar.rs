//! A grammar for an answer that must call tools, in the notation of Lark as `llguidance` reads it.

use super::CallFormat;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;
use strata_token::tokenizer::{TokenKind, Tokenizer};
use strata_wire::json::Json;
use strata_wire::lang::Tool;

/// What is written around the parts of calls.
struct Layout {
    open: &'static str,
    before_name: &'static str,
    after_name: &'static str,
    after_arguments: &'static str,
    between: &'static str,
    close: &'static str,
}

impl CallFormat {
    /// The format in which this model can be made to call: its own, or bare JSON where its own is not JSON.
    pub fn for_grammar(self) -> Self {
        match self.layout() {
            Some(_) => self,
            None => Self::Generic,
        }
    }

    fn layout(self) -> Option<Layout> {
        let list = |open, close| Layout {
            open,
            before_name: "{\"name\": \"",
            after_name: "\", \"arguments\": ",
            after_arguments: "}",
            between: ", ",
            close,
        };
        Some(match self {
            Self::Generic => list("[", "]"),
            Self::Mistral => list("[TOOL_CALLS][", "]"),
            Self::Granite3 => list("<|tool_call|>[", "]"),
            Self::Nemotron => list("<TOOLCALL>[", "]</TOOLCALL>"),
            Self::FireFunction => list("functools[", "]"),
            Self::Command => Layout {
                before_name: "{\"tool_call_id\": \"0\", \"tool_name\": \"",
                after_name: "\", \"parameters\": ",
                ..list("<|START_ACTION|>[", "]<|END_ACTION|>")
            },
            Self::Hermes => Layout {
                before_name: "<tool_call>\n{\"name\": \"",
                after_arguments: "}\n</tool_call>",
                between: "\n",
                ..list("", "")
            },
            Self::Llama3 => Layout {
                after_name: "\", \"parameters\": ",
                between: "; ",
                ..list("", "")
            },
            Self::Functionary31 => Layout {
                before_name: "<function=",
                after_name: ">",
                after_arguments: "</function>",
                between: "",
                ..list("", "")
            },
            Self::DeepSeek => Layout {
                open: "<｜tool▁calls▁begin｜>",
                before_name: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                after_name: "\n```json\n",
                after_arguments: "\n```<｜tool▁call▁end｜>",
                between: "\n",
                close: "<｜tool▁calls▁end｜>",
            },
            Self::QwenCoder
            | Self::Seed
            | Self::Glm
            | Self::Functionary32
            | Self::CommandR
            | Self::Kimi
            | Self::Harmony => return None,
        })
    }

    /// A grammar of at least one call of these tools, and at most one unless `parallel`. `None` if there is no tool.
    pub fn grammar(self, tools: &[&Tool], parallel: bool, tokenizer: &Tokenizer) -> Option<String> {
        let layout = self.layout()?;
        if tools.is_empty() {
            return None;
        }
        let mark = |text: &str| self.literal(text, tokenizer);
        let mut rules = String::new();
        let mut calls = String::new();
        for (i, tool) in tools.iter().enumerate() {
            let schema = match &tool.parameters {
                Json::Object(_) => tool.parameters.clone(),
                _ => Json::object([("type", "object".into())]),
            };
            let before = mark(&format!(
                "{}{}{}",
                layout.before_name, tool.name, layout.after_name
            ));
            let after = mark(layout.after_arguments);
            let _ = writeln!(rules, "call_{i}: {before} arguments_{i} {after}");
            let _ = writeln!(rules, "arguments_{i}: %json {schema}");
            let _ = write!(calls, "{}call_{i}", if i > 0 { " | " } else { "" });
        }
        let more = match parallel {
            true => format!("({} call)*", mark(layout.between)),
            false => String::new(),
        };
        let (open, close) = (mark(layout.open), mark(layout.close));
        Some(format!(
            "start: {open} call {more} {close}\ncall: {calls}\n{rules}"
        ))
    }

    /// A text as the grammar writes it: marks that are control tokens by their numbers, the rest as strings.
    fn literal(self, text: &str, tokenizer: &Tokenizer) -> String {
        let control = |mark: &str| {
            let id = tokenizer.token_id(mark)?;
            (tokenizer.kind(id) == Some(TokenKind::Control)).then_some(id)
        };
        let first = self
            .spelled()
            .filter_map(|mark| Some((text.find(mark)?, mark, control(mark)?)))
            .min_by_key(|&(at, mark, _)| (at, core::cmp::Reverse(mark.len())));
        match first {
            Some((at, mark, id)) => {
                let before = self.literal(&text[..at], tokenizer);
                let after = self.literal(&text[at + mark.len()..], tokenizer);
                format!("{before} <[{id}]> {after}")
            }
            None if text.is_empty() => String::new(),
            None => Json::from(text).text(),
        }
    }
}
