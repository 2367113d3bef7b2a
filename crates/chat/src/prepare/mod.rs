//! From a request to the engine's: the one way for every server and program.

mod infill;
mod prompts;
mod tool_use;

use crate::answer_parser::AnswerParser;
use crate::budgets::check_inputs;
use crate::fault::{Fault, FaultKind};
use crate::model_profile::ModelProfile;
use crate::prompt::{PromptError, RenderedPrompt};
use crate::request::Generate;
use crate::splitter::SplitOptions;
use crate::tools::grammar::AnswerConstraint;
use alloc::string::ToString;
use alloc::vec::Vec;
use prompts::PromptMaker;
use strata_engine::{Choices, Limits, Request};
use strata_template::jinja::DateTime;
use tool_use::ToolUse;

/// A request that is ready for the engine.
#[derive(Debug)]
pub struct Prepared {
    /// One engine request per prompt. The caller sets the client, the adapter and the compiled constraint.
    pub requests: Vec<Request>,
    /// The prompts as the model sees them.
    pub prompts: Vec<RenderedPrompt>,
    /// What constrains the answers; the caller compiles it.
    pub constraint: AnswerConstraint,
    /// Turns generated tokens into events.
    pub parser: AnswerParser,
    /// The number of answers to each prompt.
    pub choices: usize,
    /// The number of messages dropped from the beginning of conversations to make them fit.
    pub dropped: usize,
}

impl Prepared {
    /// The prompts as the model sees them, joined.
    pub fn rendered(self) -> RenderedPrompt {
        let mut rendered = RenderedPrompt::default();
        for prompt in self.prompts {
            rendered.text.push_str(&prompt.text);
            rendered.tokens.extend(prompt.tokens);
            rendered.context = prompt.context;
        }
        rendered
    }
}

/// What a request's answer depends on besides the request.
#[derive(Copy, Clone, Debug)]
pub struct RequestContext<'a> {
    /// The local time.
    pub now: Option<DateTime>,
    /// The seed of requests without one.
    pub seed: u64,
    /// A unique id for the answer.
    pub id: &'a str,
}

impl<'a> RequestContext<'a> {
    /// The context of a request at a time given in seconds since 1970.
    pub fn new(unix_seconds: u64, seed: u64, id: &'a str) -> Self {
        Self {
            now: Some(DateTime::from_unix(unix_seconds as i64)),
            seed,
            id,
        }
    }
}

/// Prepares a request for the engine.
///
/// Shortens a conversation that is too long if the request says so ([`shorten`](crate::shorten)), and closes thinking
/// that the prompt opens if a constraint follows ([`ThinkingMarks::close`](crate::ThinkingMarks::close)).
pub fn prepare(
    request: &Generate,
    profile: &ModelProfile,
    context: RequestContext<'_>,
) -> Result<Prepared, Fault> {
    if profile.encoder {
        return Err(Fault::bad_request(
            "the model embeds texts and cannot generate any",
        ));
    }
    if request.prompts.is_empty() {
        return Err(Fault::bad_request("there is no prompt"));
    }
    if request.choices == 0 {
        return Err(Fault::bad_request("no answer is asked for: choices is 0"));
    }
    check_inputs(request.prompts.len())?;
    let positions = context_length(request, profile)?;
    let tools = ToolUse::new(request, profile)?;
    let mut prompts = Vec::new();
    let mut splits = Vec::new();
    let mut dropped = 0;
    let maker = PromptMaker {
        request,
        profile,
        tools: &tools,
        now: context.now,
    };
    for asked in &request.prompts {
        let mut made = maker.make(asked)?;
        made.prompt.context = positions;
        splits.extend(core::iter::repeat_n(made.split, request.choices));
        prompts.push(made.prompt);
        dropped += made.dropped;
    }
    let constraint = tools.constraint(request);
    let marked = SplitOptions {
        thinking: profile.thinking,
        calls: tools.format,
        ..SplitOptions::default()
    };
    let spelled = marked.spelled(&profile.tokenizer);
    let settings = profile.sampling_settings(&request.sampling, context.seed);
    let stop = if request.stop.is_empty() {
        &profile.stop
    } else {
        &request.stop
    };
    let most = request.max_tokens.or(profile.max_tokens);
    let requests = prompts.iter().map(|prompt| {
        let tokens = prompt.tokens.len();
        if tokens >= positions {
            let kind = FaultKind::ContextExceeded {
                prompt_tokens: tokens,
                context: positions,
            };
            return Err(Fault::new(
                kind,
                alloc::format!(
                    "the prompt has {tokens} tokens and the context has room for {positions}"
                ),
            ));
        }
        Ok(Request {
            prompt: prompt.tokens.clone(),
            images: prompt.images.clone(),
            sampling: settings.clone(),
            max_tokens: if positions < profile.context {
                Some(most.unwrap_or(usize::MAX).min(positions - tokens))
            } else {
                most
            },
            min_tokens: request.min_tokens,
            stop: stop.clone(),
            stop_tokens: request.stop_tokens.clone(),
            show_special: request.show_special,
            spelled: spelled.clone(),
            logprobs: request.logprobs,
            post_sampling: request.post_sampling,
            prompt_logprobs: request
                .prompt_logprobs
                .max(request.logprobs.filter(|_| request.echo)),
            ignore_end: request.ignore_end,
            progress: request.progress,
            speculation: profile.speculation,
            choices: Choices::Sample {
                n: request.choices,
                best_of: request.best_of.max(request.choices),
            },
            limits: Limits {
                deadline: request.time_limit,
                ..Limits::default()
            },
            cache: request.cache,
            ..Request::default()
        })
    });
    Ok(Prepared {
        requests: requests.collect::<Result<_, _>>()?,
        prompts,
        constraint,
        parser: AnswerParser::new(splits, context.id, request.tools.parallel),
        choices: request.choices,
        dropped,
    })
}

/// The context length of the request.
fn context_length(request: &Generate, profile: &ModelProfile) -> Result<usize, Fault> {
    match request.context {
        None => Ok(profile.context),
        Some(asked) if asked <= profile.context => Ok(asked),
        Some(asked) => Err(Fault::bad_request(alloc::format!(
            "a context of {asked} was asked for, and the server gives this model {}",
            profile.context
        ))),
    }
}

fn refused(error: &PromptError) -> Fault {
    if let PromptError::Media(fault) = error {
        return fault.clone();
    }
    let kind = match error {
        PromptError::Picture | PromptError::Audio => FaultKind::Unsupported,
        PromptError::Template(_) | PromptError::GoTemplate(_) => FaultKind::InvalidModel,
        PromptError::Render(_) | PromptError::GoRender(_) => FaultKind::Template,
        _ => FaultKind::BadRequest,
    };
    Fault::new(kind, error.to_string())
}

#[cfg(test)]
mod tests;
