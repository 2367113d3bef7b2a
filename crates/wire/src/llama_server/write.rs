//! Completions on their way out: one document, a list of them where there are several prompts, or events.

use super::{errors, settings};
use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::gather::Gathered;
use crate::logprobs::finite;
use crate::timings::{self, ProgressReport};
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{Event, Fault, Finish, Generate, Timings, TokenLogprob, TokenLogprobs, Usage};

pub(super) struct CompletionAnswer {
    model: String,
    stream: bool,
    probabilities: bool,
    post_sampling: bool,
    max_tokens: Option<usize>,
    options: ReplyOptions,
    settings: Json,
    prompts: Vec<Told>,
}

/// What of a request concerns only how its answer is written.
pub(super) struct ReplyOptions {
    pub(super) return_tokens: bool,
    /// Only these fields of a document, by their paths; all if there are none.
    pub(super) fields: Vec<String>,
    pub(super) report: ProgressReport,
}

/// What is known of a prompt and of its answer.
#[derive(Default)]
struct Told {
    prompt: String,
    prompt_tokens: usize,
    /// Since the last event went out, or all of it.
    gathered: Gathered,
    generated: usize,
    new_line: bool,
}

impl CompletionAnswer {
    pub(super) fn new(request: &Generate, texts: Vec<String>, options: ReplyOptions) -> Self {
        let told = |prompt| Told {
            prompt,
            ..Told::default()
        };
        Self {
            model: request.model.clone(),
            stream: request.stream,
            probabilities: request.logprobs.is_some(),
            post_sampling: request.post_sampling,
            max_tokens: request.max_tokens,
            options,
            settings: settings::write(request),
            prompts: texts.into_iter().map(told).collect(),
        }
    }

    fn prompt(&mut self, index: usize) -> &mut Told {
        if self.prompts.len() <= index {
            self.prompts.resize_with(index + 1, Told::default);
        }
        &mut self.prompts[index]
    }

    fn add(&mut self, index: usize, event: &Event) {
        let told = self.prompt(index);
        told.gathered.add(event);
        match event {
            Event::Token { .. } => told.generated += 1,
            Event::Text { text, .. } => told.new_line |= text.contains('\n'),
            _ => {}
        }
    }

    /// What has gathered of an answer, which is then forgotten.
    fn take(&mut self, index: usize, stop: bool) -> Json {
        let (stream, probabilities) = (self.stream, self.probabilities);
        let post_sampling = self.post_sampling;
        let tokens_told = stream || self.options.return_tokens;
        let told = self.prompt(index);
        let tokens = core::mem::take(&mut told.gathered.tokens);
        let mut object = Json::object([
            ("index", index.into()),
            ("content", core::mem::take(&mut told.gathered.text).into()),
            (
                "tokens",
                if tokens_told { tokens } else { Vec::new() }.into(),
            ),
            // Any place gives the same, so none is named.
            ("id_slot", Json::Int(-1)),
            ("stop", stop.into()),
            ("tokens_predicted", told.generated.into()),
            ("tokens_evaluated", told.prompt_tokens.into()),
        ]);
        let logprobs = told.gathered.take_logprobs();
        if probabilities && !(stop && stream) {
            let list = logprobs
                .iter()
                .map(|token| probability(token, post_sampling));
            object.push("completion_probabilities", Json::array(list));
        }
        object
    }

