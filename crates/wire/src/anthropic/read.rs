//! Reading a request for a message.

use super::content::{self, HINTS, unsupported};
use super::thread::{self, Thread};
use crate::call::Recall;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{
    Effort, Fault, Format, Generate, Prompt, Role, Thinking, Tool, ToolChoice, Tools, name_results,
};

/// What a request is read for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be answered.
    Answer,
    /// To count its tokens.
    Count,
}

/// What of a request concerns only how its answer is written.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplyOptions {
    /// Thinking happens but is not told.
    pub(super) hide_thinking: bool,
    /// The thread that the answer is kept in, up to and with this turn's messages.
    pub(super) thread: Option<Thread>,
}

pub(super) fn request(
    body: &[u8],
    purpose: Purpose,
    recall: &mut dyn Recall,
) -> Result<(Generate, ReplyOptions), Fault> {
    let mut fields = Fields::parse(body)?;
    let model = fields.string("model")?;
    let mut thread = thread::read(&mut fields, recall)?;
    let mut messages = match &mut thread {
        Some(thread) => core::mem::take(&mut thread.messages),
        None => Vec::new(),
    };
    messages.extend(content::system(&mut fields)?);
    let items = fields.items("messages")?;
    if items.is_empty() {
        let path = fields.at("messages");
        return Err(Fault::field(&path, format_args!("must not be empty")));
    }
    for (path, item) in items {
        content::message(path.object(item)?, &mut messages)?;
    }
    name_results(&mut messages);
    if let Some(thread) = &mut thread {
        thread.messages.clone_from(&messages);
    }
    // The API has the model complete a last message that is its own.
    let continues = messages.last().is_some_and(|last| {
        last.role == Role::Assistant && last.tool_calls.is_empty() && !last.parts.is_empty()
    });
    let mut request = Generate::new(model, Prompt::Chat(messages));
    request.continues = continues;
    let max_tokens = fields.maybe_integer("max_tokens", 1..=i64::from(u32::MAX))?;
    if max_tokens.is_none() && purpose == Purpose::Answer {
        return Err(fields.missing("max_tokens"));
    }
    request.max_tokens = max_tokens.map(|tokens| tokens as usize);
    request.stream = fields.maybe_boolean("stream")?.unwrap_or(false);
    sampling(&mut fields, &mut request)?;
    let kept = thread.as_ref().map(|thread| &thread.tools);
    request.tools = tools(&mut fields, kept)?;
    let mut options = thinking(&mut fields, &mut request)?;
    options.thread = thread;
    output(&mut fields, &mut request)?;
    context_management(&mut fields)?;
    fields.maybe_word("speed", &[("standard", ()), ("fast", ())])?;
    for name in ["mcp_servers", "compaction", "container"] {
        let path = fields.at(name);
        match fields.take(name) {
            None => {}
            Some(Json::Array(items)) if items.is_empty() => {}
            Some(_) => return Err(Fault::field(&path, format_args!("is not supported"))),
        }
    }
    fields.ignore(&PREFERENCES);
    fields.ignore(&HINTS);
    fields.finish()?;
    Ok((request, options))
}

/// Labels, billing, and preferences that mean nothing here: docs/compatibility.md lists them.
const PREFERENCES: [&str; 8] = [
    "metadata",
    "service_tier",
    "user_profile_id",
    "workspace_id",
    "diagnostics",
    "inference_geo",
    "fallbacks",
    "fallback_credit_token",
];

fn sampling(fields: &mut Fields, request: &mut Generate) -> Result<(), Fault> {
    let temperature = fields.maybe_number("temperature", 0.0..=1.0)?;
    request.sampling.temperature = temperature.map(|value| value as f32);
    let top_p = fields.maybe_number("top_p", 0.0..=1.0)?;
    request.sampling.top_p = top_p.map(|value| value as f32);
    let top_k = fields.maybe_integer("top_k", 0..=i64::from(u32::MAX))?;
    request.sampling.top_k = top_k.map(|value| value as u32);
    for (path, item) in fields.items("stop_sequences")? {
        let text = path.string(item)?;
        if text.is_empty() {
            return Err(Fault::field(&path, format_args!("must not be empty")));
        }
        request.stop.push(text);
    }
    if request.stop.len() > MAX_STOPS {
        let path = fields.at("stop_sequences");
        let problem = format_args!("must have at most {MAX_STOPS} texts");
        return Err(Fault::field(&path, problem));
    }
    Ok(())
}

/// Texts to stop at, at most; each costs time with every token.
const MAX_STOPS: usize = 64;

/// The tools of the request, or those that its thread began with.
fn tools(fields: &mut Fields, kept: Option<&Json>) -> Result<Tools, Fault> {
    let mut tools = Tools::default();
    let mut items = fields.items("tools")?;
    if let (true, Some(list @ Json::Array(_))) = (items.is_empty(), kept) {
        items = fields.at("tools").list(list.clone())?.collect();
    }
    for (path, item) in items {
        tools.list.push(tool(path.object(item)?)?);
    }
    let path = fields.at("tool_choice");
    if let Some(mut choice) = fields.maybe_object("tool_choice")? {
        let kind_place = choice.at("type");
        tools.choice = match choice.string("type")?.as_str() {
            "auto" => ToolChoice::Auto,
            "any" => ToolChoice::Required,
            "none" => ToolChoice::None,
            "tool" => ToolChoice::Named(choice.string("name")?),
            other => return Err(unsupported(&kind_place, other)),
        };
        let alone = choice.maybe_boolean("disable_parallel_tool_use")?;
        tools.parallel = !alone.unwrap_or(false);
        choice.finish()?;
    }
    tools.check(&fields.at("tools"), &path)?;
    Ok(tools)
}

