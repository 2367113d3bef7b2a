//! From a dialect's request to the engine's.

use crate::answer_parser::AnswerParser;
use crate::model_profile::ModelProfile;
use crate::prompt::{self, Conversation, PromptError, RenderedPrompt};
use crate::splitter::SplitOptions;
use crate::tools::CallFormat;
use crate::tools::grammar::AnswerConstraint;
use crate::{
    Fault, FaultKind, Format, Generate, Message, PromptPart, Role, Thinking, Tool, ToolChoice,
    sampling,
};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use strata_engine::{Choices, Limits, Request};
use strata_template::jinja::DateTime;
use strata_tokenizer::EncodeOptions;

/// A request for text, ready for the engine.
#[derive(Debug)]
pub struct Prepared {
    /// One for each prompt. The server adds the client, the adapter and the compiled constraint.
    pub requests: Vec<Request>,
    /// The prompts as the model sees them.
    pub prompts: Vec<RenderedPrompt>,
    /// What the answers must look like: compiled into the requests' constraints, where it is not free.
    pub constraint: AnswerConstraint,
    /// Turns the engine's events into the dialect's.
    pub parser: AnswerParser,
    /// Answers to each prompt.
    pub choices: usize,
}

impl Prepared {
    /// What the model would be given: the prompts joined.
    pub fn rendered(self) -> RenderedPrompt {
        let mut rendered = RenderedPrompt::default();
        for prompt in self.prompts {
            rendered.text.push_str(&prompt.text);
            rendered.tokens.extend(prompt.tokens);
        }
        rendered
    }
}

/// What is not in a request: the world around it.
#[derive(Copy, Clone, Debug)]
pub struct RequestContext<'a> {
    /// The local time.
    pub now: Option<DateTime>,
    /// For requests that give no seed.
    pub seed: u64,
    /// The answer's name.
    pub id: &'a str,
}

impl<'a> RequestContext<'a> {
    /// A request at a time, in seconds since 1970.
    pub fn new(unix_seconds: u64, seed: u64, id: &'a str) -> Self {
        Self {
            now: Some(DateTime::from_unix(unix_seconds as i64)),
            seed,
            id,
        }
    }
}

/// Makes a request ready for the engine.
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
    let tools = ToolUse::new(request, profile)?;
    let mut prompts = Vec::new();
    let mut splits = Vec::new();
    for asked in &request.prompts {
        let mut prompt = read_prompt(request, asked, &tools, profile, context.now)?;
        if request.truncate {
            prompt = shorten(prompt, request, asked, &tools, profile, context.now)?;
        }
        let split = split_options(request, asked, &mut prompt, &tools, profile);
        follow(&request.before, &mut prompt, profile);
        splits.extend(core::iter::repeat_n(split, request.choices));
        prompts.push(prompt);
    }
    let constraint = tools.constraint(request)?;
    let marked = SplitOptions {
        thinking: profile.thinking,
        calls: tools.format,
        ..SplitOptions::default()
    };
    let spelled = marked.spelled(&profile.tokenizer);
    let positions = context_length(request, profile)?;
    let layers = [&request.sampling, &profile.sampling, &request.defaults];
    let settings = sampling::settings(layers, context.seed, &profile.tokenizer);
    let stop = match request.stop.is_empty() {
        true => profile.stop.clone(),
        false => request.stop.clone(),
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
            sampling: settings.clone(),
            max_tokens: match positions < profile.context {
                true => Some(most.unwrap_or(usize::MAX).min(positions - tokens)),
                false => most,
            },
            stop: stop.clone(),
            spelled: spelled.clone(),
            logprobs: request.logprobs,
            prompt_logprobs: request.logprobs.filter(|_| request.echo),
            ignore_end: request.ignore_end,
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
    })
}

/// Positions that the request may use: those that the model has here, or fewer.
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

/// A prompt that leaves room for an answer: without the oldest messages of a conversation, or the beginning of a text.
fn shorten(
    mut prompt: RenderedPrompt,
    request: &Generate,
    asked: &crate::Prompt,
    tools: &ToolUse<'_>,
    profile: &ModelProfile,
    now: Option<DateTime>,
) -> Result<RenderedPrompt, Fault> {
    let context = context_length(request, profile)?;
    let answer = request
        .max_tokens
        .or(profile.max_tokens)
        .unwrap_or(usize::MAX)
        .min(context / 4)
        .max(1);
    let room = context.saturating_sub(answer).max(1);
    if let crate::Prompt::Chat(messages) = asked {
        let mut messages = messages.clone();
        while prompt.tokens.len() > room {
            let system = |message: &Message| message.role == Role::System;
            let Some(oldest) = messages.iter().position(|message| !system(message)) else {
                break;
            };
            // The last message is what is asked.
            if oldest + 1 >= messages.len() {
                break;
            }
            messages.remove(oldest);
            let fewer = crate::Prompt::Chat(messages.clone());
            prompt = read_prompt(request, &fewer, tools, profile, now)?;
        }
    } else if prompt.tokens.len() > room {
        let cut = prompt.tokens.len() - room;
        prompt.tokens.drain(..cut);
    }
    Ok(prompt)
}

