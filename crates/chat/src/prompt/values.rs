//! A conversation as the values that chat templates read, with the names that Hugging Face gives them.

use super::Conversation;
use super::call_input::CallInput;
use crate::json::Json;
use crate::tools::CallFormat;
use crate::{Effort, Message, Thinking, Tool, ToolCall};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_template::jinja::Value;
use strata_tokenizer::Tokenizer;

/// What a template wants.
#[derive(Copy, Clone, Debug)]
pub(super) struct TemplateInput {
    /// The family, by how it writes calls.
    pub(super) format: CallFormat,
    /// How it reads past calls.
    pub(super) calls: CallInput,
}

/// What a template is rendered with. `contents` are the messages' texts, or marks in their place.
pub(super) fn context(
    tokenizer: &Tokenizer,
    conversation: &Conversation<'_>,
    contents: &[&str],
    input: TemplateInput,
) -> Value {
    let special = tokenizer.special();
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or("");
    let messages = conversation.messages.iter().zip(contents);
    let mut ids = CallIds::new(input.format);
    let messages = messages.map(|(message, content)| said(message, content, input.calls, &mut ids));
    let mut pairs: Vec<(&str, Value)> = [
        ("messages", Value::list(messages)),
        ("add_generation_prompt", (!conversation.closed).into()),
        ("bos_token", text(special.bos).into()),
        ("eos_token", text(special.eos).into()),
    ]
    .into();
    if !conversation.tools.is_empty() {
        let tools = conversation
            .tools
            .iter()
            .map(|tool| value(&tool_json(tool)));
        pairs.push(("tools", Value::list(tools)));
    }
    if input.format == CallFormat::FireFunction {
        pairs.extend(functions(conversation));
    }
    let (thinks, effort) = match conversation.thinking {
        Thinking::Default => (None, None),
        Thinking::Off | Thinking::Effort(Effort::None) => (Some(false), None),
        Thinking::On { .. } => (Some(true), None),
        Thinking::Effort(effort) => (Some(true), Some(effort)),
    };
    if let Some(thinks) = thinks {
        pairs.extend(thinking(thinks, effort, input.format));
    }
    Value::map(pairs)
}

/// Whether the model thinks, and how much. Families differ in what they call it.
fn thinking(
    thinks: bool,
    effort: Option<Effort>,
    format: CallFormat,
) -> impl Iterator<Item = (&'static str, Value)> {
    let word = match (format, thinks, effort) {
        // Its template refuses every other word.
        (CallFormat::Hunyuan3, false, _) => Some("no_think"),
        (CallFormat::Hunyuan3, true, Some(Effort::Minimal | Effort::Low)) => Some("low"),
        (CallFormat::Hunyuan3, true, _) => Some("high"),
        (CallFormat::Solar, false, _) => Some(Effort::Minimal.name()),
        (_, _, effort) => effort.map(Effort::name),
    };
    let mode = if thinks { "enabled" } else { "disabled" };
    let own = match format {
        CallFormat::Command => Some(("reasoning", thinks.into())),
        CallFormat::MiniMaxM3 => Some(("thinking_mode", mode.into())),
        CallFormat::Glimmer => word.map(|word| ("reasoning_strength", word.into())),
        _ => None,
    };
    let usual = [
        ("enable_thinking", thinks.into()),
        ("thinking", thinks.into()),
    ];
    let word = word.map(|word| ("reasoning_effort", word.into()));
    usual.into_iter().chain(word).chain(own)
}

/// The tools and the time as FireFunction wants them: texts.
fn functions(conversation: &Conversation<'_>) -> impl Iterator<Item = (&'static str, Value)> {
    let tools = Json::array(conversation.tools.iter().map(tool_json));
    let time = conversation.now.map_or(String::new(), |now| {
        let (year, month, day) = (now.year, now.month, now.day);
        let (hour, minute, second) = (now.hour, now.minute, now.second);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    });
    let pairs = [
        ("functions", tools.text().as_str().into()),
        ("datetime", time.as_str().into()),
    ];
    pairs.into_iter()
}

/// The ids of calls. Some of Kimi's templates write them in the place of the tools' names, which its own have in them.
struct CallIds<'m> {
    named: bool,
    calls: usize,
    given: BTreeMap<&'m str, String>,
}

impl<'m> CallIds<'m> {
    fn new(format: CallFormat) -> Self {
        Self {
            named: format == CallFormat::Kimi,
            calls: 0,
            given: BTreeMap::new(),
        }
    }

    fn of_call(&mut self, call: &'m ToolCall) -> Cow<'m, str> {
        if !self.named {
            return call.id.as_str().into();
        }
        let id = format!("functions.{}:{}", call.name, self.calls);
        self.calls += 1;
        self.given.insert(&call.id, id.clone());
        id.into()
    }

    fn of_result<'s>(&'s self, id: &'s str) -> &'s str {
        self.given.get(id).map_or(id, String::as_str)
    }
}

fn said<'m>(message: &'m Message, content: &str, input: CallInput, ids: &mut CallIds<'m>) -> Value {
    let calls = !message.tool_calls.is_empty();
    let content = if calls && content.is_empty() && input.no_content {
        Value::None
    } else {
        content.into()
    };
    let mut pairs: Vec<(&str, Value)> =
        [("role", message.role.name().into()), ("content", content)].into();
    if let Some(thinking) = &message.thinking {
        for name in ["reasoning_content", "reasoning"] {
            pairs.push((name, thinking.as_str().into()));
        }
    }
    if let Some(name) = &message.name {
        pairs.push(("name", name.as_str().into()));
    }
    if let Some(id) = &message.tool_call_id {
        pairs.push(("tool_call_id", ids.of_result(id).into()));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let arguments = if input.text_arguments {
                call.arguments.text().as_str().into()
            } else {
                value(&call.arguments)
            };
            let function = Value::map([
                ("name", call.name.as_str().into()),
                ("arguments", arguments),
            ]);
            Value::map([
                ("id", (&*ids.of_call(call)).into()),
                ("type", "function".into()),
                ("function", function),
            ])
        });
        pairs.push(("tool_calls", Value::list(calls)));
    }
    Value::map(pairs)
}

/// A tool in the form that templates know.
pub(super) fn tool_json(tool: &Tool) -> Json {
    let mut function = Json::object([("name", tool.name.as_str().into())]);
    if let Some(description) = &tool.description {
        function.push("description", description.as_str());
    }
    if !tool.parameters.is_null() {
        function.push("parameters", tool.parameters.clone());
    }
    Json::object([("type", "function".into()), ("function", function)])
}

/// All texts but the messages' contents: the template may write them anywhere.
pub(super) fn other_texts(conversation: &Conversation<'_>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for message in conversation.messages {
        texts.extend(message.thinking.clone());
        texts.extend(message.name.clone());
        texts.extend(message.tool_call_id.clone());
        for call in &message.tool_calls {
            texts.extend([call.id.clone(), call.name.clone(), call.arguments.text()]);
        }
    }
    texts.extend(conversation.tools.iter().map(|tool| tool_json(tool).text()));
    texts
}

/// JSON as a template's value.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(truth) => (*truth).into(),
        Json::Int(number) => Value::Int(*number),
        Json::Large(number) => Value::Float(*number as f64),
        Json::Float(number) => Value::Float(*number),
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => Value::list(items.iter().map(value)),
        Json::Object(pairs) => {
            Value::map(pairs.iter().map(|(key, item)| (key.as_str(), value(item))))
        }
    }
}
