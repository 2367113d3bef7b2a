//! The body of a chat: of `/v1/chat/completions`, and of those that only want its prompt.

use super::generation::{self, MAX_CHOICES, limit};
use super::tools::Form;
use super::{answer_format, messages, model, tools, unsupported};
use crate::logprobs;
use crate::timings::ProgressReport;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::parameters::Ranges;
use strata_chat::{Effort, Fault, Generate, Prompt, Role, Thinking};

/// What of a request concerns only how its answer is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyOptions {
    /// A last chunk tells the usage.
    pub(crate) usage: bool,
    /// Calls are told as `function_call`, as before there were tools.
    pub(crate) legacy: bool,
    /// The field in which tokens are told.
    pub(crate) tokens: Option<&'static str>,
    /// The prompt is told as the model sees it.
    pub(crate) verbose: bool,
    /// What is told of progress.
    pub(crate) report: ProgressReport,
    /// The tools that take free text.
    pub(crate) custom: Vec<String>,
    /// The labels of an answer that is kept.
    pub(crate) stored: Option<Json>,
}

/// What becomes of an assistant's message that a conversation ends with, unless the request says so.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastAnswer {
    /// It is complete, and another one follows.
    Stands,
    /// It is the beginning of the answer, as with llama-server.
    GoesOn,
}

/// Reads the body of a chat.
pub(crate) fn read(body: &[u8], last: LastAnswer) -> Result<(Generate, ReplyOptions), Fault> {
    read_fields(Fields::parse(body)?, last)
}

/// Reads the fields of a chat.
pub(crate) fn read_fields(
    mut fields: Fields,
    last: LastAnswer,
) -> Result<(Generate, ReplyOptions), Fault> {
    let model = model(&mut fields)?;
    let messages = messages::messages(&mut fields)?;
    let own_last = messages.last().is_some_and(|m| m.role == Role::Assistant);
    let mut request = Generate::new(model, Prompt::Chat(messages));
    let report = generation::read(&mut fields, &mut request, Ranges::Narrow)?;
    continues(&mut fields, own_last, last, &mut request)?;
    request.max_tokens = max_tokens(&mut fields)?;
    let choices = fields.maybe_integer("n", 1..=MAX_CHOICES)?;
    request.choices = choices.unwrap_or(1) as usize;
    request.best_of = request.choices;
    request.logprobs = logprobs::read(&mut fields)?;
    request.prompt_logprobs = generation::prompt_logprobs(&mut fields, request.stream)?;
    request.format = answer_format::read(&mut fields)?;
    request.thinking = thinking(&mut fields)?;
    let (tools, custom) = tools::read_with_custom(&mut fields, Form::Nested)?;
    request.tools = tools;
    let mut options = ReplyOptions {
        custom,
        stored: stored(&mut fields)?,
        usage: generation::stream_usage(&mut fields, request.stream)?,
        legacy: false,
        tokens: generation::token_key(&mut fields)?,
        verbose: fields.maybe_boolean("verbose")? == Some(true),
        report,
    };
    request.tokens = options.tokens.is_some() || options.verbose;
    if let Some(functions) = tools::legacy(&mut fields)? {
        if !request.tools.list.is_empty() {
            let path = fields.at("functions");
            return Err(Fault::field(
                &path,
                format_args!("cannot be combined with tools"),
            ));
        }
        request.tools = functions;
        options.legacy = true;
    }
    informing(&mut fields)?;
    fields.finish()?;
    Ok((request, options))
}

/// `store`, with the `metadata` by which kept answers are found.
fn stored(fields: &mut Fields) -> Result<Option<Json>, Fault> {
    let store = fields.maybe_boolean("store")? == Some(true);
    let labels = metadata(fields)?;
    Ok(store.then_some(labels))
}

/// `metadata`: labels that an answer or a conversation is found by.
pub(crate) fn metadata(fields: &mut Fields) -> Result<Json, Fault> {
    let path = fields.at("metadata");
    match fields.take("metadata") {
        None => Ok(Json::Object(Vec::new())),
        Some(labels @ Json::Object(_)) => Ok(labels),
        Some(other) => Err(path.expected("an object", &other)),
    }
}

