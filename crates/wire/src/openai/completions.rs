//! `/v1/completions`: text that goes on where the prompt ends.

use super::chat::finish_reason;
use super::{Head, errors, usage};
use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::call::Call;
use crate::gather::Gathered;
use crate::logprobs::finite;
use crate::request_fields::generation::{self, MAX_CHOICES, limit};
use crate::request_fields::inputs::{MAX_INPUTS, inputs};
use crate::request_fields::{answer_format, model};
use crate::stamp::Stamp;
use crate::timings;
use alloc::boxed::Box;
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
    generation::read(&mut fields, &mut request, Ranges::Narrow)?;
    let newer = limit(&mut fields, "max_tokens", 0)?;
    let native = limit(&mut fields, "n_predict", 0)?;
    request.max_tokens = newer.or(native);
    request.echo = fields.maybe_boolean("echo")?.unwrap_or(false);
    let logprobs = fields.maybe_integer("logprobs", 0..=20)?;
    request.logprobs = logprobs.map(|number| number as usize);
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
        choices: Vec::new(),
    };
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

fn prompts(fields: &mut Fields) -> Result<Vec<Prompt>, Fault> {
    let path = fields.at("prompt");
    let prompt = fields.take("prompt");
    let prompts = inputs(prompt.ok_or_else(|| fields.missing("prompt"))?, &path)?;
    let suffix = fields.maybe_string("suffix")?;
    let Some(suffix) = suffix.filter(|suffix| !suffix.is_empty()) else {
        let raw = |piece| Prompt::Raw([piece].into());
        return Ok(prompts.into_iter().map(raw).collect());
    };
    let gap = |piece| match piece {
        PromptPart::Text(prefix) => Ok(Prompt::Infill {
            prefix,
            suffix: suffix.clone(),
            files: Vec::new(),
        }),
        PromptPart::Tokens(_) => Err(Fault::field(
            &fields.at("suffix"),
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
        object
    }

    fn chunk(&mut self, index: usize, out: &mut Vec<u8>) {
        let choice = self.take(index);
        let mut chunk = self.head.object().with("choices", Json::array([choice]));
        if self.usage {
            chunk.push("usage", Json::Null);
        }
        server_sent(None, &chunk, out);
    }
}

impl AnswerWriter for CompletionAnswer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Started { .. } | Event::Prompt { .. } => {}
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
}

/// Lists side by side: tokens, their log-probabilities, alternatives, and where each begins in the text.
fn token_logprobs(tokens: &[TokenLogprobs], offset: &mut usize) -> Json {
    let (mut texts, mut own, mut top, mut offsets) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        let text = String::from_utf8_lossy(&token.chosen.bytes).into_owned();
        offsets.push(*offset);
        *offset += text.chars().count();
        texts.push(text);
        own.push(finite(token.chosen.logprob));
        let pairs = token.top.iter().map(|other| {
            let text = String::from_utf8_lossy(&other.bytes).into_owned();
            (text, Json::from(finite(other.logprob)))
        });
        top.push(Json::Object(pairs.collect()));
    }
    Json::object([
        ("tokens", texts.into()),
        ("token_logprobs", own.into()),
        ("top_logprobs", Json::Array(top)),
        ("text_offset", offsets.into()),
    ])
}
