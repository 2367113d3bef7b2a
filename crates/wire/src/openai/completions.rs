//! `/v1/completions`: text that goes on where the prompt ends.

use super::chat::finish_reason;
use super::{Head, errors, usage};
use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::call::Call;
use crate::gather::Gathered;
use crate::logprobs::{finite, of_prompt};
use crate::request_fields::generation::{self, MAX_CHOICES, limit};
use crate::request_fields::inputs::{self, MAX_INPUTS};
use crate::request_fields::{answer_format, model};
use crate::stamp::Stamp;
use crate::timings::{self, ProgressReport};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::parameters::Ranges;
use strata_chat::{Event, Fault, Generate, Prompt, PromptPart, TokenLogprobs};

pub(super) fn open(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = model(&mut fields)?;
    let mut request = Generate::new(model, Prompt::text(""));
    request.prompts = prompts(&mut fields)?;
    let report = generation::read(&mut fields, &mut request, Ranges::Narrow)?;
    let newer = limit(&mut fields, "max_tokens", 0)?;
    let native = limit(&mut fields, "n_predict", 0)?;
    request.max_tokens = newer.or(native);
    request.echo = fields.maybe_boolean("echo")?.unwrap_or(false);
    let logprobs = fields.maybe_integer("logprobs", 0..=20)?;
    request.logprobs = logprobs.map(|number| number as usize);
    request.prompt_logprobs = generation::prompt_logprobs(&mut fields, request.stream)?;
    request.bos = fields.maybe_boolean("add_special_tokens")?.unwrap_or(true);
    request.format = answer_format::read(&mut fields)?;
    choices(&mut fields, &mut request)?;
    let told = generation::stream_usage(&mut fields, request.stream)?;
    let tokens = generation::token_key(&mut fields)?;
    request.tokens = tokens.is_some();
    fields.ignore(&["user"]);
    fields.finish()?;
    let answer = CompletionAnswer {
        head: Head::new("cmpl-", "text_completion", &request.model, stamp),
        stream: request.stream,
        logprobs: request.logprobs.is_some(),
        usage: told,
        tokens,
        report,
        prompt_logprobs: request.prompt_logprobs.is_some(),
        prompts: Vec::new(),
        choices_each: request.choices,
        choices: Vec::new(),
    };
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// The tokens that prompts would give the model, one object for each, for routers that look for prefixes.
pub(super) fn render(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let call = open(body, stamp)?;
    let Call::Generate(request, _) = call else {
        return Ok(call);
    };
    let object = "text_completion.render";
    let head = Head::new("render-", object, &request.model, stamp);
    Ok(Call::RenderEach(
        request,
        Box::new(move |prompts| {
            let each = prompts.iter().map(|rendered| {
                let object = head.object().with("prompt", rendered.text.as_str());
                let object = object.with("token_ids", rendered.tokens.clone());
                object.with("count", rendered.tokens.len())
            });
            Reply::json(&Json::array(each))
        }),
    ))
}

fn prompts(fields: &mut Fields) -> Result<Vec<Prompt>, Fault> {
    let prompts = inputs::field(fields, "prompt")?;
    let suffix = fields.maybe_string("suffix")?;
    let Some(suffix) = suffix.filter(|suffix| !suffix.is_empty()) else {
        return Ok(prompts.into_iter().map(Prompt::Raw).collect());
    };
    let path = fields.at("suffix");
    if fields.peek("echo") == Some(&true.into()) {
        return Err(Fault::field(&path, format_args!("needs echo to be false")));
    }
    let gap = |mut parts: Vec<PromptPart>| match (parts.pop(), parts.is_empty()) {
        (Some(PromptPart::Text(prefix)), true) => Ok(Prompt::Infill {
            prefix,
            suffix: suffix.clone(),
            files: Vec::new(),
        }),
        _ => Err(Fault::field(
            &path,
            format_args!("needs a prompt that is text"),
        )),
    };
    prompts.into_iter().map(gap).collect()
}

/// `n` and `best_of`, in bounds together with the prompts.
fn choices(fields: &mut Fields, request: &mut Generate) -> Result<(), Fault> {
    let n = fields.maybe_integer("n", 1..=MAX_CHOICES)?.unwrap_or(1);
    let best_of = fields
        .maybe_integer("best_of", 1..=MAX_CHOICES)?
        .unwrap_or(n);
    let path = fields.at("best_of");
    if best_of < n {
        return Err(Fault::field(&path, format_args!("must be at least n")));
    }
    if best_of > n && request.stream {
        let problem = format_args!("must be n where the answer is streamed");
        return Err(Fault::field(&path, problem));
    }
    if request.prompts.len().saturating_mul(best_of as usize) > MAX_INPUTS {
        return Err(Fault::field(
            &fields.at("n"),
            format_args!("asks for more than {MAX_INPUTS} answers to all prompts together"),
        ));
    }
    request.choices = n as usize;
    request.best_of = best_of as usize;
    Ok(())
}

struct CompletionAnswer {
    head: Head,
    stream: bool,
    logprobs: bool,
    usage: bool,
    tokens: Option<&'static str>,
    report: ProgressReport,
    prompt_logprobs: bool,
    /// What is told of the prompts beside their answers.
    prompts: Vec<Vec<(&'static str, Json)>>,
    /// Answers to each prompt.
    choices_each: usize,
    choices: Vec<Choice>,
}

#[derive(Default)]
struct Choice {
    gathered: Gathered,
    /// Characters of the tokens that were told.
    offset: usize,
}

impl CompletionAnswer {
    fn add(&mut self, index: usize, event: &Event) {
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        self.choices[index].gathered.add(event);
    }

    /// What has gathered of a choice, which is then forgotten.
    fn take(&mut self, index: usize) -> Json {
        let choice = &mut self.choices[index];
        let logprobs = choice.gathered.take_logprobs();
        let nothing = self.stream && logprobs.is_empty();
        let logprobs = if self.logprobs && !nothing {
            token_logprobs(&logprobs, &mut choice.offset)
        } else {
            Json::Null
        };
        let gathered = &mut choice.gathered;
        let reason = gathered.finish.take();
        let reason = reason.map(|reason| finish_reason(&reason, false));
        let mut object = Json::object([
            ("index", index.into()),
            ("text", core::mem::take(&mut gathered.text).into()),
            ("logprobs", logprobs),
            ("finish_reason", reason.into()),
        ]);
        let tokens = core::mem::take(&mut gathered.tokens);
        if let Some(key) = self.tokens {
            object.push(key, tokens);
        }
        let prompt = self.prompts.get(index / self.choices_each.max(1));
        for (key, value) in prompt.into_iter().flatten() {
            object.push(key, value.clone());
        }
        object
    }

    fn prompt(&mut self, index: usize, tokens: &[u32], logprobs: &[TokenLogprobs]) {
        if self.prompts.len() <= index {
            self.prompts.resize_with(index + 1, Vec::new);
        }
        if self.tokens == Some("token_ids") {
            let tokens = tokens.to_vec().into();
            self.prompts[index].push(("prompt_token_ids", tokens));
        }
        if self.prompt_logprobs {
            let logprobs = of_prompt(logprobs);
            self.prompts[index].push(("prompt_logprobs", logprobs));
        }
    }

    /// Sends how much of the prompt is computed.
    fn send_progress(&self, progress: Json, out: &mut Vec<u8>) {
        let chunk = self.head.object().with("choices", Vec::<Json>::new());
        server_sent(None, &chunk.with("prompt_progress", progress), out);
    }

    fn chunk(&mut self, index: usize, out: &mut Vec<u8>) {
        let choice = self.take(index);
        let mut chunk = self.head.object().with("choices", Json::array([choice]));
        if self.usage {
            chunk.push("usage", Json::Null);
        }
        self.report.add_timings(&mut chunk);
        server_sent(None, &chunk, out);
    }
}

impl AnswerWriter for CompletionAnswer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Started { .. } => {}
            Event::Prompt {
                prompt,
                tokens,
                logprobs,
                ..
            } => self.prompt(*prompt, tokens, logprobs),
            Event::Progress { .. } => {
                let progress = self.report.hear(event).filter(|_| self.stream);
                if let Some(progress) = progress {
                    self.send_progress(progress, out);
                }
            }
            Event::Token { choice, .. } => self.add(*choice, event),
            // A plain continuation has no thinking and no calls: all is text.
            Event::Thinking { choice, text } => {
                let (choice, text) = (*choice, text.clone());
                self.event(&Event::Text { choice, text }, out);
            }
            Event::Call { .. } => {}
            Event::Text { choice, .. } | Event::Finished { choice, .. } => {
                self.add(*choice, event);
                if self.stream {
                    self.chunk(*choice, out);
                }
            }
            Event::Done {
                usage: used,
                timings,
            } => {
                let choices: Vec<Json> = if self.stream {
                    Vec::new()
                } else {
                    (0..self.choices.len()).map(|i| self.take(i)).collect()
                };
                let mut document = self.head.object().with("choices", choices);
                document.push("usage", usage::usage(used));
                document.push("timings", timings::write(used, timings));
                if self.stream {
                    if self.usage {
                        server_sent(None, &document, out);
                    }
                    out.extend_from_slice(b"data: [DONE]\n\n");
                } else {
                    document.write(out);
                }
            }
            Event::Failed(fault) if self.stream => {
                server_sent(None, &errors::document(fault), out);
            }
            Event::Failed(_) => {}
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault)
    }

    fn answered_by(&mut self, model: &str) {
        self.head.answered_by(model);
    }
}