    fn end(&mut self, index: usize, used: &Usage, timings: &Timings) -> Json {
        let mut object = self.take(index, true);
        let told = &self.prompts[index];
        let (kind, word) = match &told.gathered.finish {
            None => ("none", ""),
            Some(Finish::Length) => ("limit", ""),
            Some(Finish::StopText(word)) => ("word", word.as_str()),
            Some(Finish::Stop | Finish::ToolCalls) => ("eos", ""),
        };
        object.push("model", self.model.as_str());
        object.push("generation_settings", self.settings.clone());
        object.push("prompt", told.prompt.as_str());
        object.push("has_new_line", told.new_line);
        let cut = told.gathered.finish == Some(Finish::Length)
            && self.max_tokens.is_none_or(|most| told.generated < most);
        object.push("truncated", cut);
        object.push("stop_type", kind);
        object.push("stopping_word", word);
        object.push("tokens_cached", used.cached_tokens);
        object.push("timings", timings::write(used, timings));
        if self.options.fields.is_empty() || self.stream {
            return object;
        }
        let fields = self.options.fields.iter();
        let found = fields.filter_map(|path| {
            let mut parts = path.split('/');
            let value = parts.try_fold(&object, |value, key| value.get(key))?;
            Some((path.clone(), value.clone()))
        });
        Json::Object(found.collect())
    }

    /// What an event adds to a stream.
    fn piece(&mut self, index: usize, out: &mut Vec<u8>) {
        let mut piece = self.take(index, false);
        self.options.report.add_timings(&mut piece);
        server_sent(None, &piece, out);
    }
}

impl AnswerWriter for CompletionAnswer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            // Of several prompts only their sum is known here; each of them is told on its own.
            Event::Started { prompt_tokens, .. } => {
                if let [only] = self.prompts.as_mut_slice() {
                    only.prompt_tokens = *prompt_tokens;
                }
            }
            Event::Prompt {
                prompt,
                text,
                tokens,
                ..
            } => {
                let told = self.prompt(*prompt);
                told.prompt_tokens = tokens.len();
                if !text.is_empty() {
                    told.prompt.clone_from(text);
                }
            }
            Event::Progress { .. } => {
                let progress = self.options.report.hear(event).filter(|_| self.stream);
                if let Some(progress) = progress {
                    let mut piece = self.take(0, false).with("prompt_progress", progress);
                    self.options.report.add_timings(&mut piece);
                    server_sent(None, &piece, out);
                }
            }
            // A plain continuation has no thinking and no calls: all is text.
            Event::Thinking { choice, text } => {
                let (choice, text) = (*choice, text.clone());
                self.event(&Event::Text { choice, text }, out);
            }
            Event::Call { .. } => {}
            Event::Token { choice, .. } | Event::Finished { choice, .. } => {
                self.add(*choice, event);
            }
            Event::Text { choice, .. } => {
                self.add(*choice, event);
                if self.stream {
                    self.piece(*choice, out);
                }
            }
            Event::Done {
                usage: used,
                timings,
            } => {
                let (count, stream) = (self.prompts.len(), self.stream);
                let mut ends = (0..count).map(|i| self.end(i, used, timings));
                if stream {
                    ends.for_each(|end| server_sent(None, &end, out));
                } else if count == 1 {
                    ends.next().unwrap_or_default().write(out);
                } else {
                    Json::array(ends).write(out);
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
        if self.model.is_empty() {
            self.model = model.into();
        }
    }
}

/// A token and its alternatives: with log-probabilities, or with the probabilities that it was drawn with.
fn probability(token: &TokenLogprobs, post_sampling: bool) -> Json {
    // What the samplers left nothing of could not have been drawn.
    let possible = |other: &&TokenLogprob| !post_sampling || libm::expf(other.logprob) > 0.0;
    let top = token.top.iter().filter(possible);
    let top = top.map(|other| one(other, post_sampling));
    let key = if post_sampling {
        "top_probs"
    } else {
        "top_logprobs"
    };
    one(&token.chosen, post_sampling).with(key, Json::array(top))
}

fn one(token: &TokenLogprob, post_sampling: bool) -> Json {
    let bytes = token.bytes.iter().map(|&byte| Json::from(u32::from(byte)));
    let text = String::from_utf8_lossy(&token.bytes);
    Json::object([
        ("id", token.token.into()),
        ("token", text.as_ref().into()),
        ("bytes", Json::array(bytes)),
        if post_sampling {
            ("prob", libm::expf(token.logprob).into())
        } else {
            ("logprob", finite(token.logprob).into())
        },
    ])
}