/// The tools of a request: which the model sees, which it may call, and how it writes tools.
struct ToolUse<'r> {
    /// What the model is told of.
    shown: Vec<Tool>,
    /// What it may call.
    allowed: Vec<&'r Tool>,
    required: bool,
    format: Option<CallFormat>,
}

impl<'r> ToolUse<'r> {
    fn new(request: &'r Generate, profile: &ModelProfile) -> Result<Self, Fault> {
        let tools = &request.tools;
        let named = |name: &String| {
            let found = tools.list.iter().find(|tool| tool.name == *name);
            found.ok_or_else(|| {
                Fault::bad_request(alloc::format!(
                    "tool_choice names {name:?}, which is not among the tools"
                ))
            })
        };
        let (allowed, required): (Vec<&Tool>, bool) = match &tools.choice {
            ToolChoice::Auto => (tools.list.iter().collect(), false),
            ToolChoice::None => (Vec::new(), false),
            ToolChoice::Required => (tools.list.iter().collect(), true),
            ToolChoice::Named(name) => ([named(name)?].into(), true),
            ToolChoice::Allowed { names, required } => {
                let allowed = names.iter().map(named).collect::<Result<_, _>>()?;
                (allowed, *required)
            }
        };
        if required && allowed.is_empty() {
            return Err(Fault::bad_request(
                "tool_choice requires a call and there are no tools",
            ));
        }
        let own = match &profile.template {
            Some(Ok(template)) => template.calls(),
            _ => CallFormat::Generic,
        };
        let format = match required {
            true => own.for_grammar(),
            false => own,
        };
        let free = request.format == Format::Text;
        let reads = match own.names_recipients() && !required {
            // Who is made to answer in a form names nobody.
            true => free,
            false => !allowed.is_empty(),
        };
        Ok(Self {
            shown: tools.list.clone(),
            format: reads.then_some(format),
            allowed,
            required,
        })
    }

    /// What the answer must look like: a call where one is required, else what the request says.
    fn constraint(&self, request: &Generate) -> Result<AnswerConstraint, Fault> {
        match (self.required, &request.format) {
            (false, Format::Text) => Ok(AnswerConstraint::Free),
            (false, format) => Ok(AnswerConstraint::Format(format.clone())),
            (true, Format::Text) => {
                let format = self.format.unwrap_or(CallFormat::Generic);
                Ok(AnswerConstraint::Calls(
                    format.calls(&self.allowed, request.tools.parallel),
                ))
            }
            (true, _) => Err(Fault::bad_request(
                "an answer cannot both follow response_format and be a required tool call",
            )),
        }
    }

    fn constrains(&self, request: &Generate) -> bool {
        self.required || request.format != Format::Text
    }
}

fn read_prompt(
    request: &Generate,
    asked: &crate::Prompt,
    tools: &ToolUse<'_>,
    profile: &ModelProfile,
    now: Option<DateTime>,
) -> Result<RenderedPrompt, Fault> {
    let tokenizer = &*profile.tokenizer;
    match asked {
        crate::Prompt::Chat(messages) => {
            let template = match &profile.template {
                Some(Ok(template)) => template,
                Some(Err(error)) => return Err(refused(error)),
                None => {
                    return Err(Fault::bad_request(
                        "the model has no chat template: give it a text to complete instead",
                    ));
                }
            };
            let thinking = match request.thinking {
                // A grammar begins at the answer, so the model is asked not to think unless that was asked for.
                Thinking::Default if tools.constrains(request) => Thinking::Off,
                thinking => thinking,
            };
            let messages = match request.before.is_empty() {
                true => with_opening(messages, profile),
                // What stands before has the opening.
                false => messages.clone(),
            };
            let conversation = Conversation {
                messages: &messages,
                tools: &tools.shown,
                thinking,
                continues: request.continues,
                now,
            };
            let prompt = template.prompt(tokenizer, &conversation);
            prompt.map_err(|error| refused(&error))
        }
        crate::Prompt::Raw(pieces) => {
            let mut prompt = RenderedPrompt::default();
            for piece in pieces {
                match piece {
                    PromptPart::Text(text) => {
                        // The prompt is all there is, so control tokens in it are read as such.
                        let options = EncodeOptions {
                            add_special: false,
                            parse_special: true,
                        };
                        prompt.tokens.extend(tokenizer.encode(text, options));
                        prompt.text.push_str(text);
                    }
                    PromptPart::Tokens(tokens) => prompt.tokens.extend(tokens),
                }
            }
            let only_tokens = pieces
                .iter()
                .all(|piece| matches!(piece, PromptPart::Tokens(_)));
            if !only_tokens {
                prompt.tokens = prompt::begin(tokenizer, prompt.tokens);
            }
            match prompt.tokens.is_empty() && request.before.is_empty() {
                true => Err(Fault::bad_request("the prompt is empty")),
                false => Ok(prompt),
            }
        }
        crate::Prompt::Infill {
            prefix,
            suffix,
            files,
        } => infill(profile, prefix, suffix, files),
    }
}