/// Lists side by side: tokens, their log-probabilities, alternatives, and where each begins in the text.
fn token_logprobs(tokens: &[TokenLogprobs], offset: &mut usize) -> Json {
    let (mut texts, mut own, mut top, mut offsets) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        let chosen = &token.chosen;
        // A character belongs to the token with its first byte.
        let begun = |byte: &&u8| **byte & 0xc0 != 0x80;
        offsets.push(*offset);
        *offset += chosen.bytes.iter().filter(begun).count();
        texts.push(token_text(&chosen.bytes));
        own.push(finite(chosen.logprob));
        if chosen.logprob.is_nan() {
            top.push(Json::Null);
            continue;
        }
        // The token itself is among them, likely or not.
        let mut pairs: Vec<(String, Json)> = Vec::new();
        for other in token.top.iter().chain([chosen]) {
            let text = token_text(&other.bytes);
            if pairs.iter().all(|(known, _)| *known != text) {
                pairs.push((text, finite(other.logprob).into()));
            }
        }
        top.push(Json::Object(pairs));
    }
    Json::object([
        ("tokens", texts.into()),
        ("token_logprobs", own.into()),
        ("top_logprobs", Json::Array(top)),
        ("text_offset", offsets.into()),
    ])
}

/// A token's text; its bytes as OpenAI writes them where it has only part of a character.
fn token_text(bytes: &[u8]) -> String {
    match core::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let escaped = bytes.iter().map(|byte| format!("\\x{byte:02x}"));
            ["bytes:".into()].into_iter().chain(escaped).collect()
        }
    }
}
