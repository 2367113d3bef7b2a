//! Which family a chat template is of.

use super::CallFormat;

/// Marks of a template, from the particular to the general: the first entry whose marks are all there says the format.
const SIGNS: &[(&[&str], CallFormat)] = &[
    (&["<|channel|>", "functions."], CallFormat::Harmony),
    (&["<|tool_call:begin|>", "<|calls|>"], CallFormat::Solar),
    (&["<atem:function_calls>", "to=self"], CallFormat::Glimmer),
    (&["<seed:tool_call>"], CallFormat::Seed),
    (&["<tool_sep{}>", "<arg_key{}>"], CallFormat::Hunyuan3),
    (&["]<]minimax[>[", "<invoke name="], CallFormat::MiniMaxM3),
    (&["<minimax:tool_call>"], CallFormat::MiniMaxM2),
    (&["｜DSML｜"], CallFormat::DeepSeekMarkup),
    (&["<tool_call>", "<arg_key>"], CallFormat::Glm),
    (&["<tool_call>", "<function="], CallFormat::QwenCoder),
    (&["<function name=", "<param name="], CallFormat::MiniCpm5),
    (&["<|tool_calls_section_begin|>"], CallFormat::Kimi),
    (&["<｜tool▁calls▁begin｜>"], CallFormat::DeepSeek),
    (&["<|START_ACTION|>"], CallFormat::Command),
    (&["<TOOLCALL>"], CallFormat::Nemotron),
    (&["[TOOL_CALLS]"], CallFormat::Mistral),
    (&["<|tool_call_start|>"], CallFormat::Lfm2),
    (&["<|tool_list_start|>"], CallFormat::Lfm2),
    (&["<|tool_call>", "call:"], CallFormat::Gemma4),
    (&["<|tools_prefix|>"], CallFormat::Apertus),
    (
        &["<|function_call|>", "<|message_sep|>"],
        CallFormat::GigaChat,
    ),
    (&["function call", "<|message_sep|>"], CallFormat::GigaChat),
    (&["<tool_call>"], CallFormat::Hermes),
    (&["<tool_calls>["], CallFormat::Apriel),
    (&["<tool_calls>"], CallFormat::MiniMax),
    (&["<function_calls>"], CallFormat::Olmo3),
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
    (&["<|header_start|>", "\"parameters\":"], CallFormat::Llama3),
];

impl CallFormat {
    /// The format that a chat template teaches.
    pub fn of_template(template: &str) -> Self {
        SIGNS
            .iter()
            .find(|(signs, _)| signs.iter().all(|sign| template.contains(sign)))
            .map_or(Self::Generic, |&(_, format)| format)
    }

    /// Whether a template shows tools to its model. Where it does not, the system prompt has to.
    pub fn template_has_tools(template: &str) -> bool {
        template.contains("tools")
    }
}