/// Puts tokens before a prompt, which then does not begin a text any more.
fn follow(before: &[u32], prompt: &mut RenderedPrompt, profile: &ModelProfile) {
    if before.is_empty() {
        return;
    }
    let begins = profile.tokenizer.special().bos;
    if prompt.tokens.first().copied() == begins && begins.is_some() {
        prompt.tokens.remove(0);
    }
    prompt.tokens.splice(0..0, before.iter().copied());
}

/// The conversation with the model's own beginning: its messages, and its system prompt where the client has none.
fn with_opening(messages: &[Message], profile: &ModelProfile) -> Vec<Message> {
    let has_system = messages.iter().any(|m| m.role == Role::System);
    let system = profile.system.iter().filter(|_| !has_system);
    let system = system.map(|text| Message::text(Role::System, text.clone()));
    let opening = system.chain(profile.messages.iter().cloned());
    opening.chain(messages.iter().cloned()).collect()
}

/// The prompt of a model that was trained to fill gaps: suffix before middle, other files in front.
fn infill(
    profile: &ModelProfile,
    prefix: &str,
    suffix: &str,
    files: &[(String, String)],
) -> Result<RenderedPrompt, Fault> {
    let tokenizer = &*profile.tokenizer;
    let special = tokenizer.special();
    let (Some(before), Some(after)) = (special.fim_pre, special.fim_suf) else {
        if let Some(Ok(template)) = &profile.template
            && files.is_empty()
            && let Some(prompt) = template.fill(tokenizer, prefix, suffix)
        {
            return prompt.map_err(|error| refused(&error));
        }
        return Err(Fault::new(
            FaultKind::Unsupported,
            "the model was not trained to fill gaps in a text",
        ));
    };
    let encode = |text: &str| tokenizer.encode(text, EncodeOptions::default());
    let mut tokens = Vec::new();
    for (name, text) in files {
        match special.fim_sep {
            Some(separator) => tokens.push(separator),
            None => tokens.extend(encode("\n\n--- snippet ---\n\n")),
        }
        tokens.extend(encode(&alloc::format!("{name}\n{text}")));
    }
    tokens.push(before);
    tokens.extend(encode(prefix));
    tokens.push(after);
    tokens.extend(encode(suffix));
    tokens.extend(special.fim_mid);
    Ok(RenderedPrompt {
        tokens: prompt::begin(tokenizer, tokens),
        text: [prefix, suffix].concat(),
    })
}

/// What to look for in the answer. A prompt that opens the model's thinking is closed where a grammar follows.
fn split_options(
    request: &Generate,
    asked: &crate::Prompt,
    prompt: &mut RenderedPrompt,
    tools: &ToolUse<'_>,
    profile: &ModelProfile,
) -> SplitOptions {
    if !matches!(asked, crate::Prompt::Chat(_)) {
        return SplitOptions::default();
    }
    let mut begins_thinking = profile
        .thinking
        .is_some_and(|marks| marks.opened_by(&prompt.text));
    if begins_thinking && tools.constrains(request) {
        let close = profile.thinking.map_or("", |marks| marks.end);
        let close = alloc::format!("{close}\n\n");
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        prompt
            .tokens
            .extend(profile.tokenizer.encode(&close, options));
        prompt.text.push_str(&close);
        begins_thinking = false;
    }
    SplitOptions {
        thinking: profile.thinking,
        begins_thinking,
        calls: tools.format,
        tools: tools.allowed.iter().map(|tool| tool.name.clone()).collect(),
    }
}

fn refused(error: &PromptError) -> Fault {
    let kind = match error {
        PromptError::Picture => FaultKind::Unsupported,
        _ => FaultKind::BadRequest,
    };
    Fault::new(kind, error.to_string())
}