fn tool(mut fields: Fields) -> Result<Tool, Fault> {
    let path = fields.at("type");
    let kind = fields.maybe_string("type")?;
    if let Some(kind) = kind.filter(|kind| kind != "custom") {
        return Err(unsupported(&path, &kind));
    }
    let name = fields.string("name")?;
    if name.is_empty() {
        let path = fields.at("name");
        return Err(Fault::field(&path, format_args!("must not be empty")));
    }
    let path = fields.at("input_schema");
    let parameters = match fields.take("input_schema") {
        None => return Err(fields.missing("input_schema")),
        Some(schema @ Json::Object(_)) => schema,
        Some(other) => return Err(path.expected("a JSON schema", &other)),
    };
    let tool = Tool {
        name,
        description: fields.maybe_string("description")?,
        parameters,
        strict: fields.maybe_boolean("strict")?.unwrap_or(false),
    };
    if fields.maybe_boolean("defer_loading")? == Some(true) {
        return Err(unsupported(&fields.at("defer_loading"), "true"));
    }
    for (path, item) in fields.items("allowed_callers")? {
        let caller = path.string(item)?;
        if caller != "direct" {
            return Err(unsupported(&path, &caller));
        }
    }
    // Arguments are always sent as they come.
    fields.ignore(&["eager_input_streaming"]);
    fields.ignore(&HINTS);
    fields.finish()?;
    Ok(tool)
}

fn thinking(fields: &mut Fields, request: &mut Generate) -> Result<ReplyOptions, Fault> {
    let mut options = ReplyOptions::default();
    let Some(mut thinking) = fields.maybe_object("thinking")? else {
        return Ok(options);
    };
    let path = thinking.at("type");
    let kind: String = thinking.string("type")?;
    let budget = thinking.maybe_integer("budget_tokens", 1..=i64::from(u32::MAX))?;
    let budget = budget.map(|tokens| tokens as usize);
    request.thinking = match (kind.as_str(), budget) {
        ("enabled", None) => return Err(thinking.missing("budget_tokens")),
        ("enabled", budget) => Thinking::On { budget },
        ("adaptive", None) => Thinking::Default,
        ("disabled", None) => Thinking::Off,
        ("adaptive" | "disabled", Some(_)) => {
            let path = thinking.at("budget_tokens");
            return Err(Fault::field(
                &path,
                format_args!("needs type to be \"enabled\""),
            ));
        }
        (other, _) => return Err(unsupported(&path, other)),
    };
    if let (Some(budget), Some(most)) = (budget, request.max_tokens)
        && budget >= most
    {
        let path = thinking.at("budget_tokens");
        return Err(Fault::field(
            &path,
            format_args!("must be less than max_tokens"),
        ));
    }
    let shown = [("summarized", false), ("omitted", true)];
    options.hide_thinking = thinking.maybe_word("display", &shown)?.unwrap_or(false);
    thinking.finish()?;
    Ok(options)
}

/// `output_config`, and `output_format` as it was called before.
fn output(fields: &mut Fields, request: &mut Generate) -> Result<(), Fault> {
    if let Some(format) = fields.maybe_object("output_format")? {
        request.format = self::format(format)?;
    }
    let Some(mut output) = fields.maybe_object("output_config")? else {
        return Ok(());
    };
    // Beyond "high" templates know nothing.
    let efforts = [
        ("low", Effort::Low),
        ("medium", Effort::Medium),
        ("high", Effort::High),
        ("xhigh", Effort::High),
        ("max", Effort::High),
    ];
    let effort = output.maybe_word("effort", &efforts)?;
    if let (Some(effort), Thinking::Default) = (effort, request.thinking) {
        request.thinking = Thinking::Effort(effort);
    }
    if let Some(format) = output.maybe_object("format")? {
        request.format = self::format(format)?;
    }
    output.finish()
}

fn format(mut fields: Fields) -> Result<Format, Fault> {
    let path = fields.at("type");
    let kind = fields.string("type")?;
    if kind != "json_schema" {
        return Err(unsupported(&path, &kind));
    }
    let path = fields.at("schema");
    let format = match fields.take("schema") {
        None => return Err(fields.missing("schema")),
        Some(schema @ Json::Object(_)) => Format::JsonSchema(schema),
        Some(other) => return Err(path.expected("a JSON schema", &other)),
    };
    fields.finish()?;
    Ok(format)
}

/// Edits of the conversation: only the one that keeps everything, which coding clients send, is done here.
fn context_management(fields: &mut Fields) -> Result<(), Fault> {
    let Some(mut management) = fields.maybe_object("context_management")? else {
        return Ok(());
    };
    for (path, item) in management.items("edits")? {
        let kept = item.get("keep").and_then(Json::as_str) == Some("all");
        let kind = item.get("type").and_then(Json::as_str).unwrap_or("");
        if !(kept && kind.starts_with("clear_thinking_")) {
            return Err(unsupported(&path, kind));
        }
    }
    management.finish()
}
