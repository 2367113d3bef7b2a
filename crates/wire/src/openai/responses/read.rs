//! Reading a request for a response.

use super::items;
use crate::call::Recall;
use crate::request_fields::chat::{EFFORTS, VERBOSITIES};
use crate::request_fields::generation::{self, limit};
use crate::request_fields::tools::{self, Form};
use crate::request_fields::{answer_format, model, unsupported};
use crate::timings::ProgressReport;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::parameters::Ranges;
use strata_chat::{Fault, FaultKind, Generate, Message, Prompt, Role, Thinking, name_results};

/// What of a request concerns only how its answer is written and kept.
#[derive(Clone, Debug)]
pub(super) struct ReplyOptions {
    /// The request's settings, which the answer repeats.
    pub(super) settings: Vec<(&'static str, Json)>,
    /// The conversation without instructions, which hold for one answer only.
    pub(super) conversation: Vec<Message>,
    /// How many messages of it were there before this request.
    pub(super) earlier: usize,
    /// The conversation that the server keeps, and that grows by this turn.
    pub(super) kept_conversation: Option<String>,
    /// The tools that take free text.
    pub(super) custom: Vec<String>,
    /// The request runs on without its client.
    pub(super) background: bool,
    /// The answer is kept.
    pub(super) store: bool,
    /// Thinking comes in a form that clients send back unread.
    pub(super) sealed: bool,
    /// What is told of progress.
    pub(super) report: ProgressReport,
}

pub(super) fn response(
    body: &[u8],
    recall: &mut dyn Recall,
) -> Result<(Generate, ReplyOptions), Fault> {
    let mut fields = Fields::parse(body)?;
    let mut settings = settings(&fields);
    let model = model(&mut fields)?;
    let instructions = fields.maybe_string("instructions")?;
    let (mut conversation, kept_conversation) = history(&mut fields, recall)?;
    let earlier = conversation.len();
    let path = fields.at("input");
    let input = fields
        .take("input")
        .ok_or_else(|| fields.missing("input"))?;
    let input = dereferenced(input, &path, recall)?;
    conversation.extend(items::messages(input, &path)?);
    name_results(&mut conversation);
    let system = instructions.map(|text| Message::text(Role::System, text));
    let messages = system.into_iter().chain(conversation.iter().cloned());

    let mut request = Generate::new(model, Prompt::Chat(messages.collect()));
    let report = generation::read(&mut fields, &mut request, Ranges::Narrow)?;
    generation::stream_usage(&mut fields, request.stream)?;
    request.max_tokens = limit(&mut fields, "max_output_tokens", 1)?;
    let (tools, custom) = tools::read_with_custom(&mut fields, Form::Flat)?;
    request.tools = tools;
    request.thinking = thinking(&mut fields)?;
    let cuts = [("auto", true), ("disabled", false)];
    request.truncate = fields.maybe_word("truncation", &cuts)?.unwrap_or(false);
    if let Some(mut text) = fields.maybe_object("text")? {
        if let Some(inner) = text.maybe_object("format")? {
            request.format = answer_format::format(inner)?;
        }
        text.maybe_word("verbosity", &VERBOSITIES)?;
        text.finish()?;
    }
    let top = fields.maybe_integer("top_logprobs", 0..=20)?;
    let included = include(&mut fields)?;
    request.logprobs = match (included.logprobs, top) {
        (true, top) => Some(top.unwrap_or(0) as usize),
        (false, Some(top)) if top > 0 => Some(top as usize),
        (false, _) => None,
    };
    let store = fields.maybe_boolean("store")?.unwrap_or(true);
    let background = fields.maybe_boolean("background")?.unwrap_or(false);
    if background && !store {
        let path = fields.at("background");
        return Err(Fault::field(&path, format_args!("needs store to be true")));
    }
    // Labels and hints, of which the answer repeats some.
    fields.ignore(&INFORMING);
    fields.finish()?;
    settings.push(("store", store.into()));
    settings.push(("background", background.into()));
    let named = |id: &String| Json::object([("id", id.as_str().into())]);
    settings.push(("conversation", kept_conversation.as_ref().map(named).into()));
    let options = ReplyOptions {
        settings,
        conversation,
        earlier,
        kept_conversation,
        custom,
        background,
        store,
        sealed: included.sealed,
        report,
    };
    Ok((request, options))
}

const INFORMING: [&str; 7] = [
    "metadata",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
];

/// What the answer repeats of the request, with the defaults of what was not given.
fn settings(fields: &Fields) -> Vec<(&'static str, Json)> {
    let or =
        |name: &'static str, default: Json| (name, fields.peek(name).cloned().unwrap_or(default));
    let text = Json::object([("format", Json::object([("type", "text".into())]))]);
    let reasoning = Json::object([("effort", Json::Null), ("summary", Json::Null)]);
    [
        or("instructions", Json::Null),
        or("max_output_tokens", Json::Null),
        ("max_tool_calls", Json::Null),
        or("parallel_tool_calls", true.into()),
        or("previous_response_id", Json::Null),
        or("reasoning", reasoning),
        or("temperature", Json::Null),
        or("text", text),
        or("tool_choice", "auto".into()),
        or("tools", Json::Array(Vec::new())),
        or("top_logprobs", 0_i64.into()),
        or("top_p", Json::Null),
        or("truncation", "disabled".into()),
        or("metadata", Json::Object(Vec::new())),
        or("user", Json::Null),
        ("service_tier", "default".into()),
    ]
    .into()
}

/// The conversation that the request goes on from, and its name if it is one that the server keeps.
fn history(
    fields: &mut Fields,
    recall: &mut dyn Recall,
) -> Result<(Vec<Message>, Option<String>), Fault> {
    let unknown = |name: &str, what: &str, id: &str| Fault {
        kind: FaultKind::NotFound,
        ..Fault::field(
            &JsonPath::root().field(name),
            format_args!("there is no {what} named {id:?}"),
        )
    };
    let earlier = fields.maybe_string("previous_response_id")?;
    let path = fields.at("conversation");
    let conversation = match fields.take("conversation") {
        None => None,
        Some(Json::String(id)) => Some(id),
        Some(value) => {
            let mut conversation = path.object(value)?;
            let id = conversation.string("id")?;
            conversation.finish()?;
            Some(id)
        }
    };
    match (earlier, conversation) {
        (None, None) => Ok((Vec::new(), None)),
        (Some(id), None) => {
            let messages = recall.recall(&id);
            let unknown = || unknown("previous_response_id", "stored response", &id);
            Ok((messages.ok_or_else(unknown)?, None))
        }
        (None, Some(id)) => {
            let items = recall.conversation(&id);
            let items = items.ok_or_else(|| unknown("conversation", "conversation", &id))?;
            let messages = if items.is_empty() {
                Vec::new()
            } else {
                items::messages(Json::Array(items), &path)?
            };
            Ok((messages, Some(id)))
        }
        (Some(_), Some(_)) => Err(Fault::field(
            &path,
            format_args!("cannot be combined with previous_response_id"),
        )),
    }
}

/// The input with the items that it only names: those of answers that are kept.
fn dereferenced(input: Json, path: &JsonPath, recall: &mut dyn Recall) -> Result<Json, Fault> {
    let Json::Array(mut items) = input else {
        return Ok(input);
    };
    for (index, item) in items.iter_mut().enumerate() {
        let is_reference = item.get("type").and_then(Json::as_str) == Some("item_reference");
        let Some(id) = item
            .get("id")
            .and_then(Json::as_str)
            .filter(|_| is_reference)
        else {
            continue;
        };
        let Some(found) = kept_item(id, recall) else {
            return Err(Fault {
                kind: FaultKind::NotFound,
                ..Fault::field(
                    &path.item(index).field("id"),
                    format_args!("there is no item named {id:?} in a stored response"),
                )
            });
        };
        *item = found;
    }
    Ok(Json::Array(items))
}

/// An item of an answer that is kept. Its name has the answer's in it.
fn kept_item(id: &str, recall: &mut dyn Recall) -> Option<Json> {
    let (_, rest) = id.split_once('_')?;
    let (stamp, _) = rest.rsplit_once('_')?;
    let document = recall.document(&alloc::format!("resp_{stamp}"))?;
    let Some(Json::Array(items)) = document.get("output") else {
        return None;
    };
    let is_named = |item: &&Json| item.get("id").and_then(Json::as_str) == Some(id);
    items.iter().find(is_named).cloned()
}

fn thinking(fields: &mut Fields) -> Result<Thinking, Fault> {
    let Some(mut reasoning) = fields.maybe_object("reasoning")? else {
        return Ok(Thinking::Default);
    };
    let effort = reasoning.maybe_word("effort", &EFFORTS)?;
    // "auto" is as much of a summary as there is: none, for the thinking itself is told.
    for name in ["summary", "generate_summary"] {
        reasoning.maybe_word(name, &[("auto", ())])?;
    }
    reasoning.maybe_word("context", &[("auto", ())])?;
    reasoning.maybe_word("mode", &[("standard", ())])?;
    reasoning.finish()?;
    Ok(effort.unwrap_or_default())
}

#[derive(Default)]
struct Included {
    logprobs: bool,
    sealed: bool,
}

fn include(fields: &mut Fields) -> Result<Included, Fault> {
    let mut included = Included::default();
    for (path, item) in fields.items("include")? {
        match path.string(item)?.as_str() {
            "message.output_text.logprobs" => included.logprobs = true,
            "reasoning.encrypted_content" => included.sealed = true,
            // About things that are never in an answer from here, so that there is nothing to leave out.
            "file_search_call.results"
            | "message.input_image.image_url"
            | "web_search_call.results"
            | "web_search_call.action.sources"
            | "computer_call_output.output.image_url"
            | "code_interpreter_call.outputs" => {}
            other => return Err(unsupported(&path, &alloc::format!("{other:?}"))),
        }
    }
    Ok(included)
}