/// Fields that change nothing about the answer, or whose only value that does is refused.
fn informing(fields: &mut Fields) -> Result<(), Fault> {
    for (path, item) in fields.items("modalities")? {
        if item != Json::from("text") {
            return Err(path.expected("\"text\"", &item));
        }
    }
    // A wish that models which run here were not taught to follow.
    fields.maybe_word("verbosity", &VERBOSITIES)?;
    // "auto" and llama-server's other name for the same: thinking apart from the answer.
    fields.maybe_word("reasoning_format", &[("auto", ()), ("deepseek", ())])?;
    fields.ignore(&INFORMING);
    Ok(())
}

/// Labels, billing, and hints to caches and guessers, which find what they need by themselves here.
const INFORMING: [&str; 8] = [
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "prediction",
    "cache_salt",
];

/// The words for how long an answer is wished to be.
pub(crate) const VERBOSITIES: [(&str, ()); 3] = [("low", ()), ("medium", ()), ("high", ())];

/// The newest name wins.
fn max_tokens(fields: &mut Fields) -> Result<Option<usize>, Fault> {
    let newest = limit(fields, "max_completion_tokens", 1)?;
    let older = limit(fields, "max_tokens", 1)?;
    let native = limit(fields, "n_predict", 1)?;
    Ok(newest.or(older).or(native))
}

/// vLLM's and llama-server's way to have the last message completed, or no answer opened.
fn continues(
    fields: &mut Fields,
    own_last: bool,
    last: LastAnswer,
    request: &mut Generate,
) -> Result<(), Fault> {
    let go_on = fields.maybe_boolean("continue_final_message")?;
    let turn = fields.maybe_boolean("add_generation_prompt")?;
    let goes_on = own_last && turn.is_none() && last == LastAnswer::GoesOn;
    let go_on = go_on.unwrap_or(goes_on);
    if go_on && !own_last {
        let path = fields.at("continue_final_message");
        return Err(Fault::field(
            &path,
            format_args!("needs a last message of the assistant"),
        ));
    }
    if go_on && turn == Some(true) {
        return Err(unsupported(
            &fields.at("add_generation_prompt"),
            "true with continue_final_message",
        ));
    }
    request.continues = go_on;
    request.closed = turn == Some(false) && !go_on;
    Ok(())
}

/// The words for how much to think. Beyond `high` templates know nothing.
pub(crate) const EFFORTS: [(&str, Thinking); 7] = [
    ("none", Thinking::Off),
    ("minimal", Thinking::Effort(Effort::Minimal)),
    ("low", Thinking::Effort(Effort::Low)),
    ("medium", Thinking::Effort(Effort::Medium)),
    ("high", Thinking::Effort(Effort::High)),
    ("xhigh", Thinking::Effort(Effort::High)),
    ("max", Thinking::Effort(Effort::High)),
];

fn thinking(fields: &mut Fields) -> Result<Thinking, Fault> {
    let mut thinking = fields.maybe_word("reasoning_effort", &EFFORTS)?;
    // Ollama's form of it.
    if let Some(mut reasoning) = fields.maybe_object("reasoning")? {
        let effort = reasoning.maybe_word("effort", &EFFORTS)?;
        reasoning.finish()?;
        thinking = effort.or(thinking);
    }
    if let Some(mut settings) = fields.maybe_object("chat_template_kwargs")? {
        let effort = settings.maybe_word("reasoning_effort", &EFFORTS)?;
        let enable = settings.maybe_boolean("enable_thinking")?;
        let other = settings.maybe_boolean("thinking")?;
        settings.finish()?;
        thinking = match enable.or(other) {
            Some(false) => Some(Thinking::Off),
            Some(true) => effort.or(thinking).or(Some(Thinking::On { budget: None })),
            None => effort.or(thinking),
        };
    }
    match limit(fields, "thinking_budget_tokens", 0)? {
        None => Ok(thinking.unwrap_or_default()),
        Some(0) => Ok(Thinking::Off),
        Some(budget) => Ok(Thinking::On {
            budget: Some(budget),
        }),
    }
}
